"""The charset and the text of a document without markup.

The order is that of the Encoding and HTML standards: byte order mark, the charset from HTTP, UTF-8
if the bytes are valid, the detector, windows-1252. Pages also have the meta prescan, which is part
of reading them (``html``). Labels mean what the Encoding standard defines (``iso-8859-1`` is
windows-1252), because servers were tested against browsers.
"""

from __future__ import annotations

from lycosa.parse.html import charset_name, decode_whatwg, detect_charset

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
        detected = detect_charset(body[:_DETECT_WINDOW]) or "windows-1252"
    return decode_whatwg(body, detected), detected
