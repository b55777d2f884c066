"""Charsets of plain text and of pages: the order of mark, header, declaration, bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.stages.parse.charset import charset_name, decode_text, decode_whatwg
from lycosa.stages.parse.html import read_html


@pytest.mark.parametrize(
    ("body", "label", "text", "charset"),
    [
        (b"\xef\xbb\xbfabc", "windows-1251", "abc", "utf-8"),
        ("é".encode("utf-16-le"), None, "é", "utf-16le"),
        (b"\xff\xfea\x00", "utf-8", "a", "utf-16le"),
        (b"\xe9", "latin1", "é", "windows-1252"),
        (b"\x80", "iso-8859-1", "€", "windows-1252"),
        ("é".encode(), None, "é", "utf-8"),
        ("é".encode(), "no-such-charset", "é", "utf-8"),
        (b"a\xffb", "utf-8", "a\ufffdb", "utf-8"),
        (b"", None, "", "utf-8"),
    ],
)
def test_order_for_text(body: bytes, label: str | None, text: str, charset: str) -> None:
    if body == "é".encode("utf-16-le"):
        body = b"\xff\xfe" + body
    assert decode_text(body, label) == (text, charset)


def test_bytes_that_are_no_utf_8_go_to_the_detector() -> None:
    text = "Быстрая коричневая лиса прыгает через ленивую собаку. " * 5
    assert decode_text(text.encode("windows-1251"), None) == (text, "windows-1251")


@pytest.mark.parametrize(
    ("body", "label", "charset"),
    [
        (b"\xef\xbb\xbf<meta charset=latin1>", "windows-1251", "utf-8"),
        (b"<meta charset=latin1>", "windows-1251", "windows-1251"),
        (b"<meta charset=latin2>", None, "iso-8859-2"),
        (b"<meta charset=latin2>", "no-such-charset", "iso-8859-2"),
        (b"<meta charset=utf-16>", None, "utf-8"),
        ("<p>é".encode(), None, "utf-8"),
        (b'<?xml version="1.0" encoding="koi8-r"?><html>\xc1', None, "koi8-r"),
        (b'<?xml version="1.0" encoding="koi8-r"?><meta charset=latin2>', None, "iso-8859-2"),
    ],
)
def test_order_for_pages(body: bytes, label: str | None, charset: str) -> None:
    assert read_html(body, label).charset == charset


def test_a_page_is_read_in_its_charset() -> None:
    assert read_html("<title>Зелёный</title>".encode("koi8-r"), "koi8-r").title == "Зелёный"


def test_labels_are_the_encoding_standards() -> None:
    assert charset_name(" Latin1 ") == "windows-1252"
    assert charset_name("'utf-8'") is None
    assert decode_whatwg(b"\xa1\x40", "big5") == "\u3000"


@settings(deadline=None)
@given(st.binary(max_size=300), st.none() | st.text(max_size=12))
def test_any_bytes_and_label_give_text(body: bytes, label: str | None) -> None:
    text, charset = decode_text(body, label)
    assert isinstance(text, str) and charset == charset.lower()
