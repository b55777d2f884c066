"""Queries of pages that are not in UTF-8.

A browser encodes what a link's query has beyond ASCII in the page's own charset (WHATWG URL, query
state), and old servers expect it so: in UTF-8 they would answer with another page. Paths and
fragments are always UTF-8.
"""

from __future__ import annotations

import codecs
import re

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
# The special-query percent-encode set, and every byte that is not ASCII.
_TO_ESCAPE = re.compile(rb"[^!$-&(-;=?-~]")
# WHATWG names whose encoder Python has under another name, or in a narrower table under the same.
_CODECS = {
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "gb2312": "gb18030",
    "iso-8859-1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "latin-1": "cp1252",
    "iso-8859-9": "cp1254",
    "iso-8859-11": "cp874",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
    "macintosh": "mac_roman",
}


def with_charset(raw: str, charset: str) -> str:
    """A reference whose query is in ASCII, written in ``charset``; an unknown charset and the
    UTFs change nothing.
    """
    mark = raw.find("?")
    if mark < 0 or charset.lower().startswith("utf"):
        return raw
    codec = _CODECS.get(charset.lower(), charset)
    try:
        codecs.lookup(codec)
    except LookupError:
        return raw
    end = raw.find("#", mark)
    end = len(raw) if end < 0 else end
    return (
        raw[:mark]
        + _BEYOND_ASCII.sub(lambda found: _encoded(found[0], codec), raw[mark:end])
        + raw[end:]
    )


def _encoded(text: str, codec: str) -> str:
    try:
        data = text.encode(codec)
    except UnicodeEncodeError:
        if len(text) > 1:
            return "".join(_encoded(character, codec) for character in text)
        # A character that the charset does not have is sent as an HTML reference (WHATWG URL,
        # percent-encode after encoding).
        return f"%26%23{ord(text)}%3B"
    return _TO_ESCAPE.sub(lambda found: b"%%%02X" % found[0][0], data).decode("ascii")
