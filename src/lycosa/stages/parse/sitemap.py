"""Sitemaps (sitemaps.org protocol 0.9): XML URL sets, indexes and plain text.

They are read as streams and within the protocol's limits. Of Google's extensions images, videos,
news and hreflang alternates are read. Namespaces are not compared, and several ``loc`` in one entry
are several entries, because both are common mistakes. The receiver, not this module, keeps priority
0 from meaning "never". Invalid dates are unknown dates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from lycosa.base.listing_kind import ListingKind
from lycosa.stages.parse.xml_stream import ended_elements, local_name, release, text_of, url_of

if TYPE_CHECKING:
    from lxml import etree

MAX_URLS = 50_000
_ENTRY = frozenset({"url", "sitemap"})
_FIELDS = frozenset({"loc", "lastmod", "priority", "changefreq"})
# Elements of extensions by parent and name, and the field for their text.
_EXTENSIONS = {
    ("image", "loc"): "images",
    ("video", "thumbnail_loc"): "images",
    ("video", "content_loc"): "media",
    ("video", "player_loc"): "media",
    ("news", "title"): "title",
}
_DAY_S = 86_400
_CHANGES_S = {
    "always": 900,
    "hourly": 3600,
    "daily": _DAY_S,
    "weekly": 7 * _DAY_S,
    "monthly": 30 * _DAY_S,
    "yearly": 365 * _DAY_S,
    "never": 3650 * _DAY_S,
}
_MAX_TITLE = 200
_TEXT_WINDOW = 20
_MAX_DATE = 100
_BLANKS = " \t\r\n\xa0\ufeff"
_DATED = re.compile(r"(\S+) +(\d{4}-\d{2}-\d{2}(?:[T ]\S+)?)")
_STARTS = ("http://", "https://", "www.")  # the last is invalid but common
_W3C_DATE = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T"
    r" ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?)?)?\s*\Z",
    re.IGNORECASE,
)


class SitemapEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry of a sitemap.

    ``loc`` is raw, ``lastmod`` in seconds since 1970 (0 = unknown), ``priority`` in [0, 1] (-1 =
    none). ``alternates`` are the raw targets of its ``xhtml:link`` elements: the same page in other
    languages. ``images`` and ``media`` are raw URLs of what the page shows; ``title`` is the title
    of a news article.
    """

    loc: str
    lastmod: int = 0
    priority: float = -1.0
    changefreq: str = ""
    alternates: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    title: str = ""


class Sitemap(msgspec.Struct, frozen=True, array_like=True):
    """The entries in order, at most ``MAX_URLS``.

    ``is_index`` says that the entries are sitemaps and not pages.
    """

    entries: list[SitemapEntry]
    is_index: bool = False

    @property
    def kind(self) -> ListingKind:
        """The kind of sitemap; one of news has titles of articles."""
        if self.is_index:
            return ListingKind.INDEX
        is_news = any(entry.title for entry in self.entries)
        return ListingKind.NEWS if is_news else ListingKind.SITEMAP


@dataclass(slots=True)
class _Entry:
    """An unfinished entry: texts by field, and fields that may occur repeatedly."""

    fields: dict[str, str] = field(default_factory=dict)
    alternates: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    media: list[str] = field(default_factory=list)

    def finished(self) -> SitemapEntry | None:
        """The entry, or ``None`` if it has no URL."""
        fields, loc = self.fields, self.fields.get("loc")
        if not loc:
            return None
        return SitemapEntry(
            f"http://{loc}" if loc.startswith("www.") else loc,
            parse_w3c_date(fields.get("lastmod", "")),
            _priority(fields.get("priority", "")),
            fields.get("changefreq", "").lower(),
            tuple(self.alternates),
            tuple(self.images),
            tuple(self.media),
            " ".join(fields.get("title", "").split())[:_MAX_TITLE],
        )


