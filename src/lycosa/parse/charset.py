"""Which charset a document without markup is in, and its text.

The order is the one of the Encoding and HTML standards: byte order mark, then what HTTP says, then
UTF-8 when the bytes are valid as such, then the detector, then windows-1252. Pages have the meta
prescan in between, which is part of reading them (``html``). Labels mean what the Encoding standard
says (``iso-8859-1`` is windows-1252), as this is what servers were tested against.
"""

from __future__ import annotations

from lycosa.parse.html import charset_name, decode_whatwg, detect_charset

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_DETECT_WINDOW = 65_536


def decode_text(body: bytes, label: str | None) -> tuple[str, str]:
    """The text without a byte order mark, malformed bytes as U+FFFD, and the charset's name.
    ``label`` is HTTP's charset.
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
