"""SURT prefixes: the notation of Heritrix, and the longest prefix of a URL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from lycosa.base.config.surt_prefixes import SurtRules, lines_of_file, read_line, surt_form


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("+http://(org,example,", (True, "org,example,")),
        ("http://(org,example,www,)/docs/", (True, "org,example,www,)/docs/")),
        ("-http://(org,example,www,)/Docs/Old", (False, "org,example,www,)/docs/old")),
        ("+https://(org,example)/", (True, "org,example,)/")),
        ("(org,", (True, "org,")),
        ("http://(", (True, "")),
        ("+http://(org,example,:8080)/", (True, "org,example,:8080)/")),
        ("https://www.example.org/docs/a.html?b", (True, "org,example,www,)/docs/")),
        ("https://www.example.org", (True, "org,example,www,)/")),
        ("example.org", (True, "org,example,")),
        ("- example.org", (False, "org,example,")),
        ("+http://(192.0.2.7,)/", (True, "192.0.2.7,)/")),
    ],
)
def test_forms_of_a_line(line: str, expected: tuple[bool, str]) -> None:
    assert read_line(line) == expected


@pytest.mark.parametrize("line", ["+http://(org,example,)docs", "not a prefix", "http://(org,x,/a"])
def test_what_is_no_prefix_is_refused_with_what_to_write(line: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|write \+http"):
        read_line(line)


def test_comments_and_empty_lines_of_a_file_say_nothing() -> None:
    assert lines_of_file("\ufeff# ours\n\n+http://(org,a, # all of it\r\n") == ["+http://(org,a,"]


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("https://www.Example.org/A?b=C".replace("Example", "example"), "org,example,www,)/a?b=c"),
        ("http://example.org:8080/", "org,example,:8080)/"),
        ("http://192.0.2.7/x", "192.0.2.7,)/x"),
        ("http://[2001:db8::1]:81/", "2001:db8::1,:81)/"),
    ],
)
def test_the_form_of_a_url(url: str, form: str) -> None:
    assert surt_form(url) == form


LABELS = some.lists(some.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4)
PATHS = some.text(some.sampled_from("ab/"), max_size=5).map(lambda text: "/" + text)
URLS = some.builds(lambda labels, path: f"http://{'.'.join(labels)}{path}", LABELS, PATHS)


MADE = some.lists(some.tuples(URLS, some.integers(0, 14), some.booleans()), max_size=4)
CUTS = some.lists(some.tuples(some.integers(0, 20), some.booleans()), max_size=4)


@given(URLS, MADE, CUTS)
def test_the_longest_prefix_decides(
    url: str, made: list[tuple[str, int, bool]], cuts: list[tuple[int, bool]]
) -> None:
    texts: dict[str, bool] = {}
    # also prefixes of the URL itself, which others would seldom be
    for each, length, admits in [*made, *((url, *cut) for cut in cuts)]:
        text = surt_form(each)[:length]
        if not text or (")" in text and not text.partition(")")[2].startswith("/")):
            continue
        texts[text] = texts.get(text, True) and admits
    lines = [("+" if admits else "-") + f"({text}" for text, admits in texts.items()]
    wanted = max((t for t in texts if surt_form(url).startswith(t)), key=len, default=None)
    found = SurtRules(lines).find(url)
    assert (found is not None and found[0]) == (wanted is not None and texts[wanted])
    assert (found is None) == (wanted is None)


def test_a_host_may_have_pages_that_are_admitted() -> None:
    prefixes = SurtRules(["+http://(org,a,www,)/docs/", "+http://(com,b,", "-http://(com,b,x,"])
    assert prefixes.holds("www.a.org") and prefixes.holds("any.b.com")
    assert not prefixes.holds("a.org") and not prefixes.holds("www.a.org:81")
    assert not prefixes.holds("x.b.com")
