"""Queries of pages that are not in UTF-8.

In the query of a link, a browser encodes non-ASCII characters in the page's charset (WHATWG URL,
query state). Old servers expect that: for a query in UTF-8 they would send a different page. Paths
and fragments are always UTF-8.
"""

from __future__ import annotations

import codecs
import re

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
# The special-query percent-encode set, and every byte that is not ASCII.
_TO_ESCAPE = re.compile(rb"[^!$-&(-;=?-~]")
# WHATWG charset names for which Python has another name, or the same name with a smaller table.
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
    """Percent-encode a reference's query in ``charset``, so that the query is ASCII.

    An unknown charset and the UTF charsets change nothing.
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
        # A character that the charset lacks is sent as an HTML character reference (WHATWG URL,
        # percent-encode after encoding).
        return f"%26%23{ord(text)}%3B"
    return _TO_ESCAPE.sub(lambda found: b"%%%02X" % found[0][0], data).decode("ascii")
