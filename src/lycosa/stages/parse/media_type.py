"""The media type of a body: the server's statement, checked against the first bytes.

The essence is determined as in the MIME Sniffing standard (section 7) for the types that matter to
a crawler. A page sent as ``text/plain`` stays plain text. A body sent without a type is sniffed.
XML is classified by its root element, because feeds, sitemaps and XHTML are all sent as
``application/xml``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from lycosa.base.config.sections import ParseSection

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_QUOTED_TEXT = re.compile(r"[\t\x20-\x7e\x80-\xff]*\Z")
_HTTP_SPACE = " \t\n\r"

_UNKNOWN = frozenset({"", "unknown/unknown", "application/unknown", "*/*"})
_XML = frozenset({"text/xml", "application/xml", "application/x-xml"})
_BY_NAME = frozenset({"application/octet-stream", "application/zip"})  # what many servers send
_PDF = "application/pdf"
_OFFICE_PREFIX = "application/vnd.openxmlformats-officedocument."
_FILE_TYPES = {
    "pdf": _PDF,
    "docx": f"{_OFFICE_PREFIX}wordprocessingml.document",
    "pptx": f"{_OFFICE_PREFIX}presentationml.presentation",
    "xlsx": f"{_OFFICE_PREFIX}spreadsheetml.sheet",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "epub": "application/epub+zip",
    "doc": "application/msword",
    "ppt": "application/vnd.ms-powerpoint",
    "xls": "application/vnd.ms-excel",
    "rtf": "application/rtf",
}
_KNOWN_FILES = {
    **{essence: essence for essence in _FILE_TYPES.values()},
    "application/x-pdf": _PDF,
    "text/rtf": "application/rtf",
}
_MEDIA = ("image/", "video/", "audio/", "font/")
_HEAD_BYTES = 1 << 16
_BINARY_CHARS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")

# MIME Sniffing 7.1: these tags, followed by a blank or ">".
_HTML_START = re.compile(
    rb"[\t\n\f\r ]*<(?:!DOCTYPE"
    rb" HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE|TITLE|B|BODY|BR|P)["
    rb" >\t\n\f\r/]|[\t\n\f\r ]*<!--",
    re.IGNORECASE,
)
_XML_START = re.compile(rb"[\t\n\f\r ]*<\?xml")
# MIME Sniffing 6.1, 6.2, 6.4 and 7.1: the first bytes, and bytes from the ninth on, after a size.
_SIGNATURES = (
    (b"%PDF-", b"", "application/pdf"),
    (b"%!PS-Adobe-", b"", "application/postscript"),
    (b"\x00\x00\x01\x00", b"", "image/x-icon"),
    (b"\x00\x00\x02\x00", b"", "image/x-icon"),
    (b"GIF87a", b"", "image/gif"),
    (b"GIF89a", b"", "image/gif"),
    (b"RIFF", b"WEBPVP", "image/webp"),
    (b"\x89PNG\r\n\x1a\n", b"", "image/png"),
    (b"\xff\xd8\xff", b"", "image/jpeg"),
    (b"FORM", b"AIFF", "audio/aiff"),
    (b"OggS\x00", b"", "application/ogg"),
    (b"MThd\x00\x00\x00\x06", b"", "audio/midi"),
    (b"RIFF", b"AVI ", "video/avi"),
    (b"RIFF", b"WAVE", "audio/wave"),
    (b"\x1f\x8b\x08", b"", "application/gzip"),  # registered; the standard says x-gzip
    (b"PK\x03\x04", b"", "application/zip"),
    # The standard has a blank for the exclamation mark, and no such file exists.
    (b"Rar!\x1a\x07", b"", "application/x-rar-compressed"),
    # 6.3, which browsers use for fonts only
    (b"wOFF", b"", "font/woff"),
    (b"wOF2", b"", "font/woff2"),
)
# Words of a text may begin so, too, and no such file is without a byte that no text has.
_WORDS = ((b"BM", "image/bmp"), (b"ID3", "audio/mpeg"))
# What may precede the root element. Each piece is matched possessively, because backtracking in a
# hostile prolog would never end.
_PROLOG = r"(?>\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>)*+"
_ROOT = re.compile(_PROLOG + r"<(?:[\w.-]+:)?([\w.-]++)(?=[\s/>])", re.DOTALL | re.IGNORECASE)
_ROOT_WINDOW = 8192


class Shape(Enum):
    """The reader for a document."""

    HTML = "html"
    FEED = "feed"
    SITEMAP = "sitemap"
    TEXT = "text"
    NONE = "none"


class MediaType(NamedTuple):
    """A MIME type: its essence in lower case and its parameters.

    Names of parameters are in lower case; of repeated ones the first counts.
    """

    essence: str
    parameters: dict[str, str]

    def __str__(self) -> str:
        parts = [self.essence]
        for name, value in self.parameters.items():
            if not _TOKEN.match(value):
                value = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
            parts.append(f"{name}={value}")
        return ";".join(parts)


def parse_media_type(value: str) -> MediaType | None:
    """Parse one header value; ``None`` when it is not a MIME type.

    Source: MIME Sniffing standard 4.4.
    """
    essence, _, rest = value.strip(_HTTP_SPACE).partition(";")
    kind, slash, subtype = essence.partition("/")
    subtype = subtype.rstrip(_HTTP_SPACE)
    if not (slash and _TOKEN.match(kind) and _TOKEN.match(subtype)):
        return None
    return MediaType(f"{kind}/{subtype}".lower(), _parameters(rest) if rest else {})


def _parameters(rest: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    position = 0
    while position < len(rest):
        name_end = _find(rest, ";=", position)
        name = rest[position:name_end].lstrip(_HTTP_SPACE).lower()
        position = name_end + 1
        if name_end >= len(rest) or rest[name_end] == ";":
            continue
        if rest[position : position + 1] == '"':
            value, position = _quoted(rest, position + 1)
            position = _find(rest, ";", position) + 1
        else:
            value_end = _find(rest, ";", position)
            value, position = rest[position:value_end].rstrip(_HTTP_SPACE), value_end + 1
            if not value:
                continue
        if _TOKEN.match(name) and _QUOTED_TEXT.match(value):
            parameters.setdefault(name, value)
    return parameters


def _find(text: str, chars: str, start: int) -> int:
    return min((at for char in chars if (at := text.find(char, start)) >= 0), default=len(text))


def _quoted(text: str, position: int) -> tuple[str, int]:
    """The value of a quoted string that starts at ``position``, and the position after it."""
    value: list[str] = []
    while position < len(text) and text[position] != '"':
        if text[position] == "\\" and position + 1 < len(text):
            position += 1
        value.append(text[position])
        position += 1
    return "".join(value), position + 1


def media_type_of(headers: Iterable[tuple[str, str]]) -> MediaType | None:
    """The MIME type of a response: the last valid Content-Type.

    Source: Fetch standard, "extract a MIME type".
    """
    # Repeated headers are one value with commas, and a quoted string may contain such a comma
    # (Fetch standard, "get, decode, and split").
    combined = ", ".join([value for name, value in headers if name == "content-type"])
    found: MediaType | None = None
    for part in _COMBINED.findall(combined):
        candidate = parse_media_type(part)
        if candidate is None or candidate.essence == "*/*":
            continue
        if found and found.essence == candidate.essence and "charset" in found.parameters:
            candidate.parameters.setdefault("charset", found.parameters["charset"])
        found = candidate
    return found


_COMBINED = re.compile(r"(?:[^,\"]++|\"(?:[^\"\\]++|\\.|\\\Z)*+(?:\"|\Z))++", re.DOTALL)


def is_gzip_file(supplied: str, body: bytes) -> bool:
    """Whether the body is a gzip file (a sitemap's ``.xml.gz``) apart from its content encoding."""
    if not body.startswith(b"\x1f\x8b\x08"):
        return False
    return supplied in _UNKNOWN or any(
        word in supplied for word in ("gzip", "gunzip", "xml", "text/", "octet-stream")
    )


def file_type(essence: str, url: str) -> str:
    """The type by which a document is read as a file: of PDF or of an office program; else empty.

    Many servers send those as any file, or as any archive; then the end of the path says it.
    """
    if essence in _BY_NAME:
        name = url.partition("?")[0].rpartition("/")[2]
        stem, _, ending = name.rpartition(".")
        return _FILE_TYPES.get(ending.lower(), "") if stem else ""
    return _KNOWN_FILES.get(essence, "")


def is_read(file: str, section: ParseSection) -> bool:
    """Whether the settings want the text of a file of this type (``file_type``)."""
    return section.pdf if file == _PDF else bool(file) and section.office


def read_spooled(path: str, supplied: str, is_encoded: bool) -> tuple[bytes, int]:
    """A body that is in a file; and the size of the file, if only its beginning was read.

    No reader reads media, so of these the beginning is enough, however large they are. ``supplied``
    is the server's essence, ``is_encoded`` whether the body has a content encoding.
    """
    if is_encoded or supplied.endswith("+xml") or not supplied.startswith(_MEDIA):
        return Path(path).read_bytes(), 0
    with Path(path).open("rb") as file:
        return file.read(_HEAD_BYTES), os.fstat(file.fileno()).st_size


def sniff(supplied: str, body: bytes) -> tuple[str, Shape]:
    """The essence of a document, and the reader for it.

    ``supplied`` is the server's essence, empty when it gave none.
    """
    if supplied in _UNKNOWN:
        supplied = _sniff_unknown(body)
    if supplied == "text/html":
        return _sniff_feed_or_html(body)
    if supplied == "application/xhtml+xml":
        return supplied, Shape.HTML
    if supplied in _XML or supplied.endswith("+xml"):
        return _sniff_xml(supplied, body)
    if supplied == "text/plain":
        return _sniff_plain(body)
    if supplied == "application/octet-stream" and _XML_START.match(_without_mark(body)):
        return _sniff_xml("text/xml", body)
    return supplied, Shape.NONE


def _sniff_unknown(body: bytes) -> str:
    head = body[:1445]
    for mark in (b"\xfe\xff", b"\xff\xfe"):
        if head.startswith(mark):
            return "text/plain"
    head = _without_mark(head)
    if _HTML_START.match(head):
        return "text/html"
    if _XML_START.match(head) or root_name(body[:_ROOT_WINDOW]) in _XML_SHAPES:
        return "text/xml"
    for first, ninth, essence in _SIGNATURES:
        if head.startswith(first) and head.startswith(ninth, 8 if ninth else 0):
            return essence
    if not _BINARY_CHARS.search(head):
        return "text/plain"
    for first, essence in _WORDS:
        if head.startswith(first):
            return essence
    if _is_mp4(head):
        return "video/mp4"
    return "video/webm" if _is_webm(head) else "application/octet-stream"


def _is_mp4(head: bytes) -> bool:
    """MIME Sniffing 6.2.1: a brand of the file type box begins with ``mp4``."""
    size = int.from_bytes(head[:4], "big")
    if head[4:8] != b"ftyp" or len(head) < max(size, 12) or size % 4:
        return False
    # the brands; the four bytes after the first one are its version
    return any(head[at : at + 3] == b"mp4" for at in (8, *range(16, size, 4)))


def _is_webm(head: bytes) -> bool:
    """MIME Sniffing 6.2.2: an EBML head with the document type ``webm``."""
    if not head.startswith(b"\x1aE\xdf\xa3"):
        return False
    at = head.find(b"\x42\x82", 4, 40)
    # the length of the type is a number of one to eight bytes, and zeros may precede the type
    return at >= 0 and _EBML_WEBM.match(head, at + 2) is not None


_EBML_WEBM = re.compile(
    rb"(?:[\x80-\xff]|[\x40-\x7f].|[\x20-\x3f]..|[\x10-\x1f]...|[\x08-\x0f].{4}|[\x04-\x07].{5}"
    rb"|[\x02\x03].{6}|\x01.{7})\x00*webm",
    re.DOTALL,
)


def _without_mark(head: bytes) -> bytes:
    return head[3:] if head.startswith(b"\xef\xbb\xbf") else head


def _sniff_plain(body: bytes) -> tuple[str, Shape]:
    """Classify a body sent as text/plain, which servers use for anything.

    Bytes that do not occur in text make it binary (MIME Sniffing 7.2).
    """
    head = body[:1445]
    root = root_name(body[:_ROOT_WINDOW]) if b"<" in head[:100] else ""
    # a sitemap is not meant for readers, so it is never plain text on purpose
    if root in ("urlset", "sitemapindex"):
        return _XML_SHAPES[root]
    if head.startswith((b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf")) or not _BINARY_CHARS.search(
        head
    ):
        return "text/plain", Shape.TEXT
    return "application/octet-stream", Shape.NONE


def _sniff_feed_or_html(body: bytes) -> tuple[str, Shape]:
    """MIME Sniffing 7.3, also for sitemaps, because many servers send them as HTML."""
    root = root_name(body[:_ROOT_WINDOW]) if body.lstrip()[:1] == b"<" or body[:1] > b"\x7f" else ""
    if root in _XML_SHAPES and root != "html":
        return _XML_SHAPES[root]
    return "text/html", Shape.HTML


_XML_SHAPES: dict[str, tuple[str, Shape]] = {
    "rss": ("application/rss+xml", Shape.FEED),
    "feed": ("application/atom+xml", Shape.FEED),
    "rdf": ("application/rss+xml", Shape.FEED),
    "urlset": ("application/xml", Shape.SITEMAP),
    "sitemapindex": ("application/xml", Shape.SITEMAP),
    "html": ("application/xhtml+xml", Shape.HTML),
}


def _sniff_xml(supplied: str, body: bytes) -> tuple[str, Shape]:
    essence, shape = _XML_SHAPES.get(root_name(body[:_ROOT_WINDOW]), (supplied, Shape.NONE))
    return (supplied if supplied.endswith("+xml") else essence), shape


def root_name(head: bytes) -> str:
    """Local name of an XML document's root element in lower case.

    Empty when the first bytes do not show it.
    """
    if head.startswith(b"\xff\xfe") or head[1:2] == b"\x00":
        text = head[: len(head) & ~1].decode("utf-16-le", "replace")
    elif head.startswith(b"\xfe\xff") or head[:1] == b"\x00":
        text = head[: len(head) & ~1].decode("utf-16-be", "replace")
    else:
        text = _without_mark(head).decode("latin-1")
    found = _ROOT.match(text.lstrip("\ufeff"))
    return found.group(1).lower() if found else ""
