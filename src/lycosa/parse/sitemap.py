"""Sitemaps (sitemaps.org protocol 0.9): XML url sets, indexes, and plain text, as streams and within the protocol's
limits.

Namespaces are not compared and several ``loc`` in one entry are several entries, because both are common mistakes.
Priority 0 is clamped away from "never" by the receiver, not here; dates that are not dates are unknown.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec
from lxml import etree

from lycosa.parse.xml_stream import ended_elements, local_name, release, text_of, url_of

MAX_URLS = 50_000
MAX_BYTES = 50 * 1024 * 1024
_ENTRY = frozenset({"url", "sitemap"})
_LOC = frozenset({"loc"})
_FIELDS = frozenset({"loc", "lastmod", "priority", "changefreq"})
_TEXT_WINDOW = 20
_MAX_DATE = 100
_STARTS = ("http://", "https://", "www.")  # the last is wrong and common
_W3C_DATE = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?)?)?\s*\Z", re.IGNORECASE
)


class SitemapEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry: raw ``loc``, ``lastmod`` in seconds since 1970 (0 = unknown), ``priority`` in [0, 1] (-1 = none), ``changefreq``.

    ``alternates`` are the raw targets of its ``xhtml:link`` elements: the same page in other languages.
    """

    loc: str
    lastmod: int = 0
    priority: float = -1.0
    changefreq: str = ""
    alternates: tuple[str, ...] = ()


class Sitemap(msgspec.Struct, frozen=True, array_like=True):
    """The entries in order, at most ``MAX_URLS``; ``is_index`` when they are sitemaps and not pages."""

    entries: list[SitemapEntry]
    is_index: bool = False


def read_sitemap(body: bytes, charset: str | None = None) -> Sitemap:
    """Reads a url set or an index. Broken XML gives what could be read."""
    entries: list[SitemapEntry] = []
    fields: dict[str, str] = {}
    alternates: list[str] = []
    is_index = False
    for element in ended_elements(body, charset):
        name = local_name(element)
        if name in _ENTRY and not _is_in(element, _LOC):
            if not fields.get("loc"):
                fields["loc"] = text_of(element) if len(element) == 0 else ""  # the URL without its <loc>
            is_index = is_index or name == "sitemap"
            _finish(entries, fields, alternates)
            release(element)
        elif name in _FIELDS and _is_in(element, _ENTRY):
            if name == "loc" and fields.get("loc"):
                _finish(entries, fields, alternates)
            fields[name] = url_of(element) if name == "loc" else text_of(element)
            element.clear(keep_tail=True)  # read once: 200 of them inside each other would give each text 200 times
        elif name == "link" and element.get("href"):
            alternates.append(str(element.get("href")))
        if len(entries) >= MAX_URLS:
            break
    _finish(entries, fields, alternates)  # a document that was cut inside its last entry
    return Sitemap(entries[:MAX_URLS], is_index)


def _is_in(element: etree._Element, names: frozenset[str]) -> bool:
    parent = element.getparent()
    return parent is not None and local_name(parent) in names


def _finish(entries: list[SitemapEntry], fields: dict[str, str], alternates: list[str]) -> None:
    if loc := fields.get("loc"):
        entries.append(
            SitemapEntry(
                f"http://{loc}" if loc.startswith("www.") else loc,
                parse_w3c_date(fields.get("lastmod", "")),
                _priority(fields.get("priority", "")),
                fields.get("changefreq", "").lower(),
                tuple(alternates),
            )
        )
    fields.clear()
    alternates.clear()


def _priority(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text[:20])))
    except ValueError:
        return -1.0


def parse_w3c_date(text: str) -> int:
    """Seconds since 1970 of a W3C date (from a bare year to seconds with zone; UTC without one); 0 when it is none."""
    found = _W3C_DATE.match(text[:_MAX_DATE].strip())
    if found is None:
        return 0
    year, month, day, hour, minute, second = (int(part) if part else 0 for part in found.groups()[:6])
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


def looks_like_text_sitemap(text: str) -> bool:
    """Whether the first lines are URLs and nothing else; plain text has no other mark of a sitemap."""
    lines = [line.strip() for line in text[: _TEXT_WINDOW * 2048].splitlines()[:_TEXT_WINDOW]]
    lines = [line for line in lines if line]
    return bool(lines) and all(line.lower().startswith(_STARTS) and " " not in line for line in lines)


def read_text_sitemap(text: str) -> Sitemap:
    """Reads a text sitemap: one URL a line, other lines are passed over."""
    entries: list[SitemapEntry] = []
    for line in text.splitlines():
        loc = line.strip(" \t\r\n\xa0\ufeff")
        if loc.lower().startswith(_STARTS):
            entries.append(SitemapEntry(f"http://{loc}" if loc.startswith("www.") else loc))
            if len(entries) >= MAX_URLS:
                break
    return Sitemap(entries)
