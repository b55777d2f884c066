"""Reports about links in each format, read back by a reader of the format."""

from __future__ import annotations

import csv
import html.parser
import io
import json
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from lycosa.inspect.linked.link_findings import (
    RULES,
    LinkCounts,
    LinkFinding,
    LinkReport,
    Severity,
)
from lycosa.inspect.linked.report_files import FORMATS, SUFFIXES, read_report, written
from lycosa.inspect.printable import clean

PAGE, TARGET = "https://e.org/<page>", "https://e.org/a?b=1&c=<2>"


def finding(rule: str = "not-found", **values: Any) -> LinkFinding:
    fields: dict[str, Any] = {
        "severity": RULES[rule].own,
        "page": PAGE,
        "target": TARGET,
        "why": "not found",
        "line": 3,
        "kind": "a",
        "text": 'say "x" & <y>',
        "link": "/a?b=1",
        "status": 404,
    }
    return LinkFinding(rule, **{**fields, **values})


def report(*findings: LinkFinding, **values: Any) -> LinkReport:
    counts = LinkCounts(2, 30, 20, 4, {"mailto": 3})
    return LinkReport(
        1, "lycosa/1.2", ["https://e.org/"], "2026-01-31T12:00:00Z", "2026-01-31T12:01:00Z",
        counts, list(findings), **values,
    )  # fmt: skip


ALL = report(*(finding(rule) for rule in RULES), finding(line=0, chain=["https://e.org/z"]))
anything = some.text(some.characters(codec="utf-8"), max_size=20)


def test_json_is_read_back_as_the_same_report() -> None:
    assert read_report(written(ALL, "json").encode()) == ALL


def test_csv_has_a_row_for_each_finding() -> None:
    rows = list(csv.DictReader(io.StringIO(written(ALL, "csv"))))
    assert [each["rule"] for each in rows] == [each.rule for each in ALL.findings]
    assert (rows[0]["text"], rows[0]["target"], rows[0]["status"]) == (
        'say "x" & <y>',
        TARGET,
        "404",
    )


def test_a_spreadsheet_runs_no_text_of_a_page() -> None:
    (row,) = csv.DictReader(io.StringIO(written(report(finding(text="=1+1")), "csv")))
    assert row["text"] == "'=1+1"


def test_junit_has_a_failure_for_each_error() -> None:
    root = ElementTree.fromstring(written(ALL, "junit"))
    assert len(root.findall(".//failure")) == ALL.number(Severity.ERROR)
    assert len(root.findall(".//skipped")) == ALL.number(Severity.UNCHECKED)
    assert len(root.findall(".//testcase")) == len(ALL.findings) + 1 == int(root.attrib["tests"])
    for suite in root:
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        assert int(suite.attrib["failures"]) == len(suite.findall(".//failure"))


def test_junit_is_not_empty_when_all_links_are_fine() -> None:
    (suite,) = ElementTree.fromstring(written(report(), "junit"))
    assert [each.tag for each in suite] == ["testcase"]


def test_sarif_has_results_with_rule_level_and_line() -> None:
    (run,) = json.loads(written(ALL, "sarif"))["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result, found in zip(run["results"], ALL.findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == found.rule
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == found.page
        assert place.get("region", {"startLine": 0})["startLine"] == found.line
    levels = {each["level"] for each in run["results"]}
    assert levels == {"error", "warning", "note"}


def test_sarif_knows_a_finding_again_on_another_line() -> None:
    one, other = (
        json.loads(written(report(finding(line=line)), "sarif"))["runs"][0]["results"][0]
        for line in (1, 2)
    )
    assert one["partialFingerprints"] == other["partialFingerprints"]


class _Reader(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links |= {value or "" for name, value in attrs if name == "href"}


def test_html_has_links_to_pages_and_targets_and_nothing_of_a_page_runs() -> None:
    reader = _Reader()
    bad = finding(text="<script>x</script>", target="javascript:alert(1)")
    reader.feed(written(report(finding(), bad), "html"))
    assert {PAGE, TARGET} <= reader.links
    assert "script" not in reader.tags
    assert not any(each.startswith("javascript") for each in reader.links)


def test_text_has_each_page_with_lines_and_reasons() -> None:
    lines = written(report(finding()), "text").splitlines()
    assert lines[0] == PAGE
    assert lines[1] == f'  line 3: "say "x" & <y>" {TARGET}  not found (404)'
    assert lines[-1].startswith("1 broken, 0 warnings, 0 not checked; 2 pages")


def test_text_has_a_link_of_a_menu_once() -> None:
    found = [finding(page=f"https://e.org/{number}") for number in range(20)]
    text = written(report(*found), "text")
    assert text.count(TARGET) == 1
    assert "on 20 pages" in text


def test_text_says_what_is_new_and_what_is_missing() -> None:
    text = written(report(since="2026-01-30T12:00:00Z", known=4, stopped="a limit"), "text")
    assert "new since 2026-01-30T12:00:00Z; known before: 4" in text
    assert "not complete: a limit" in text


@pytest.mark.parametrize("form", FORMATS)
@given(anything, anything, anything)
def test_any_text_of_a_page_is_written(form: str, text: str, link: str, why: str) -> None:
    found = finding(text=text, link=link, target=link, why=why, page=f"https://e.org/{text}")
    content = written(report(found), form)
    content.encode()
    if form == "junit":
        ElementTree.fromstring(content)
    elif form == "csv":
        assert len(list(csv.reader(io.StringIO(content)))) == 2
    elif form in ("json", "sarif"):
        msgspec.json.decode(content)
    assert "\x1b" not in content


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_has_what_a_terminal_obeys(form: str) -> None:
    nasty = "\x1b[2J\x9b31m\u202e\u2028\x7f\x00"
    said = written(report(finding(text=nasty, link=nasty, why=nasty)), form)
    lines = said.replace("\r\n", "\n").split("\n")
    assert [clean(line) for line in lines] == lines


def test_each_format_but_text_has_a_name_of_files() -> None:
    assert set(SUFFIXES.values()) == set(FORMATS)
