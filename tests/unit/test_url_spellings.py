"""Spellings of one resource meet in one canonical form, whatever of them is changed
(``spellings`` says by which clause they are one).
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import CanonicalSection
from lycosa.base.urls.identity import Canonicalizer, hash8, host_of, surt
from spellings import SPELLINGS, Spelling, respelled

DEFAULT = Canonicalizer(CanonicalSection())
KINDS = {
    "default": DEFAULT,
    "no lossy rule": Canonicalizer(CanonicalSection(drop_session_ids=False, drop_tracking=False)),
    "every lossy rule": Canonicalizer(
        CanonicalSection(
            sort_query=True, drop_index_files=True, drop_trailing_slash=True, drop_www=True
        )
    ),
}

LABELS = st.sampled_from(
    [
        "a",
        "example",
        "www",
        "1a",
        "a-b",
        "a_b",
        "xn--mnchen-3ya",
        "xn--fa-hia",
        "xn--pokxncvks",
        "de",
    ]
)
NAMES = st.one_of(
    st.lists(LABELS, min_size=1, max_size=4).map(".".join),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address.compressed}]"),
)
PIECES = st.sampled_from(
    [
        *"abzAZ09-._~!$&'()*+,;=:@/?|^%",
        "%2F",
        "%3F",
        "%C3%A4",
        "%",
        "%4",
        "%zz",
        "/a/",
        "//",
        "?x=1&y=2",
        "&",
        "index.html",
        "%25",
        "%2B",
    ]
)
RAW = st.builds(
    lambda scheme, name, port, target: f"{scheme}://{name}{port}/{target}",
    st.sampled_from(["http", "https"]),
    NAMES,
    st.sampled_from(["", "", ":8080", ":443", ":80", ":1"]),
    st.lists(PIECES, max_size=15).map("".join),
)
SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("spelling", SPELLINGS, ids=[spelling.__name__ for spelling in SPELLINGS])
@given(raw=RAW, seed=SEEDS)
@settings(deadline=None, max_examples=100)
def test_each_other_spelling_comes_back_to_the_canonical_form(
    spelling: Spelling, raw: str, seed: int
) -> None:
    url = DEFAULT.canonical(raw)
    other = spelling(url, Random(seed))
    assert DEFAULT.canonical(other) == url, other


@pytest.mark.parametrize("canonicalizer", KINDS.values(), ids=KINDS)
@given(raw=RAW, seed=SEEDS)
@settings(deadline=None, max_examples=200)
def test_two_spellings_of_one_resource_are_one_url(
    canonicalizer: Canonicalizer, raw: str, seed: int
) -> None:
    url = canonicalizer.canonical(raw)
    chance = Random(seed)
    one, other = respelled(url, chance), respelled(url, chance)
    assert canonicalizer.canonical(one) == canonicalizer.canonical(other) == url, (one, other)
    assert hash8(canonicalizer.canonical(one)) == hash8(url) and surt(
        canonicalizer.canonical(other)
    ) == surt(url)


@given(raw=RAW, seed=SEEDS)
@settings(deadline=None, max_examples=200)
def test_a_spelling_means_the_same_on_any_page(raw: str, seed: int) -> None:
    """An absolute URL does not depend on the page that it stands on, and neither does the short
    cut that plain ones take.
    """
    url = DEFAULT.canonical(raw)
    # "http:a" is relative to http
    other = respelled(
        url, Random(seed), tuple(each for each in SPELLINGS if each.__name__ != "backslashes")
    )
    for base in ("http://other.example/a/b", "https://other.example/a;x/?y", url):
        assert DEFAULT.canonical(other, base) == url


@pytest.mark.parametrize("spelling", SPELLINGS, ids=[spelling.__name__ for spelling in SPELLINGS])
def test_every_kind_of_spelling_does_change_something(spelling: Spelling) -> None:
    urls = (
        "http://www.xn--mnchen-3ya.example/a/B~c/?d=Ef",
        "https://192.0.2.1/a/%C3%A4",
        "http://[2001:db8::1]:8080/x",
    )
    assert any(spelling(url, Random(seed)) != url for url in urls for seed in range(5))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://a.example/x", "https://a.example/x"),
        ("http://a.example/x", "http://a.example/X"),
        ("http://a.example/x", "http://a.example/x/"),
        ("http://a.example/x", "http://www.a.example/x"),
        ("http://a.example/a%2Fb", "http://a.example/a/b"),
        ("http://a.example/a%3Fb", "http://a.example/a?b"),
        ("http://a.example/?a=1&b=2", "http://a.example/?b=2&a=1"),
        ("http://a.example/?a=", "http://a.example/?a"),
        ("http://a.example/?a%26b", "http://a.example/?a&b"),
        ("http://a.example/a%2B", "http://a.example/a+"),
        ("http://a.example/a+b", "http://a.example/a%20b"),
        ("http://a.example/index.html", "http://a.example/"),
        ("http://a.example:8080/", "http://a.example/"),
        ("http://a.example/%25", "http://a.example/%"),
    ],
)
def test_what_may_be_two_resources_stays_two(one: str, other: str) -> None:
    assert DEFAULT.canonical(one) != DEFAULT.canonical(other)
    assert host_of(DEFAULT.canonical(one))
