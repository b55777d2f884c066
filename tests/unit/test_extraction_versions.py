"""Which version an extraction makes or continues, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.model.item_schema import ItemColumn, ItemSchema
from lycosa.feeds.extraction.extraction_versions import (
    ExtractionKind,
    ExtractionRefused,
    KnownItems,
    VersionRecord,
    choose_version,
)
from lycosa.state.store.journal_rows import Extractor

FILL, AGAIN, FAILED = ExtractionKind.FILL, ExtractionKind.AGAIN, ExtractionKind.FAILED


def schema(version: int = 1, column: str = "name") -> ItemSchema:
    return ItemSchema("x", version, (ItemColumn(column, "text"),))


def record(version: int, code: str = "old", base: int = 0, column: str = "name") -> VersionRecord:
    fields = schema(column=column).fields_text
    return VersionRecord(
        name="x", version=version, fields=fields, code=code, source="x.py:x", base=base
    )


def known(*records: VersionRecord, current: int = 0, crawled: int = 0) -> KnownItems:
    made = {crawled: Extractor.of(schema(crawled))} if crawled else {}
    return KnownItems({each.version: each for each in records}, made, current)


def chosen(
    mode: ExtractionKind, versions: KnownItems, code: str = "new", version: int = 1
) -> tuple[int, int]:
    found = choose_version(mode, schema(version), code, "x.py:x", versions)
    return found.version, found.base


def test_the_first_version_is_that_of_the_code() -> None:
    assert chosen(FILL, known(), version=4) == (4, 0)
    assert chosen(AGAIN, known(), version=4) == (4, 0)
    with pytest.raises(ExtractionRefused, match="nothing failed"):
        chosen(FAILED, known())


def test_the_same_code_continues_its_version_and_other_code_makes_the_next() -> None:
    made = known(record(1), record(2), current=1)
    assert chosen(AGAIN, made, "old") == (2, 0)
    assert chosen(AGAIN, made, "new") == (3, 0)
    assert chosen(AGAIN, made, "old", version=7) == (7, 0), "the decorator asks for a new one"


def test_a_version_of_the_crawl_is_filled_or_followed_by_the_next() -> None:
    assert chosen(FILL, known(crawled=1)) == (1, 0)
    assert chosen(AGAIN, known(crawled=1)) == (2, 0)
    assert chosen(FAILED, known(crawled=1)) == (2, 1)
    assert chosen(FILL, known(crawled=1), version=2) == (2, 0)
    with pytest.raises(ExtractionRefused, match="there is version 3"):
        chosen(FILL, known(crawled=3), version=2)


def test_what_failed_is_completed_on_what_readers_see() -> None:
    assert chosen(FAILED, known(record(1), current=1)) == (2, 1)
    interrupted = known(record(1), record(2, "new", 1), current=1)
    assert chosen(FAILED, interrupted) == (2, 1)
    complete = known(record(1), record(2, "new", 1), current=2)
    assert chosen(FAILED, complete) == (3, 2), "the same code may succeed the next time"
    with pytest.raises(ExtractionRefused, match="is not complete"):
        chosen(FAILED, known(record(1), record(2), current=1))


def test_items_of_other_columns_are_not_kept() -> None:
    with pytest.raises(ExtractionRefused, match="other columns, so its items cannot be kept"):
        chosen(FAILED, known(record(1, column="title"), current=1))


def test_columns_that_changed_under_the_same_code_are_refused() -> None:
    with pytest.raises(ExtractionRefused, match="a module that it imports has changed"):
        chosen(FILL, known(record(1, "new", column="title")))


@given(
    st.sampled_from(list(ExtractionKind)),
    st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=4),
    st.integers(0, 4),
    st.integers(0, 3),
    st.integers(1, 6),
)
def test_a_chosen_version_is_new_or_continues_the_same_work(
    mode: ExtractionKind, made: list[tuple[str, bool]], current: int, crawled: int, version: int
) -> None:
    records = [
        record(number, code, number - 1 if is_completed else 0)
        for number, (code, is_completed) in enumerate(made, 1)
    ]
    versions = known(*records, current=min(current, len(records)), crawled=crawled)
    try:
        found = choose_version(mode, schema(version), "a", "x.py:x", versions)
    except ExtractionRefused:
        return
    before = versions.extracted.get(found.version)
    if before is None:
        assert (
            found.version > versions.newest
            or found.version == version == crawled
            or (mode is FILL and found.version == version)
        )
    else:
        assert (before.code, before.base) == ("a", found.base)
    assert (found.base > 0) == (mode is FAILED) and found.base < found.version


def test_items_are_not_kept_of_a_number_that_the_crawl_gave_to_other_columns() -> None:
    both = KnownItems({2: record(2)}, {2: Extractor.of(schema(2, "title"))}, 2)
    with pytest.raises(ExtractionRefused, match="--again makes all of them again"):
        chosen(FAILED, both)
    assert chosen(FAILED, known(record(2), current=2, crawled=2)) == (3, 2)
