"""URLs: a canonical form is its own, has the parts that slicing relies on, and is what other
spellings of it come to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

from fuzz.judging import vectors
from lycosa.base.config.sections import CanonicalSection
from lycosa.base.urls.canonical import MAX_LENGTH
from lycosa.base.urls.identity import (
    Canonicalizer,
    InvalidUrl,
    Sites,
    find_session,
    host_of,
    is_address,
    join_url,
    may_have_session,
    name_of,
    partition_of,
    scheme_of,
    surt,
    target_of,
)
from spellings import respelled

_DEFAULT = Canonicalizer(CanonicalSection())
_BARE = Canonicalizer(
    CanonicalSection(drop_session_ids=False, drop_tracking=False, drop_empty_query=False)
)
_EVERY_RULE = Canonicalizer(
    CanonicalSection(
        sort_query=True, drop_index_files=True, drop_trailing_slash=True, drop_www=True
    )
)
_SITES = Sites()
_SHAPE = re.compile(r"https?://(?:\[[0-9a-f:]+\]|[^\[\]/?#@\s:]+)(?::[0-9]+)?/[\x21-\x7e]*")
_CHARSETS = ("utf-8", "windows-1252", "shift_jis", "gbk", "iso-2022-jp", "no-such-charset")
_MAX = 2000  # characters that are respelled

WORDS = (
    *(
        "http://",
        "https://",
        "//",
        "/../",
        "%2e",
        "%2E",
        "%25",
        "%41",
        ";jsessionid=0123456789abcdef",
        "&utm_source=x",
        "xn--",
    ),
    *("?sid=", "javascript:"),
    *(
        "index.html",
        "www.",
        "0x7f.1",
        "[::1]",
        "[::ffff:1.2.3.4]",
        ":80",
        ":443",
        "@",
        "\\",
        "#",
        "\u3002",
        "\u00df",
        "m\u00fcnchen",
    ),
)


def check(data: bytes) -> None:
    """The first line is the reference, the second, if any, its base."""
    raw, _, base = data.decode("utf-8", "surrogateescape").partition("\n")
    charset = _CHARSETS[len(data) % len(_CHARSETS)]
    for canonicalizer in (_DEFAULT, _BARE, _EVERY_RULE):
        url = _canonical(canonicalizer, raw, base or None, charset)
        if url is None:
            continue
        _has_its_parts(url)
        assert canonicalizer.canonical(url) == url, (
            f"{url!r} has the canonical form {canonicalizer.canonical(url)!r}"
        )
        assert canonicalizer.canonical(url, "http://other.example/a/b") == url
        assert len(url) == MAX_LENGTH or canonicalizer.canonical(url + "#") == url
    url = _canonical(_DEFAULT, raw, base or None, charset)
    if url is not None and len(url) < _MAX:
        other = respelled(url, Random(data))
        assert _DEFAULT.canonical(other) == url, (
            f"{other!r} has the canonical form {_DEFAULT.canonical(other)!r}, not {url!r}"
        )


def _canonical(
    canonicalizer: Canonicalizer, raw: str, base: str | None, charset: str
) -> str | None:
    try:
        return canonicalizer.canonical(raw, base, charset)
    except InvalidUrl as error:
        assert len(str(error)) < 2000 and error.reason
        return None


def _has_its_parts(url: str) -> None:
    assert _SHAPE.fullmatch(url), url
    host, target = host_of(url), target_of(url)
    assert join_url(scheme_of(url), host, target) == url
    name = name_of(host)
    assert name and not name.endswith(".")
    site = _SITES.site_of(host)
    assert site and (name.endswith(site) or is_address(name))
    assert 0 <= partition_of(site, 16) < 16
    key = surt(url)
    assert ")/" in key and len(key) <= 4 * len(url)
    assert may_have_session(target) or not find_session(target)


def samples() -> Iterator[bytes]:
    yield b"HTTP://User:pass@Example.ORG:80/a/./b/../%7ec%c3%a4;jsessionid=6F2A?b=2&utm_source=x&sid=0123456789abcdef0123456789abcdef#f"
    yield b"../g?y#s\nhttp://a/b/c/d;p?q"
    yield (
        "http://m\u00fcnchen.\uff45xample\u3002org./\u00e4"
        " b?\u00e9=1\nhttps://user@example.org:8443/a/../b/?q/x".encode()
    )
    yield b"https://[2001:DB8:0:0::1]:443//x//?"
    yield b"http://0x7f.1/%%341%4%31/100%\\a"
    yield b"//www.example.co.uk/(S(lit3py55t21z5v55vlm25s55))/page.aspx?a&&b="
    yield from vectors("urls/wpt/urltestdata.json", "input", most=150)
    yield from vectors("urls/wpt/urltestdata.json", "href", most=150)
    yield from vectors("urls/wpt/IdnaTestV2.json", "input", most=60)
