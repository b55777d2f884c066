"""Patterns of URLs, and URLs that differ in a parameter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.urls.url_patterns import (
    only_difference,
    parameters_of,
    pattern_of,
    with_value,
    without_parameters,
)

TARGETS = st.text("abz019/?&=-._%é", max_size=60).map("/{}".format)


@pytest.mark.parametrize(
    ("target", "pattern"),
    [
        ("/", "/"),
        ("/about", "/*"),
        ("/calendar/2026/11?view=day", "/calendar/0/0?view"),
        ("/calendar/2027/1?view=month", "/calendar/0/0?view"),
        ("/events/2026-11-23", "/events/0"),
        ("/articles/how-to-bake.html", "/articles/*.html"),
        ("/articles/12.html", "/articles/0.html"),
        ("/x/9f86d081884c7d65/?b=2&a=1&b=3", "/x/#/?a&b"),
        ("/user17/posts/", "/user0/posts/"),
        ("/a/b/c/d/e/f/g", "/a/b/c/d/**/*"),
    ],
)
def test_numbers_ids_and_last_words_are_generalised(target: str, pattern: str) -> None:
    assert pattern_of(target) == pattern


@given(TARGETS)
def test_a_pattern_is_short_and_does_not_depend_on_values(target: str) -> None:
    pattern = pattern_of(target)
    assert 0 < len(pattern) <= 120
    if parameters_of(target):
        name = parameters_of(target)[0][0]
        assert pattern_of(with_value(target, name, "other")) == pattern


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ("/a?x=1&s=2", "/a?x=1&s=3", ("s", "2", "3")),
        ("/a?s=2&x=1", "/a?x=1&s=3", ("s", "2", "3")),
        ("/a?x=1&s=2", "/a?x=1", ("s", "2", "")),
        ("/a?s=2", "/a", ("s", "2", "")),
        ("/a?x=1&s=2&v=4", "/a?x=1&s=3&v=5", ("s", "2", "3")),  # v is known already
        ("/a?x=1&s=2", "/a?x=2&s=3", None),
        ("/a?x=1", "/b?x=2", None),
        ("/a?x=1", "/a?x=1", None),
    ],
)
def test_a_difference_in_one_parameter(
    one: str, other: str, difference: tuple[str, str, str] | None
) -> None:
    assert only_difference(one, other, frozenset({"v"})) == difference


@given(TARGETS, st.frozensets(st.sampled_from(["a", "b", "", "z"])))
def test_parameters_that_are_removed_are_gone_and_the_others_stay(
    target: str, names: frozenset[str]
) -> None:
    left = without_parameters(target, names)
    assert parameters_of(left) == [each for each in parameters_of(target) if each[0] not in names]
    assert without_parameters(left, names) == left
