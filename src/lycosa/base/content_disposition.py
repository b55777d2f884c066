"""The file name in ``Content-Disposition`` (RFC 6266, RFC 8187), made safe.

A name comes from the server, so only its last segment counts, without characters that a file system
or a terminal would take for something else.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

MAX_FILE_NAME = 200
"""Characters of a name; its extension stays."""

_PARAMETER = re.compile(
    r";\s*(filename\*?)\s*=\s*(?:\"((?:[^\"\\]|\\.){0,2000})\"|([^\s;\"]{1,2000}))", re.IGNORECASE
)
_EXTENDED = re.compile(r"(utf-8|iso-8859-1)'[^']{0,40}'(.*)", re.IGNORECASE)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069<>:\"|?*]")


def disposition_name(value: str) -> str:
    """The file name that a header value (Latin-1) gives, or the empty string.

    ``filename*`` precedes ``filename`` (RFC 6266 section 4.3). Bytes beyond ASCII in a plain name
    are UTF-8 if they can be, as browsers take them.
    """
    found: dict[str, str] = {}
    for name, quoted, plain in _PARAMETER.findall(";" + value.partition(";")[2]):
        text = re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        found.setdefault(name.lower(), text)
    extended = _EXTENDED.fullmatch(found.get("filename*", ""))
    if extended is not None:
        name = unquote_to_bytes(extended[2]).decode(extended[1], "replace")
    else:
        name = _decoded(found.get("filename", ""))
    return _safe(name)


def _decoded(text: str) -> str:
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _safe(name: str) -> str:
    last = _UNSAFE.sub("", re.split(r"[/\\]", name)[-1]).strip(" .")
    stem, dot, extension = last.rpartition(".")
    if len(last) <= MAX_FILE_NAME:
        return last
    if not dot or len(extension) > 20:
        return last[:MAX_FILE_NAME]
    return f"{stem[: MAX_FILE_NAME - len(extension) - 1]}.{extension}"
