"""Records and rows with the fields of formats 2, and those of programs that do not know them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.model.capture import Change, Want
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.remark import Remark
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.preferences.preference_model import PreferenceSource, Statement
from lycosa.base.reasons import Reason
from lycosa.state.commit.record import Commit
from lycosa.state.kv.table_records import UrlRecord, decode_url, encode_url
from lycosa.state.store.feed_rows import PageFeedRow, page_row
from lycosa.state.store.journal import encode_header, encode_line, header_in, rows_in
from lycosa.state.store.journal import encode_journal_frame as frame
from lycosa.state.store.journal_rows import Extractor, JournalRow, remarks_of
from store_samples import HEADER

ID = "urn:uuid:12345678-1234-4234-8234-123456789012"
DIGEST = bytes(range(20))
SEGMENT = "lycosa-20231114221320-00000.warc.gz"
OLD_HISTORY = [
    *(2, 1_700_000_000, 200, DIGEST, 7, '"a"', "", 1, 86_400, 123_456),
    *(bytes.fromhex(ID[9:].replace("-", "")), SEGMENT, 4711, "", "", False, 0),
]
"""A history as programs of formats 1 wrote it: all 17 fields."""
LATE = ("text_digest", "body_segment", "body_offset", "observations", "cell", "policy", "markup")


class OldRecord(msgspec.Struct, array_like=True):
    """The record as programs of formats 1 read it: 16 fields, with a history of 17."""

    state: int
    secure: bool
    target: str
    depth: int
    priority: int
    kind: int
    found_at: int
    via: str = ""
    hops: int = 0
    reason: int = 0
    detail: str = ""
    tries: int = 0
    due_at: int = 0
    history: Any = None
    importance: int = -1
    chain: tuple[str, ...] = ()


OldHistory = msgspec.defstruct(
    "OldHistory",
    [
        (each.name, Any if each.name == "record_id" else each.type, each.default)
        for each in msgspec.structs.fields(History)
        if each.name not in LATE
    ],
    array_like=True,
)


def record(**fields: Any) -> UrlRecord:
    return UrlRecord(UrlState.FETCHED, True, "/a", 1, 200, LinkKind.A, 1_700_000_000, "/", **fields)


def old_row(chain: tuple[str, ...] = ()) -> bytes:
    """A row as programs of formats 1 wrote it: the chain only where there is one."""
    fields = [3, True, "/a", 1, 200, int(LinkKind.A), 1_700_000_000, "/", 0, 0, "", 0, 0]
    fields += [OLD_HISTORY, 128, *([chain] if chain else [])]
    return msgspec.msgpack.encode(fields)


@pytest.mark.parametrize("chain", [(), ("http://a.example/",)])
def test_a_record_of_formats_1_is_read_and_written_in_the_present_form(
    chain: tuple[str, ...],
) -> None:
    found = decode_url(old_row(chain))
    assert (found.chain, found.score, found.importance) == (chain, -1, 128)
    history = found.history
    assert history is not None and history.record_id == ID
    assert [getattr(history, name) for name in LATE] == [b"", "", 0, b"", 0, 0, ()]
    assert history.body_place == (SEGMENT, 4711)
    again = encode_url(found)
    assert decode_url(again) == found
    # the last fields of the old form have their defaults, and an array below 16 a shorter head
    assert len(again) == len(old_row(chain)) - 6


HISTORIES = st.builds(
    History,
    fetches=st.integers(1, 9),
    fetched_at=st.integers(1_600_000_000, 1_700_000_000),
    digest=st.just(DIGEST),
    record_id=st.sampled_from([ID, "", "urn:other:1"]),
    segment=st.just(SEGMENT),
    offset=st.integers(1, 1 << 30),
    redirect_to=st.sampled_from(["", "http://b.example/"]),
    is_same=st.booleans(),
    forwards=st.integers(0, 2),
    text_digest=st.sampled_from([b"", b"12345678"]),
    body_segment=st.sampled_from(["", "other.warc.gz"]),
    body_offset=st.integers(0, 2),
    observations=st.binary(max_size=16),
    cell=st.integers(0, 0xFFFF),
    policy=st.integers(0, 0xFF),
    markup=st.sampled_from(
        [(), (Statement(PreferenceSource.ROBOTS_META, "noai", 0, {"ai-train": False}),)]
    ),
)


@given(
    history=st.none() | HISTORIES,
    chain=st.sampled_from([(), ("http://a.example/",)]),
    score=st.integers(-1, 255),
    importance=st.integers(-1, 255),
    listed=st.sampled_from([0, 1, 0xFFFFFFFF]),
)
def test_every_record_is_read_as_it_was_written_and_by_programs_of_formats_1(
    history: History | None, chain: tuple[str, ...], score: int, importance: int, listed: int
) -> None:
    made = record(history=history, chain=chain, score=score, importance=importance, listed=listed)
    value = encode_url(made)
    assert decode_url(value) == made
    stored = msgspec.msgpack.decode(value)
    assert len(stored) == (18 if listed else 17 if score != -1 else 16 if chain else 15)
    old = msgspec.msgpack.decode(value, type=OldRecord)
    assert (old.target, old.importance, old.chain) == ("/a", importance, chain)
    if history is None:
        assert old.history is None
        return
    defaults = msgspec.structs.astuple(History())
    kept = old.history
    assert len(kept) <= 13 or kept[-1] != defaults[len(kept) - 1]
    found = msgspec.convert(kept, OldHistory)
    for each in msgspec.structs.fields(OldHistory):
        if each.name not in ("date_us", "record_id"):
            assert getattr(found, each.name) == getattr(history, each.name), each.name


def test_a_history_without_late_fields_takes_fewer_bytes_than_before() -> None:
    plain = record(history=decode_url(old_row()).history, importance=128)
    assert len(encode_url(plain)) == len(old_row()) - 6


def test_the_place_of_a_body_is_the_captures_own_unless_another_is_named() -> None:
    own = History(segment=SEGMENT, offset=10)
    assert own.body_place == (SEGMENT, 10)
    beside = msgspec.structs.replace(own, body_offset=5)
    assert beside.body_place == (SEGMENT, 5)
    elsewhere = msgspec.structs.replace(own, body_segment="x.warc.gz", body_offset=5)
    assert elsewhere.body_place == ("x.warc.gz", 5)


ROW = JournalRow(
    url="https://example.org/a",
    surt="org,example)/a",
    host="example.org",
    site="example.org",
    date_us=1,
    status=200,
    segment="s",
    offset=1,
    length=2,
    record_id=ID,
)
LATE_ROW = msgspec.structs.replace(
    ROW,
    reason=Reason.BODY_TRUNCATED,
    detail="more than 10 bytes",
    parse_reason=Reason.DECODE_FAILED,
    remarks=(
        Remark(Reason.BODY_TRUNCATED, "more than 10 bytes"),
        Remark(Reason.DECODE_FAILED, "ends before the end of the stream"),
        Remark(Reason.CONTENT_TYPE),
    ),
    body_segment="t",
    body_offset=9,
    change=Change.CHANGED,
    wants=(Want("https://example.org/a.js", "script"),),
    items={"products": [["lamp", 9.5, None]]},
)


def test_rows_with_and_without_late_fields_are_read_as_they_were_written() -> None:
    lines = [encode_header(HEADER), encode_line(ROW), encode_line(LATE_ROW)]
    data = frame(lines)
    assert list(rows_in(data, "j")) == [ROW, LATE_ROW]
    names = msgspec.json.decode(lines[1]).keys()
    assert not names & {"remarks", "body_segment", "body_offset", "change", "wants", "items"}


def test_a_row_without_remarks_has_those_that_it_names() -> None:
    old = msgspec.structs.replace(LATE_ROW, remarks=())
    assert remarks_of(old) == (
        Remark(Reason.BODY_TRUNCATED, "more than 10 bytes"),
        Remark(Reason.DECODE_FAILED),
    )
    assert remarks_of(LATE_ROW) == LATE_ROW.remarks and remarks_of(ROW) == ()


def test_the_feed_has_the_late_fields_but_no_rows_of_user_code() -> None:
    _, value = page_row(encode_line(LATE_ROW))
    found = msgspec.json.decode(value, type=PageFeedRow)
    assert (found.remarks, found.change) == (LATE_ROW.remarks, Change.CHANGED)
    assert "items" not in msgspec.json.decode(value)


def test_a_header_names_the_extractors_only_where_there_are_some() -> None:
    assert b"extractors" not in encode_header(HEADER)
    made = msgspec.structs.replace(HEADER, extractors=(Extractor("products", 2, "0a1b"),))
    assert header_in(frame([encode_header(made)]), "j") == made
    assert header_in(frame([encode_header(HEADER)]), "j") == HEADER


def test_a_commit_of_formats_1_has_no_price() -> None:
    made = Commit(term=1, sequence=2, wall=3.0, price=0.25, price_number=7)
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(made))
    assert stored[-3:] == [0.25, 7, ""]
    old = msgspec.msgpack.decode(msgspec.msgpack.encode(stored[:-3]), type=Commit)
    assert (old.price, old.price_number, old.ranks, old.sequence) == (0.0, 0, "", 2)
