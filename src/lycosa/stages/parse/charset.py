"""Names of charsets, and the text of a document without markup.

The order is that of the Encoding and HTML standards: byte order mark, the charset from HTTP, UTF-8
if the bytes are valid, the detector, windows-1252. Pages also have the meta prescan, which is part
of reading them (``html``). Labels mean what the Encoding standard defines (``iso-8859-1`` is
windows-1252), because servers were tested against browsers.
"""

from __future__ import annotations

import codecs

import turbohtml
import turbohtml.detect

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_DETECT_WINDOW = 65_536


def decode_text(body: bytes, label: str | None) -> tuple[str, str]:
    """The text and the charset's name. ``label`` is the charset from HTTP.

    The text has no byte order mark, and malformed bytes are U+FFFD.
    """
    for mark, charset in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(charset, "replace"), charset
    if label and (named := charset_name(label)):
        return decode_whatwg(body, named), named
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        # Without a label, valid UTF-8 is UTF-8: other charsets pass that check by chance almost
        # never.
        detected = detect_charset(body[:_DETECT_WINDOW]) or "windows-1252"
    return decode_whatwg(body, detected), detected


def charset_name(label: str) -> str | None:
    """The Encoding standard's name for a label, in lower case; ``None`` for an unknown label.

    The name for ``latin1`` is ``windows-1252``.
    """
    try:
        return (
            turbohtml.parse(b"", encoding=label.strip(" \t\n\f\r")).encoding or ""
        ).lower() or None
    except LookupError:
        return None


def detect_charset(body: bytes) -> str | None:
    """The charset suggested by structure and letter frequencies; ``None`` without evidence."""
    found = turbohtml.detect.detect(body).encoding
    return found.lower() if found else None


def decode_whatwg(body: bytes, charset: str) -> str:
    """Decode by a name from ``charset_name`` or ``detect_charset``; malformed bytes are U+FFFD."""
    try:
        return codecs.lookup(f"whatwg-{charset}").decode(body, "replace")[0]
    except LookupError:  # a name that only Python has: the detector gives UTF-8-SIG for a BOM
        return body.decode(charset, "replace")
