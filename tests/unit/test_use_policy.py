"""The purpose of a crawl: which content its outputs have, and that it is one value everywhere."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from random import Random

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.checks import CHECKS, USES
from lycosa.base.config.sections import AgentSection
from lycosa.base.model.capture import Location
from lycosa.base.preferences.kept_markup import MOST_CHARACTERS, MOST_KEPT, markup_of
from lycosa.base.preferences.preference_model import (
    NOTHING_STATED,
    Preferences,
    PreferenceSource,
    Statement,
    Use,
    combine,
    gather_preferences,
    may_use,
)
from lycosa.base.preferences.preference_words import (
    PREFERENCE_LABELS,
    answers_words,
    preference_labels,
    read_answers,
    statement_words,
)
from lycosa.base.preferences.use_policy import RECORD_ONLY, UsePolicy, agent_policy, policy_of
from lycosa.stages.parse.page import page_of
from lycosa.state.store.journal import (
    encode_header,
    encode_journal_frame,
    encode_line,
    header_in,
    rows_in,
)
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.pending import SegmentPart
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.usable_rows import usable_row
from lycosa.state.store.warc_records import Member
from lycosa.worker.commit.committed_rows import feed_rows
from memory_objects import MemoryStore
from store_samples import HEADER, INFO, SECTION, START, capture, parsed, row_builder

TRAIN = UsePolicy(("ai-train",))
DENIED = gather_preferences(
    [Statement(PreferenceSource.SIGNAL_ROBOTS, "ai-train=no", 7, {"ai-train": False})]
)
LOCATION = Location("warc/s.warc.gz", 0, 1, "urn:uuid:1")

uses = st.sampled_from([each.value for each in Use])
answers = st.dictionaries(uses, st.booleans(), max_size=3)
statements = st.lists(
    st.builds(
        Statement,
        st.sampled_from(PreferenceSource),
        st.text(max_size=500),
        st.integers(0, 500_000),
        answers,
    ),
    max_size=30,
)
policies = st.builds(policy_of, st.lists(uses, max_size=4), st.sampled_from(["use", "skip"]))


def row(preferences: Preferences, **fields: object) -> JournalRow:
    given = {"text": "the text", "title": "the title", "description": "the description"}
    values = {"url": "http://a.example/", "surt": "s", "host": "a.example", "site": "a.example"}
    numbers = {"date_us": 1, "status": 200, "segment": "s", "offset": 1, "length": 1}
    made = {**values, **numbers, "record_id": "urn:uuid:1", **given, **fields}
    return msgspec.structs.replace(msgspec.convert(made, JournalRow), preferences=preferences)


def test_the_uses_of_the_setting_are_those_of_the_vocabulary() -> None:
    assert [each.value for each in Use] == list(USES)
    with pytest.raises(ValueError, match="is not a use; there are search"):
        CHECKS["agent.purpose"](("training",))


def test_two_spellings_of_a_purpose_are_one_value() -> None:
    section = AgentSection(purpose=("ai-train", "search", "ai-train"))
    assert agent_policy(section) == policy_of(["search", "ai-train"], "use")
    assert agent_policy(AgentSection()) is RECORD_ONLY


@given(policies, statements)
def test_a_row_keeps_its_facts_and_loses_its_content_where_the_use_is_denied(
    policy: UsePolicy, stated: list[Statement]
) -> None:
    before = row(gather_preferences(stated))
    after = usable_row(before, policy)
    allowed = may_use(before.preferences, policy.purpose, policy.unstated)
    assert policy.allows(before.preferences) is allowed
    assert policy.verdict(before.preferences) == (allowed if policy.purpose else None)
    assert (after == before) is allowed
    assert usable_row(after, policy) == after
    assert (after.text, after.title, after.description) == (
        (before.text, before.title, before.description) if allowed else ("", "", "")
    )
    assert (after.url, after.preferences) == (before.url, before.preferences)


@given(policies)
def test_the_header_of_a_journal_names_the_purpose(policy: UsePolicy) -> None:
    header = msgspec.structs.replace(HEADER, policy=policy)
    line = encode_header(header)
    assert (b'"purpose"' in line) is bool(policy.purpose)
    assert header_in(encode_journal_frame([line]), "j") == header


@given(statements, st.text(max_size=50), st.text(max_size=50))
def test_preferences_are_the_same_after_the_journal(
    stated: list[Statement], address: str, price: str
) -> None:
    before = row(gather_preferences(stated, address, price))
    line = encode_line(before)
    after = msgspec.json.decode(line, type=JournalRow)
    assert after == before
    assert (after.preferences is NOTHING_STATED) is (before.preferences == NOTHING_STATED)
    assert (b'"preferences"' in line) is (before.preferences != NOTHING_STATED)


@given(answers)
def test_answers_are_the_same_after_their_words(given_answers: dict[str, bool]) -> None:
    assert read_answers(answers_words(given_answers)) == given_answers


@given(statements, st.sampled_from(["", "x"]), st.sampled_from(["", "x"]))
def test_everything_that_is_counted_has_a_label(
    stated: list[Statement], address: str, price: str
) -> None:
    found = gather_preferences(stated, address, price)
    labels = preference_labels(found)
    assert set(labels) <= set(PREFERENCE_LABELS) and len(labels) == len(set(labels))
    assert bool(labels) is bool(found.answers or found.license or found.price)


@given(statements)
def test_words_of_a_statement_are_one_line(stated: list[Statement]) -> None:
    assert all(len(statement_words(each).splitlines()) == 1 for each in stated)


@given(statements)
def test_markup_in_a_record_is_bounded_and_denies_what_it_denied(stated: list[Statement]) -> None:
    kept = markup_of(gather_preferences(stated))
    assert len(kept) <= MOST_KEPT and all(len(each.text) <= MOST_CHARACTERS for each in kept)
    markup = [each for each in stated if each.source.name.endswith(("_META", "_MARKUP"))]
    kept_answers = combine(kept)
    assert all(
        kept_answers.get(use) is False for use, allowed in combine(markup).items() if not allowed
    )
    assert markup_of(gather_preferences(kept)) == kept


def test_a_sink_gets_what_the_purpose_may_use() -> None:
    denied = page_of(capture(parsed=parsed(), preferences=DENIED), TRAIN)
    assert (denied.text, denied.title, denied.may_use) == ("", "", False)
    assert denied.links and {link.anchor for link in denied.links} == {""}
    assert denied.body and denied.preferences == DENIED
    allowed = page_of(capture(parsed=parsed()), TRAIN)
    assert (allowed.text, allowed.may_use) == (parsed().text, True)
    recorded = page_of(capture(parsed=parsed(), preferences=DENIED))
    assert (recorded.text, recorded.may_use) == (parsed().text, None)


# A cluster: the derived files of a sealed segment, and the feed of a commit


def test_sealed_segments_of_a_cluster_have_what_the_purpose_may_use(tmp_path: Path) -> None:
    store = MemoryStore()
    segments = ObjectSegments(store, 3, tmp_path / "work", lambda: 0.0)
    segments.recover_segments({})
    found, rows = segments.find_segments(1), row_builder(SECTION)
    captures = SegmentStore(found, SECTION, INFO, 3, Random(1), rows, TRAIN)
    captures.append_capture(capture(parsed=parsed(text="one"), preferences=DENIED))
    captures.append_capture(capture(parsed=parsed(text="two")))
    pending = captures.freeze()
    feed = [json.loads(each.value) for each in feed_rows(pending.parts, [], captures.policy)]
    assert [(each["may_use"], "title" in each) for each in feed] == [(False, False), (True, True)]
    segments.put_records(pending)
    closed = captures.roll_segment(START, force=True)
    assert closed is not None and segments.close_segment(closed.name) == ""
    (text,) = [data for key, data in store.objects.items() if key.startswith("text/")]
    assert b"\r\n\r\ntwo" in gzip.decompress(text) and b"\r\n\r\none" not in gzip.decompress(text)
    (pages,) = [data for key, data in store.objects.items() if key.startswith("pages/")]
    columns = pq.read_table(io.BytesIO(pages)).select(["title", "may_use", "use_ai_train"])
    titles = [None, parsed().title]
    assert columns.to_pydict() == {
        "title": titles,
        "may_use": [False, True],
        "use_ai_train": [False, None],
    }
    (journal,) = [data for key, data in store.objects.items() if key.startswith("journal/")]
    assert header_in(journal, "j").policy == TRAIN
    assert [each.text for each in rows_in(journal, "j")] == ["one", "two"]


def test_a_feed_without_a_purpose_has_every_row_as_the_journal() -> None:
    part = SegmentPart("stem", 0)
    for line in (encode_header(SegmentHeader(**msgspec.structs.asdict(HEADER))),):
        part.add_record(Member((), 0, 0, 0, 0), line)
    part.add_record(Member((), 0, 0, 0, 0), encode_line(row(DENIED)))
    (found,) = [json.loads(each.value) for each in feed_rows([(part, 0)], [])]
    assert found["title"] == "the title" and "may_use" not in found
