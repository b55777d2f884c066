"""A report about links in words: lines for a terminal, and one HTML page."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator

from lycosa.inspect.linked.link_findings import RULES, LinkFinding, LinkReport, Severity, by_page
from lycosa.inspect.printable import clean

_MANY_PAGES = 5
"""A broken link on more pages than this is usually in a menu: it is shown once."""
_FEW = 3
_SHOWN = (Severity.ERROR, Severity.WARNING)
_WORDS = {
    Severity.ERROR: "broken",
    Severity.WARNING: "warning",
    Severity.UNCHECKED: "not checked",
}
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;"
    "padding:.3rem .6rem;border-top:1px solid #ccc;overflow-wrap:anywhere}"
    ".error{color:#a00}.warning{color:#850}.unchecked{color:#555}h2{font-size:1rem;"
    "margin-top:2rem;overflow-wrap:anywhere}"
)


def summary_line(report: LinkReport) -> str:
    """What was checked, and how many findings there are, in one line."""
    counts = report.counts
    new = "new " if report.since else ""
    errors, warnings, unchecked = map(report.number, _WORDS)
    return (
        f"{errors:,} {new}broken, {exact_count(warnings, f'{new}warning')},"
        f" {unchecked:,} not checked;"
        f" {exact_count(counts.pages, 'page')}, {exact_count(counts.links, 'link')} to"
        f" {exact_count(counts.targets, 'URL')} on {exact_count(counts.hosts, 'host')}"
    )


def exact_count(number: int, what: str) -> str:
    """``1 page``, ``2,345 pages``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def report_lines(report: LinkReport) -> Iterator[str]:
    """The report for a terminal: by page, then what is on many pages, then what was not checked."""
    shown = [each for each in report.findings if each.severity in _SHOWN]
    pages = {(each.rule, each.target, each.page) for each in shown}
    number = Counter((rule, target) for rule, target, _ in pages)
    common = {key for key, many in number.items() if many > _MANY_PAGES}
    single = [each for each in shown if (each.rule, each.target) not in common]
    for page, found in by_page(single).items():
        yield page
        yield from (f"  {_line(each)}" for each in found)
        yield ""
    for rule, target in sorted(common):
        of_target = [each for each in shown if (each.rule, each.target) == (rule, target)]
        named = list(dict.fromkeys(each.page for each in of_target))
        yield f"on {len(named):,} pages, as {', '.join(named[:_FEW])}"
        yield f"  {_line(of_target[0])}"
        yield ""
    yield from _unchecked_lines(report)
    yield from _notes(report)
    yield summary_line(report)


def _notes(report: LinkReport) -> Iterator[str]:
    """What to know about a report as a whole."""
    if report.counts.skipped:
        skipped = ", ".join(f"{name}: {count:,}" for name, count in report.counts.skipped.items())
        yield f"not for browsers to request: {skipped}"
    if report.since:
        yield f"only what is new since {report.since}; known before: {report.known:,}"
    if report.stopped:
        yield f"not complete: {report.stopped}"


def _unchecked_lines(report: LinkReport) -> Iterator[str]:
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for each in report.findings:
        if each.severity is Severity.UNCHECKED:
            reasons.setdefault((each.rule, each.why), {})[each.target] = None
    for (_, why), targets in sorted(reasons.items()):
        more = f" and {len(targets) - _FEW:,} more" if len(targets) > _FEW else ""
        yield f"not checked, {why}: {', '.join(list(targets)[:_FEW])}{more}"


def _line(found: LinkFinding) -> str:
    place = f"line {found.line}: " if found.line else ""
    text = f'"{found.text}" ' if found.text else ""
    mark = "" if found.severity is Severity.ERROR else f"{_WORDS[found.severity]}: "
    circle = f": {' -> '.join(found.chain[:_FEW])}" if found.rule == "redirect-loop" else ""
    return f"{mark}{place}{text}{found.target}  {reason_text(found)}{circle}"


def reason_text(found: LinkFinding) -> str:
    """The reason with the status: ``not found (404)``."""
    is_given = not found.status or str(found.status) in found.why or 200 <= found.status < 400
    return found.why if is_given else f"{found.why} ({found.status})"


def html_lines(report: LinkReport) -> Iterator[str]:
    """The report as a page without scripts; everything from pages is escaped."""
    title = _escaped(f"Links of {' '.join(report.seeds)}")
    yield f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>'
    yield f"<style>{_STYLE}</style><h1>{title}</h1>"
    yield f"<p>{_escaped(summary_line(report))}. Checked {report.began} to {report.ended}.</p>"
    for note in _notes(report):
        yield f"<p>{_escaped(note[0].upper() + note[1:])}.</p>"
    for page, found in by_page(report.findings).items():
        yield f"<h2>{_address(page)}</h2><table><tr><th>Line<th>Text<th>Target<th>Finding"
        yield from map(_row, found)
        yield "</table>"
    used = {each.rule for each in report.findings}
    yield "<h2>Rules</h2><table>"
    for name, rule in RULES.items():
        if name in used:
            yield f"<tr><td>{name}<td>{_escaped(rule.meaning)}"
    yield "</table></html>"


def _row(found: LinkFinding) -> str:
    chain = "".join(f"<br>→ {_address(url)}" for url in found.chain)
    return (
        f'<tr class="{found.severity.value}"><td>{found.line or ""}<td>{_escaped(found.text)}'
        f"<td>{_address(found.target)}{chain}<td>{_WORDS[found.severity]}:"
        f" {_escaped(reason_text(found))} <small>{found.rule}</small>"
    )


def _address(url: str) -> str:
    """A link, if it is one that a browser may open."""
    text = _escaped(url)
    return f'<a href="{text}" rel="noreferrer">{text}</a>' if url.startswith("http") else text


def _escaped(text: str) -> str:
    return html.escape(clean(text))
