"""A report about links for other programs: CSV, JSON, JUnit, SARIF.

JUnit has no standard; the elements are those that Jenkins, GitLab and GitHub's actions read, by the
schema ``junit-10.xsd`` of Jenkins' plug-in xUnit. SARIF is version 2.1.0 (OASIS).
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import msgspec

from lycosa.inspect.linked.link_findings import RULES, LinkFinding, LinkReport, Severity, by_page
from lycosa.inspect.linked.report_texts import (
    html_lines,
    reason_text,
    report_lines,
    summary_line,
)
from lycosa.inspect.printable import clean, neutral, safe_json

_COLUMNS = (
    *("severity", "rule", "page", "line", "kind", "text", "link", "target", "status", "why"),
    "redirects",
)
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.UNCHECKED: "note"}
_NOT_IN_XML = {ord("\ufffe"): None, ord("\uffff"): None}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def written(report: LinkReport, form: str) -> str:
    """The report in a format of ``FORMATS``, with a line end at its end."""
    return FORMATS[form](report)


def read_report(content: bytes) -> LinkReport:
    """A report that was written as JSON. Raises ``msgspec.MsgspecError``."""
    return msgspec.json.decode(content, type=LinkReport)


def _text(report: LinkReport) -> str:
    return "".join(f"{clean(line)}\n" for line in report_lines(report))


def _html(report: LinkReport) -> str:
    return "\n".join(html_lines(report)) + "\n"


def _json(report: LinkReport) -> str:
    return _json_of(report)


def _csv(report: LinkReport) -> str:
    """Text that a spreadsheet would treat as a formula gets an apostrophe in front."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(_COLUMNS)
    for found in report.findings:
        values = (
            *(found.severity.value, found.rule, found.page, found.line or "", found.kind),
            *(found.text, found.link, found.target, found.status or "", found.why),
            " ".join(found.chain),
        )
        rows.writerow([neutral(clean(str(each))) for each in values])
    return out.getvalue()


def _junit(report: LinkReport) -> str:
    """A suite for each page with findings; a first one for all links, so that none is not empty."""
    failures = report.number(Severity.ERROR)
    suites = [
        _suite("all links", [f"    <testcase {_case('links', summary_line(report))}/>"], 0, 0)
    ]
    for page, found in by_page(report.findings).items():
        failed = sum(each.severity is Severity.ERROR for each in found)
        passed_over = sum(each.severity is Severity.UNCHECKED for each in found)
        suites.append(_suite(page, list(map(_junit_case, found)), failed, passed_over))
    head = (
        f'<testsuites name="lycosa check links" tests="{len(report.findings) + 1}"'
        f' failures="{failures}" errors="0">'
    )
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *suites, "</testsuites>", ""])


def _suite(name: str, cases: list[str], failures: int, skipped: int) -> str:
    head = (
        f"  <testsuite name={_attribute(name)} tests={_attribute(str(len(cases)))}"
        f' failures="{failures}" errors="0" skipped="{skipped}">'
    )
    return "\n".join([head, *cases, "  </testsuite>"])


def _junit_case(found: LinkFinding) -> str:
    place = f", line {found.line}" if found.line else ""
    case = _case(found.page, f"{found.rule}: {found.target}{place}")
    text = f"{found.text} {found.link}".strip() + "".join(f"\n-> {url}" for url in found.chain)
    if found.severity is Severity.ERROR:
        inner = (
            f"<failure type={_attribute(found.rule)} message={_attribute(reason_text(found))}>"
            f"{_content(text)}</failure>"
        )
    elif found.severity is Severity.UNCHECKED:
        inner = f"<skipped>{_content(reason_text(found))}</skipped>"
    else:
        inner = f"<system-out>{_content(f'warning: {reason_text(found)}')}</system-out>"
    return f"    <testcase {case}>{inner}</testcase>"


def _case(page: str, name: str) -> str:
    return f'classname={_attribute(page)} name={_attribute(name)} time="0"'


def _attribute(text: str) -> str:
    return quoteattr(_xml_text(text))


def _content(text: str) -> str:
    return escape(_xml_text(text))


def _xml_text(text: str) -> str:
    """The text without what a terminal obeys and XML 1.0 does not have, in its own lines."""
    lines = map(clean, text.encode("utf-8", "replace").decode().split("\n"))
    return "\n".join(lines).translate(_NOT_IN_XML)


def _sarif(report: LinkReport) -> str:
    used = list(dict.fromkeys(each.rule for each in report.findings))
    rules = [
        {
            "id": name,
            "shortDescription": {"text": RULES[name].meaning},
            "defaultConfiguration": {"level": _LEVELS[RULES[name].own]},
        }
        for name in used
    ]
    run = {
        "tool": {
            "driver": {
                "name": "Lycosa",
                "version": report.program.rpartition("/")[2],
                "rules": rules,
            }
        },
        "invocations": [
            {
                "executionSuccessful": not report.stopped,
                "startTimeUtc": report.began,
                "endTimeUtc": report.ended,
            }
        ],
        "results": [_result(each, used.index(each.rule)) for each in report.findings],
    }
    document = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return _json_of(document)


def _json_of(document: object) -> str:
    return safe_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def _result(found: LinkFinding, rule: int) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": found.page}}
    if found.line:
        location["region"] = {"startLine": found.line}
    text = f'"{found.text}": ' if found.text else ""
    key = "\n".join(found.key).encode("utf-8", "replace")
    return {
        "ruleId": found.rule,
        "ruleIndex": rule,
        "level": _LEVELS[found.severity],
        "message": {"text": f"{text}{found.target} {reason_text(found)}"},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"link/v1": hashlib.sha256(key).hexdigest()},
        "properties": {"target": found.target, "status": found.status, "redirects": found.chain},
    }


FORMATS: dict[str, Callable[[LinkReport], str]] = {
    "text": _text,
    "html": _html,
    "csv": _csv,
    "json": _json,
    "junit": _junit,
    "sarif": _sarif,
}
"""The formats by name."""

SUFFIXES = {
    ".txt": "text",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
    ".json": "json",
    ".xml": "junit",
    ".sarif": "sarif",
}
"""The format of a file by the end of its name."""
