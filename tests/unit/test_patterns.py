"""The operator's regular expressions: RE2 instead of ``re``, with the same verdicts."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.patterns import MAX_CHARACTERS, Patterns, compile_pattern

SETTING = "scope.exclude"
_PLAIN = st.sampled_from([*string.ascii_letters[:4], "A", "/", "-", "_", "=", "&", "%", "7", "~"])
_ESCAPED = st.sampled_from([*".?+*()[]{}^$|/\\-_&#~", "d", "D", "w", "W", "n", "t", "x41"]).map(
    lambda each: f"\\{each}"
)
_SET_ITEM = st.one_of(
    _PLAIN.filter(lambda each: each not in "-&~"),
    st.sampled_from(
        ["a-c", "0-9", "A-Z", "\\d", "\\w", "\\.", "\\]", "\\-", "?", ".", "(", "{,2}"]
    ),
)
_SETS = st.tuples(st.sampled_from(["[", "[^"]), st.lists(_SET_ITEM, min_size=1, max_size=3)).map(
    lambda each: f"{each[0]}{''.join(each[1])}]"
)
_COUNTS = st.sampled_from(
    ["", "", "*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "??", "{1,2}?"]
)
_ANCHORS = st.sampled_from(["^", "$", "\\b", "\\B", "\\A"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.tuples(
        st.sampled_from(["(", "(?:", "(?i:", "(?s:", "(?P<name>"]),
        st.lists(inner, min_size=1, max_size=3).map("|".join),
    ).map(lambda each: f"{each[0]}{each[1]})")
    counted = st.tuples(st.one_of(_PLAIN, _ESCAPED, _SETS, st.just("."), groups), _COUNTS)
    return st.lists(st.one_of(counted.map("".join), _ANCHORS), min_size=1, max_size=4).map("".join)


_EXPRESSIONS = (
    st.tuples(
        st.sampled_from(["", "", "(?i)", "(?m)"]),
        st.recursive(_PLAIN, _grown, max_leaves=6),
    )
    .map("".join)
    .filter(lambda each: each.count("?P<name>") < 2)
)
_TEXTS = st.text(
    "aAbBcdD/-_=&%7~.?[]{}(),2", min_size=1, max_size=9
)  # re says that nothing has no \\B


@settings(max_examples=600, deadline=None)
@given(_EXPRESSIONS, st.lists(_TEXTS, min_size=1, max_size=8))
def test_ordinary_patterns_mean_what_they_mean_to_re(pattern: str, texts: list[str]) -> None:
    expected, found = re.compile(pattern), Patterns(SETTING, [pattern])
    for text in texts:
        assert (found.find(text) is not None) is (expected.search(text) is not None), text


@settings(max_examples=300, deadline=None)
@given(st.lists(_EXPRESSIONS, min_size=2, max_size=4), st.lists(_TEXTS, min_size=1, max_size=8))
def test_of_several_patterns_the_first_that_matches_is_found(
    patterns: list[str], texts: list[str]
) -> None:
    found, expected = Patterns(SETTING, patterns), [re.compile(pattern) for pattern in patterns]
    for text in texts:
        number = next((n for n, each in enumerate(expected) if each.search(text)), None)
        assert found.find(text) == number, text


@pytest.mark.parametrize(
    "pattern", ["/(a+)+$", "(a|aa)+$", "(.*)*x$", "(x+x+)+y", "(a?){30}a{30}$", ".*.*.*.*.*.*=.*z"]
)
def test_no_pattern_backtracks(pattern: str) -> None:
    """``re`` would need hours for some of them."""
    for sign in "ax":
        Patterns(SETTING, [pattern, pattern]).find(f"http://h.test/{sign * 60_000}!")


@pytest.mark.parametrize(
    ("pattern", "place", "advice"),
    [
        ("x(?=y)", "character 2: invalid perl operator: (?=", "in scope.include"),
        (r"\(?=x(?<!y)", "character 6: invalid perl operator: (?<", "in scope.include"),
        (r"(a)\1", r"character 4: invalid escape sequence: \1", "write out the alternatives"),
        (r"(?P<n>a)(?P=n)", "character 9: a reference (?P=", "write out the alternatives"),
        ("ab*+", "character 3: bad repetition operator: *+", "an ordinary one costs the same"),
        ("(?>a)", "character 1: invalid perl operator: (?>", "an ordinary one costs the same"),
        ("(?#a)", "character 1: invalid perl operator: (?#", "there are i, m and s"),
        ("(?x)a", "character 1: invalid perl operator: (?x", "there are i, m and s"),
        (r"a\Z", r"character 2: invalid escape sequence: \Z", "write $ for the end"),
        (r"\u00e9", r"character 1: invalid escape sequence: \u", r"write \x{E9}"),
        (r"a\Qb", r"character 2: invalid escape sequence: \Q", "write a backslash"),
        ("[{,2}]a{,2}", "character 8: no minimum in {,2}", "write {0,2}"),
        ("a{1001}", "character 2: invalid repetition size: {1001}", "at most 1000"),
        ("(a", "character 1: missing ): (a", ""),
        ("a**", "character 2: bad repetition operator: **", ""),
        ("\ud800", "character 1: not a character", ""),
    ],
)
def test_what_is_not_supported_is_refused_with_its_place_and_a_way_out(
    pattern: str, place: str, advice: str
) -> None:
    with pytest.raises(ValueError) as refused:
        Patterns(SETTING, ["ok", pattern])
    told = str(refused.value)
    assert told.startswith(
        f"scope.exclude[1]: {pattern!r} is not a regular expression of RE2: {place}"
    )
    assert advice in told


def test_the_length_and_the_memory_of_a_pattern_are_bounded() -> None:
    with pytest.raises(ValueError, match="write several shorter ones"):
        compile_pattern("a" * (MAX_CHARACTERS + 1))
    with pytest.raises(ValueError, match=r"pattern too large.*; write several shorter patterns"):
        compile_pattern(r"(?:\pL{1,1000}a){1,1}" * 400)
    compile_pattern("a" * MAX_CHARACTERS)


def test_patterns_that_are_too_large_together_are_searched_one_by_one() -> None:
    large = [f"(?:[^{sign}]{{1,1000}}{sign}){{1}}" * 9 for sign in string.ascii_letters]
    assert Patterns(SETTING, [*large, "needle"]).find("a needle") == len(large)


def test_two_patterns_may_name_the_same_group() -> None:
    assert Patterns(SETTING, ["(?P<name>a)", "(?P<name>b)"]).find("b") == 1


def test_texts_that_are_no_urls_are_searched_too() -> None:
    assert Patterns(SETTING, ["é$"]).find("caf\u00e9") == 0
    assert Patterns(SETTING, ["x"]).find("\ud800x") == 0
    assert Patterns(SETTING, []).find("x") is None
