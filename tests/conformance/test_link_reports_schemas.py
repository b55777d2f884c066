"""Reports about links by the published schemas of their formats."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from lxml import etree

from lycosa.inspect.linked.link_findings import RULES, LinkCounts, LinkFinding, LinkReport
from lycosa.inspect.linked.report_files import written

DATA = Path(__file__).parents[2].parent / "shared" / "link-reports"
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not DATA.is_dir(), reason="the schemas are not beside the checkout"),
]
PAGE = "https://e.org/"
REPORT = LinkReport(
    1,
    "lycosa/1.2",
    [PAGE],
    "2026-01-31T12:00:00Z",
    "2026-01-31T12:01:00Z",
    LinkCounts(1, 2, 2, 1, {}),
    [
        LinkFinding(
            rule, RULES[rule].own, PAGE, f"{PAGE}{number}", "why", number, "a", "<&", "x", 404
        )
        for number, rule in enumerate(RULES)
    ],
)
REPORTS = pytest.mark.parametrize(
    "report", [REPORT, msgspec.structs.replace(REPORT, findings=[])], ids=["all rules", "nothing"]
)


@REPORTS
def test_junit_is_valid_by_the_schema_of_jenkins(report: LinkReport) -> None:
    schema = etree.XMLSchema(etree.parse(str(DATA / "junit-10.xsd")))
    schema.assertValid(etree.fromstring(written(report, "junit").encode()))


@REPORTS
def test_sarif_is_valid_by_the_schema_of_oasis(report: LinkReport) -> None:
    schema = json.loads((DATA / "sarif-schema-2.1.0.json").read_bytes())
    jsonschema.validate(json.loads(written(report, "sarif")), schema)
