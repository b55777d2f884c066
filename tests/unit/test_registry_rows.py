"""Rows of a registry: every column is documented, and values of the web become values that a
database accepts.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.identity import hash8
from lycosa.feeds.registry.postgres_schema import month_statement, table_statements
from lycosa.feeds.registry.registry_rows import (
    REGISTRY_HOSTS,
    REGISTRY_LOG,
    REGISTRY_URLS,
    HostSummary,
    registry_capture,
    registry_host,
    registry_url,
    row_time,
)
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.state.commit import Mark
from lycosa.state.kv.table_records import UrlRecord, url_key

DOCUMENT = (Path(__file__).parents[2] / "docs" / "registry.md").read_text("utf-8")
HOST = HostSummary("www.example.org", "example.org", "parked")
URL = "https://www.example.org/a?b"
KEY = url_key(hash8("www.example.org"), hash8(URL))


def url_values(when_ahead_s: float = 0.0, **fields: object) -> dict[str, object]:
    record = UrlRecord(UrlState.QUEUED, True, "/a?b", 2, 51, LinkKind.A, 1_000)
    for name, value in fields.items():
        setattr(record, name, value)
    when = row_time(Mark(3, 7), 5_000.0, 5_000.0 + when_ahead_s)
    return dict(zip(REGISTRY_URLS, registry_url(4, KEY, record, HOST, when), strict=False))


@pytest.mark.parametrize("columns", [REGISTRY_URLS, REGISTRY_LOG])
def test_every_column_is_documented(columns: dict[str, str]) -> None:
    assert [name for name in columns if f"`{name}`" not in DOCUMENT] == []


def test_rows_have_a_value_for_each_column() -> None:
    when = row_time(Mark(3, 7), 5_000.0, 0.0)
    record = VisitRecord("www.example.org", HostState.READY)
    row = registry_host(4, b"H" + hash8("www.example.org"), record, HOST, when)
    assert len(row) == len(REGISTRY_HOSTS) + 4
    assert row[-4:-1] == (4, 3, 7)


def test_a_queued_url_has_the_status_of_its_host() -> None:
    assert url_values()["status"] == "parked"
    assert url_values(state=UrlState.FETCHED)["status"] == "fetched"
    assert (url_values()["url"], url_values()["path"]) == (URL, "/a?b")


def test_the_rate_of_change_counts_refetches_alone() -> None:
    assert url_values(history=History(1, 2_000, 200))["change_rate"] is None
    assert url_values(history=History(5, 2_000, 200, changes=1))["change_rate"] == 0.25


def test_a_fingerprint_of_64_bits_becomes_a_signed_integer() -> None:
    assert url_values(history=History(simhash=(1 << 64) - 1))["simhash"] == -1
    assert url_values(history=History(simhash=5))["simhash"] == 5
    assert url_values(history=History())["simhash"] is None


def test_waits_are_shown_by_the_wall_clock() -> None:
    due = datetime.fromtimestamp(9_000, UTC)
    assert url_values(due_at=9_000)["next_crawl"] == due
    assert url_values(0.4, due_at=9_000)["next_crawl"] == due
    assert url_values(3_600.0, due_at=9_000)["next_crawl"] == datetime.fromtimestamp(5_400, UTC)
    assert url_values(-2.0, due_at=9_000)["next_crawl"] == datetime.fromtimestamp(9_002, UTC)
    assert url_values()["next_crawl"] is None


def test_a_capture_keeps_microseconds_and_the_bytes_of_its_digest() -> None:
    line = msgspec.json.encode(
        {
            "url": URL,
            "surt": "",
            "host": "www.example.org",
            "site": "example.org",
            "date_us": 1_780_000_000_123_457,
            "status": 200,
            "segment": "s",
            "offset": 5,
            "length": 6,
            "record_id": "urn:uuid:6f9619ff-8b86-4011-b42d-00c04fc964ff",
            "digest": "sha1:AAAQEAYEAUDAOCAJBIFQYDIOB4IBCEQT",
            "title": "a\0b",
            "links": [["https://x/"], [1], [""], []],
            "preferences": [{"search": True, "ai-train": False}, [], "https://x/rsl.xml", ""],
        }
    )
    values = dict(zip(REGISTRY_LOG, registry_capture(line), strict=True))
    assert values["fetched_at"] == datetime(2026, 5, 28, 20, 26, 40, 123_457, UTC)
    assert values["record_id"] == UUID("6f9619ff-8b86-4011-b42d-00c04fc964ff")
    assert values["content_hash"] == bytes(range(20))
    assert values["kind"] == "page"
    uses = [values[f"use_{use}"] for use in ("search", "ai_train", "ai_input")]
    assert (uses, values["license"]) == ([True, False, None], "https://x/rsl.xml")


def test_months_follow_each_other_over_the_year() -> None:
    made = month_statement(datetime(2026, 12, 5, tzinfo=UTC))
    assert "crawl_log_2026_12" in made
    assert "TO ('2027-01-01 00:00:00+00')" in made
    assert table_statements().count("PARTITION OF urls") == 16
