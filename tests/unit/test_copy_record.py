"""The counts of near copies: bounded, cautious, and never final."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.model.copy_record import (
    LOSING_SHARE,
    MAX_PARAMETERS,
    MAX_PATTERNS,
    MAX_VALUES,
    SET_BACK_SHARE,
    CopyRecord,
    CopyTally,
)

GRADES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


def record_of(*grades: float, pattern: str = "/a") -> CopyRecord:
    copies = CopyRecord()
    for each in grades:
        copies.count_page(pattern, each)
    return copies


def test_ten_copies_in_a_row_set_a_pattern_back() -> None:
    assert CopyTally(9.0, 0.0).share < SET_BACK_SHARE <= CopyTally(10.0, 0.0).share
    # Once a pattern gave three of them and the host nothing else, its other pages count too.
    assert record_of(*[1.0] * 2).share_of("/a") < SET_BACK_SHARE
    assert record_of(*[1.0] * 3).share_of("/a") >= SET_BACK_SHARE


@given(st.lists(GRADES, max_size=80))
def test_a_few_fresh_pages_free_a_pattern_whatever_came_before(before: list[float]) -> None:
    copies = record_of(*before)
    for _ in range(8):
        copies.count_page("/a", 0.0)
    assert copies.share_of("/a") < SET_BACK_SHARE


@given(st.lists(st.sampled_from([0.0, 0.25]), max_size=200))
def test_pages_with_titles_of_their_own_never_lose_weight(grades: list[float]) -> None:
    assert record_of(*grades).share_of("/a") <= LOSING_SHARE


def test_an_unknown_pattern_is_judged_by_the_first_pages_of_others() -> None:
    copies = CopyRecord()
    for number in range(20):
        copies.count_page(f"/trap{number}/", 1.0)
    assert copies.share_of("/unseen/") >= SET_BACK_SHARE
    copies.count_page("/honest/", 0.0)
    assert copies.share_of("/honest/") < SET_BACK_SHARE


def test_a_late_verdict_counts_as_if_it_had_come_at_once() -> None:
    late, early = record_of(*[0.0] * 5), record_of(*[1.0] * 5)
    for _ in range(5):
        late.regrade_page("/a", 1.0)
    assert (late.patterns, late.pages) == (early.patterns, early.pages)


def test_a_parameter_is_learned_from_several_values_and_unlearned() -> None:
    copies = CopyRecord()
    for _ in range(20):
        copies.count_pair("view", True, "grid", "list")
    assert not copies.learned  # two values teach nothing
    for number in range(10):
        copies.count_pair("sid", True, f"v{number}", "v0")
    assert copies.learned == {"sid"}
    for _ in range(3):
        copies.count_pair("sid", False)
    assert not copies.learned


def test_a_parameter_that_changes_content_is_not_learned_from_pages_that_are_missing() -> None:
    copies = CopyRecord()
    for number in range(60):  # every third page is the same "not found"
        copies.count_pair("id", number % 3 == 0, f"{number}", f"{number + 1}")
    assert not copies.learned


@given(st.lists(st.tuples(st.text("ab/", max_size=9), GRADES, st.integers(0, 2**33)), max_size=150))
def test_the_record_is_bounded(pages: list[tuple[str, float, int]]) -> None:
    copies = CopyRecord()
    for number, (pattern, grade, title) in enumerate(pages):
        copies.count_page(f"{pattern}{number}", grade)
        copies.count_pair(f"{pattern}{number}", grade > 0.5, "x" * (number % 60), f"{number}")
        copies.note_title(title)
    assert len(copies.patterns) <= MAX_PATTERNS
    assert len(copies.parameters) <= MAX_PARAMETERS
    assert all(len(each.values) <= MAX_VALUES for each in copies.parameters.values())
    assert copies.pages.total <= 33
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(copies), type=CopyRecord)
    assert again == copies
    assert len(msgspec.msgpack.encode(copies)) < 12_000


def test_a_title_is_known_after_its_first_near_copy() -> None:
    copies = CopyRecord()
    assert [copies.note_title(each) for each in (7, 7, 8, 8)] == [False, True, False, True]
