"""What the parent of user code decides: which pages it gets, what is taken of its answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.item_schema import MAX_ITEM_BYTES
from lycosa.base.model.known_code import CodePart, KnownCode
from lycosa.base.model.parsed import Link
from lycosa.stages.extract.called_code import (
    MOST_OVERRUNS,
    OF_PAGES,
    CalledCode,
    checked_answer,
)
from lycosa.stages.extract.code_messages import ExtensionAnswer

ROWS = CodePart("extractor", "rows", "/p/", 1, "name:text,number:integer?")


def code(*parts: CodePart) -> CalledCode:
    return CalledCode(KnownCode("shop:it", parts=parts or (ROWS,)))


@given(st.lists(st.booleans(), max_size=3 * OF_PAGES))
def test_a_code_is_suspended_after_many_overruns_in_its_last_pages(ends: list[bool]) -> None:
    called = code()
    for is_end in ends:
        called.pages += 1
        if is_end:
            called.note_overrun()
        last = ends[max(called.pages - OF_PAGES, 0) : called.pages]
        assert called.is_suspended == (sum(last) >= MOST_OVERRUNS)


def test_pages_are_chosen_by_the_patterns_of_its_functions() -> None:
    assert code().is_for(b"http://a.test/p/1") and not code().is_for(b"http://a.test/q")
    both = code(ROWS, CodePart("links", "more"))
    assert both.is_for(b"http://a.test/q")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["a", 1], ["b", None]], ""),
        ([["a"]], "1 values"),
        ([[1, 1]], "name is not text"),
        ([["a", "1"]], "number is not integer"),
        ([["\ud800", 1]], "name is not text"),
        ([["x" * 1000, 1]] * 66, f"more than {MAX_ITEM_BYTES:,} bytes"),
    ],
)
def test_rows_that_do_not_fit_are_not_taken(rows: list[list[Any]], said: str) -> None:
    found = checked_answer([code()], ExtensionAnswer({"rows": rows}), 10)
    if said:
        assert found.items == {} and said in found.failures[0].message
    else:
        assert found == ExtensionAnswer({"rows": rows})


def test_a_code_answers_only_what_its_functions_are_for() -> None:
    link = Link("http://a.test/", b"", b"", LinkKind.CODE)
    given_back = ExtensionAnswer({"others": [["a"]]}, [link] * 20, {"http://a.test/": 300})
    found = checked_answer([code()], given_back, 10)
    assert (found.items, found.links, found.scores) == ({}, [], {})
    assert "not asked for" in found.failures[0].message
    parts = CodePart("links", "more"), CodePart("score", "good")
    found = checked_answer([code(*parts)], given_back, 10)
    assert len(found.links) == 10 and found.scores == {}
