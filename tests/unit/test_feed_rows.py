"""The rows for readers outside, made from the lines of a commit's journal."""

from __future__ import annotations

import json

from lycosa.base.model.dead_letter import DeadLetter
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.state.store.pending import SegmentPart
from lycosa.state.store.warc_records import Member
from lycosa.worker.commit.committed_rows import feed_rows

URL = "http://a.example/x"


def part(*lines: dict[str, object]) -> SegmentPart:
    made = SegmentPart("stem", 0)
    for line in lines:
        made.add_record(Member((), 0, 0, 0, 0), json.dumps(line).encode() + b"\n")
    return made


def row(**fields: object) -> dict[str, object]:
    return {"url": URL, "surt": "s", "date_us": 5, "segment": "stem", "offset": 7, **fields}


def test_a_row_is_the_line_of_the_journal_without_text_and_links() -> None:
    line = row(text="long", links=[["u"], [10], [""], []], title="T", fetch_number=3)
    (found,) = feed_rows([(part(line), 100)], [])
    assert (found.kind, found.key) == ("pages", hash8(URL))
    expected = row(title="T", fetch_number=3, url8=hash8(URL).hex())
    assert json.loads(found.value) == expected


def test_the_head_of_a_journal_is_no_capture_and_a_first_fetch_has_its_number() -> None:
    head = {"format": 1, "segment": "stem"}
    (found,) = feed_rows([(part(head, row()), 0)], [])
    assert json.loads(found.value)["fetch_number"] == 1
    assert feed_rows([(part(head), 0)], []) == []


def test_a_row_that_a_record_cannot_hold_has_only_what_finds_the_capture() -> None:
    (found,) = feed_rows([(part(row(title="x" * 2_000_000)), 100)], [])
    assert json.loads(found.value) == {
        "url": URL,
        "url8": hash8(URL).hex(),
        "fetch_number": 1,
        "date_us": 5,
        "segment": "stem",
        "offset": 7,
    }


def test_a_dead_letter_says_why_and_after_how_many_tries() -> None:
    letter = DeadLetter(URL, Reason.CONNECT_TIMEOUT, "10 s", 3, 1.5)
    (found,) = feed_rows([], [letter])
    assert (found.kind, found.key) == ("dlq", hash8(URL))
    assert json.loads(found.value) == {
        "url": URL,
        "url8": hash8(URL).hex(),
        "reason": "connect_timeout",
        "detail": "10 s",
        "tries": 3,
        "date_us": 1_500_000,
    }
