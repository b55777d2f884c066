"""Lists of several owners as one: in their common order, cut anywhere, and never with a gap."""

from __future__ import annotations

import msgspec

from lycosa.base.calls import Found
from lycosa.service.api.merging import merged


def found(*marks: str, cursor: str = "", **more: object) -> Found:
    rows = [{"name": mark, "order": mark, "cursor": mark} for mark in marks]
    return Found(msgspec.json.encode(rows), cursor, **more)  # type: ignore[arg-type]


def names(answers: dict[int, Found], most: int) -> tuple[str, str]:
    """The names of the rows together, and the cursor."""
    listed = merged(answers, most, [])
    return "".join(row["name"] for row in listed.rows), listed.cursor


def test_a_piece_ends_after_the_wanted_rows_and_continues_behind_the_last() -> None:
    answers = {0: found("a", "c", cursor="c"), 1: found("b", "d")}
    assert names(answers, 2) == ("ab", "b")
    assert names({0: found("c"), 1: found("d")}, 4) == ("cd", "")


def test_rows_behind_the_end_of_a_search_that_lacked_time_wait() -> None:
    partial = found("a", cursor="b", is_partial=True)
    assert names({0: partial, 1: found("c", "d")}, 5) == ("a", "b")


def test_an_order_ends_where_rows_of_a_partition_are_not_kept() -> None:
    answers = {0: found("a", "c", is_cut=True), 1: found("b", "d", "e", cursor="e")}
    listed = merged(answers, 10, [])
    assert [row["name"] for row in listed.rows] == ["a", "b", "c"]
    assert (listed.cursor, listed.is_cut) == ("", True)
    first = merged(answers, 2, [])
    assert (first.cursor, first.is_cut) == ("b", False)


def test_the_age_of_an_order_is_that_of_its_oldest_part() -> None:
    answers = {0: found("a", ordered_at=5.0), 1: found("b", ordered_at=3.0)}
    assert merged(answers, 5, []).ordered_at == 3.0