def read_sitemap(body: bytes, charset: str | None = None) -> Sitemap:
    """Read a URL set or an index. Broken XML gives what could be read."""
    entries: list[SitemapEntry] = []
    entry = _Entry()
    is_index = False
    for element in ended_elements(body, charset):
        name, parent = local_name(element), _parent_of(element)
        if name in _ENTRY and parent != "loc":
            if not entry.fields.get("loc"):
                # a URL directly in the entry, without <loc>
                entry.fields["loc"] = text_of(element) if len(element) == 0 else ""
            is_index = is_index or name == "sitemap"
            entry = _next(entries, entry)
            release(element)
        elif name in _FIELDS and parent in _ENTRY:
            if name == "loc" and entry.fields.get("loc"):
                entry = _next(entries, entry)
            entry.fields[name] = url_of(element) if name == "loc" else text_of(element)
            # each text only once: 200 nested elements would give each text 200 times
            element.clear(keep_tail=True)
        elif name == "link" and element.get("href"):
            entry.alternates.append(str(element.get("href")))
        elif extension := _EXTENSIONS.get((parent, name)):
            _extend(entry, extension, element)
            element.clear(keep_tail=True)
        if len(entries) >= MAX_URLS:
            break
    _next(entries, entry)  # a document that was truncated inside its last entry
    return Sitemap(entries[:MAX_URLS], is_index)


def _parent_of(element: etree._Element) -> str:
    parent = element.getparent()
    return local_name(parent) if parent is not None else ""


def _next(entries: list[SitemapEntry], entry: _Entry) -> _Entry:
    if (finished := entry.finished()) is not None:
        entries.append(finished)
    return _Entry()


def _extend(entry: _Entry, extension: str, element: etree._Element) -> None:
    if extension in ("images", "media"):
        if url := url_of(element):
            (entry.images if extension == "images" else entry.media).append(url)
    else:
        entry.fields[extension] = text_of(element)


def change_interval_s(changefreq: str) -> int:
    """The seconds between changes for a ``changefreq``; 0 for an unknown one."""
    return _CHANGES_S.get(changefreq, 0)


def _priority(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text[:20])))
    except ValueError:
        return -1.0


def parse_w3c_date(text: str) -> int:
    """Seconds since 1970 of a W3C date; 0 when it is not one.

    The forms range from a year to seconds with a zone; without a zone it is UTC.
    """
    found = _W3C_DATE.match(text[:_MAX_DATE].strip())
    if found is None:
        return 0
    year, month, day, hour, minute, second = (
        int(part) if part else 0 for part in found.groups()[:6]
    )
    try:
        moment = datetime(year, month or 1, day or 1, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return 0
    return max(0, int(moment) - _offset_s(found.group(7) or "Z"))


def _offset_s(zone: str) -> int:
    if zone in "Zz":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return (-minutes if zone[0] == "-" else minutes) * 60


def has_url_line(text: str) -> bool:
    """Whether a file that was requested as a sitemap has at least one URL line."""
    return any(_url_and_date(line)[0] for line in text.splitlines())


def looks_like_text_sitemap(text: str) -> bool:
    """Whether the first lines of a text that is not declared a sitemap are all URLs.

    Plain text has no other mark of a sitemap.
    """
    lines = [
        line for line in text[: _TEXT_WINDOW * 2048].splitlines()[:_TEXT_WINDOW] if line.strip()
    ]
    return bool(lines) and all(" " not in (loc := _url_and_date(line)[0]) and loc for line in lines)


def read_text_sitemap(text: str, *, is_cut: bool = False) -> Sitemap:
    """Read a text sitemap: one URL a line; other lines are skipped.

    A URL may be followed by a tab and its date, or by blanks and a date, which some generators
    write. When the text ``is_cut``, a last line without a line end is skipped too, because it may
    be half a URL.
    """
    entries: list[SitemapEntry] = []
    for line in text.splitlines(keepends=True):
        loc, lastmod = _url_and_date(line)
        if not loc or (is_cut and line.splitlines()[0] == line):
            continue
        entries.append(SitemapEntry(f"http://{loc}" if loc.startswith("www.") else loc, lastmod))
        if len(entries) >= MAX_URLS:
            break
    return Sitemap(entries)


def _url_and_date(line: str) -> tuple[str, int]:
    """The URL at the start of a line and the date after it (0 when there is none).

    An empty URL when the line is something else.
    """
    line = line.strip(_BLANKS)
    if not line.lower().startswith(_STARTS):
        return "", 0
    loc, tab, rest = line.partition("\t")
    if not tab and (dated := _DATED.fullmatch(line)):
        loc, rest = dated.groups()
    return loc.strip(_BLANKS), parse_w3c_date(rest.partition("\t")[0])
