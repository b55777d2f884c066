"""SURT keys. The expected strings are what replay tools compute for these URLs."""

from __future__ import annotations

import pytest

from lycosa.base.urls.identity import surt

S32 = "0123456789abcdef0123456789ABCDEF"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://www2.Example.org/".lower(), "org,example)/"),
        ("http://www.example.co.uk:8080/A/B.HTML?B=2&a=1", "uk,co,example:8080)/a/b.html?a=1&b=2"),
        ("http://www-1.example.org/x", "org,example,www-1)/x"),
        ("http://www.www.example.org/x", "org,example,www)/x"),
        ("http://www.com/x", "com)/x"),
        ("http://127.0.0.1:8080/x", "1,0,0,127:8080)/x"),
        ("http://[2001:db8::a]:81/x", "2001:db8::a:81)/x"),
        ("http://example.org//a///b//", "org,example)/a/b"),
        ("http://example.org/?", "org,example)/"),
        ("http://example.org/a/?x=1", "org,example)/a?x=1"),
        ("http://example.org/%C3%A4%20x/%41%2F%3F%23", "org,example)/%c3%a4%20x/a/?%23"),
        ("http://example.org/a%2F%2E%2E%2Fb", "org,example)/b"),
        ("http://example.org/%2541", "org,example)/a"),
        ("http://example.org/a%", "org,example)/a%25"),
        ("http://example.org/?&a&&b", "org,example)/?&&a&b"),
        ("http://example.org/?b=1&b-c=2&b.=3", "org,example)/?b=1&b-c=2&b.=3"),
        ("http://example.org/?a=2&a&a=&a1", "org,example)/?a&a=&a=2&a1"),
        ("http://example.org/?x=%26&a=%3D", "org,example)/?&a==&x="),
        ("http://example.org/??", "org,example)/??"),
        (f"http://example.org/?x=1&PHPSESSID={S32}", "org,example)/?&x=1"),
        (f"http://example.org/?sid={S32}&x=1", "org,example)/?x=1"),
        (f"http://example.org/?y=1&xsid={S32}&z=2", "org,example)/?xz=2&y=1"),
        ("http://example.org/?cfid=12&cftoken=ab-c&b", "org,example)/?b"),
        ("http://example.org/?cfid=12&b", "org,example)/?b&cfid=12"),
        ("http://example.org/a/(S(0123456789abcdefghijklmn))/b/x.aspx", "org,example)/a/b/x.aspx"),
        ("http://example.org/(0123456789abcdefghijklmn)/b.aspx", "org,example)/b.aspx"),
        (
            "http://example.org/(S(0123456789abcdefghijklmn))/b.html",
            "org,example)/(s(0123456789abcdefghijklmn))/b.html",
        ),
    ],
)
def test_the_key_is_the_one_replay_tools_look_for(url: str, key: str) -> None:
    assert surt(url) == key


def test_http_and_https_share_a_key() -> None:
    assert surt("http://example.org/a") == surt("https://example.org/a")
