"""What a report about links has: findings, each by a rule with a severity, and the whole report."""

from __future__ import annotations

from enum import Enum

import msgspec

REPORT_FORMAT = 1


class Severity(Enum):
    """How much a finding counts: ``unchecked`` is no verdict, ``off`` is not reported."""

    ERROR = "error"
    WARNING = "warning"
    UNCHECKED = "unchecked"
    OFF = "off"


class FindingRule(msgspec.Struct, frozen=True):
    """A rule: what it finds in one line, and its severity for links to own pages and to others."""

    meaning: str
    own: Severity
    other: Severity


_E, _W, _U = Severity.ERROR, Severity.WARNING, Severity.UNCHECKED

RULES: dict[str, FindingRule] = {
    "not-found": FindingRule("the server has no such page (404, 410)", _E, _E),
    "http-error": FindingRule("the server answers with an error", _E, _E),
    "unreachable": FindingRule("no server answers: name, connection or certificate", _E, _E),
    "timeout": FindingRule("the server did not answer in time", _E, _E),
    "redirect-loop": FindingRule("redirects lead in a circle, or there are too many", _E, _E),
    "redirect-broken": FindingRule("the link redirects to a URL that is broken", _E, _E),
    "fragment-missing": FindingRule("the page has no such place (#...)", _E, _W),
    "invalid-url": FindingRule("the reference is no URL that a browser opens", _E, _E),
    "access-denied": FindingRule(
        "the server wants a login or refuses (401, 402, 403, 451)", _E, _W
    ),
    "redirect-permanent": FindingRule("the target has moved for good: link to the new URL", _W, _W),
    "mixed-content": FindingRule("a page of https loads something by http", _W, _W),
    "sitemap-orphan": FindingRule("the sitemap lists a page to which no page links", _W, _W),
    "no-sitemap": FindingRule("what is named as a sitemap is a web page", _E, _W),
    "not-in-sitemap": FindingRule("the sitemap does not list a page of the site", _W, _W),
    "robots": FindingRule("robots.txt forbids the request", _U, _U),
    "later": FindingRule("the server asks to come back later (429, 503)", _U, _U),
    "not-checked": FindingRule("not requested, or not read to the place", _U, _U),
}
"""By name; the names are part of the report formats and are not changed."""


class LinkFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding.

    ``page`` is where the link stands (the sitemap for what it lists), ``line`` its line there or 0,
    ``link`` the reference as written, ``target`` the URL, with its fragment. ``status`` is the last
    HTTP status or 0, ``why`` the reason in words, ``chain`` the URLs of redirects after ``target``.
    """

    rule: str
    severity: Severity
    page: str
    target: str
    why: str
    line: int = 0
    kind: str = ""
    text: str = ""
    link: str = ""
    status: int = 0
    chain: list[str] = []

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same finding in the next report: not its line or its words."""
        return self.rule, self.page, self.target


class LinkCounts(msgspec.Struct, frozen=True):
    """``links`` counts each link of a page once, ``targets`` URLs, ``hosts`` their hosts.

    ``skipped`` are references with other schemes, as ``mailto``, by scheme.
    """

    pages: int
    links: int
    targets: int
    hosts: int
    skipped: dict[str, int]


class LinkReport(msgspec.Struct, frozen=True):
    """The report. Times are ISO 8601 in UTC. ``stopped`` says why the check is not complete.

    With ``since`` (a time), ``findings`` has only what the report of then did not have, and
    ``known`` counts the others.
    """

    format: int
    program: str
    seeds: list[str]
    began: str
    ended: str
    counts: LinkCounts
    findings: list[LinkFinding]
    stopped: str = ""
    since: str = ""
    known: int = 0

    def number(self, severity: Severity) -> int:
        """The number of findings of a severity."""
        return sum(each.severity is severity for each in self.findings)


def new_since(report: LinkReport, earlier: LinkReport) -> LinkReport:
    """The report with only the findings that the earlier one does not have."""
    known = {each.key for each in earlier.findings}
    new = [each for each in report.findings if each.key not in known]
    return msgspec.structs.replace(
        report, findings=new, since=earlier.ended, known=len(report.findings) - len(new)
    )


def by_page(findings: list[LinkFinding]) -> dict[str, list[LinkFinding]]:
    """The findings of each page, pages in the order of their URLs."""
    pages: dict[str, list[LinkFinding]] = {}
    for each in sorted(findings, key=lambda one: (one.page, one.line, one.target, one.rule)):
        pages.setdefault(each.page, []).append(each)
    return pages
