"""RSS (0.9 to 2.0, RDF) and Atom feeds: the pages that their entries link to, as a stream.

An entry's page is its ``link``. An RSS entry without one may have it in its ``guid``, unless that
is marked as no permalink. Of Atom's links only ``alternate`` is the page: ``self`` is the feed,
``enclosure`` a file. Namespaces are not compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from lycosa.stages.parse.sitemap import parse_w3c_date
from lycosa.stages.parse.xml_stream import ended_elements, local_name, release, text_of, url_of

if TYPE_CHECKING:
    from lxml import etree

MAX_ENTRIES = 50_000
_ENTRY = frozenset({"item", "entry"})
_ROOTS = frozenset({"channel", "feed"})
_DATES = frozenset({"pubdate", "updated", "published", "modified", "date", "lastbuilddate"})
_MAX_TITLE = 200  # characters of an entry's title, used as anchor text
_MAX_TEXT = 2000  # characters of a feed's title and description, as for a page
_MAX_LANGUAGE = 100
_MAX_DATE = 100
_MAX_ENTRY_TEXT = 20_000  # characters of the markup of an entry's text
_TEXTS = ("encoded", "content", "description", "summary")  # the best first


@dataclass(slots=True)
class FeedEntry:
    """One entry: raw link, folded title, date in seconds since 1970 (0 = unknown).

    ``markup`` is its text, as HTML or plain text: that of the entry, or else a summary.
    """

    link: str = ""
    title: str = ""
    date: int = 0
    markup: str = ""
    rank: int = len(_TEXTS)  # of the element that ``markup`` is from


@dataclass(slots=True)
class Feed:
    """A feed and its entries in order. ``link`` is the raw link of the site it belongs to."""

    title: str = ""
    description: str = ""
    language: str = ""
    link: str = ""
    entries: list[FeedEntry] = field(default_factory=list)


def read_feed(body: bytes, charset: str | None = None) -> Feed:
    """Read a feed; broken XML gives what could be read.

    Of a truncated feed, a URL that may continue after the cut is left out.
    """
    feed, entry, guid = Feed(), FeedEntry(), ""
    for element in ended_elements(_whole_tags(body), charset):
        name = local_name(element)
        owner = _owner(element)
        if name in _ENTRY:
            entry.link = entry.link or guid
            if entry.link:
                feed.entries.append(entry)
            entry, guid = FeedEntry(), ""
            release(element)
        elif owner in _ENTRY:
            if name == "guid" and (element.get("isPermaLink") or "true").lower() != "false":
                guid = url_of(element)
            else:
                _read_entry_field(entry, name, element)
        elif owner in _ROOTS:
            _read_feed_field(feed, name, element)
        if len(feed.entries) >= MAX_ENTRIES:
            break
    return feed


def _whole_tags(body: bytes) -> bytes:
    """The body up to the last tag, because the element of any text after it is incomplete.

    A body in UTF-16, where ``>`` has two bytes, is returned unchanged.
    """
    return body if b"\x00" in body[:4] else body[: body.rfind(b">") + 1]


def _owner(element: etree._Element) -> str:
    parent = element.getparent()
    return local_name(parent) if parent is not None and isinstance(parent.tag, str) else ""


def _read_entry_field(entry: FeedEntry, name: str, element: etree._Element) -> None:
    if name == "link":
        entry.link = entry.link or _link(element)
    elif name == "title":
        entry.title = " ".join(text_of(element).split())[:_MAX_TITLE]
    elif name in _DATES:
        entry.date = entry.date or parse_feed_date(text_of(element))
    elif name in _TEXTS and (rank := _TEXTS.index(name)) < entry.rank:
        markup = "".join(map(str, element.itertext()))[:_MAX_ENTRY_TEXT]
        if markup.strip():
            entry.markup, entry.rank = markup, rank


def _read_feed_field(feed: Feed, name: str, element: etree._Element) -> None:
    if name == "link":
        feed.link = feed.link or _link(element)
    elif name == "title":
        feed.title = feed.title or _folded(element)
    elif name in ("description", "subtitle"):
        feed.description = feed.description or _folded(element)
    elif name == "language":
        feed.language = feed.language or text_of(element)[:_MAX_LANGUAGE]


def _folded(element: etree._Element) -> str:
    return " ".join(text_of(element).split())[:_MAX_TEXT]


def _link(element: etree._Element) -> str:
    href = element.get("href")
    if href is None:
        return _based(element, url_of(element))
    return (
        _based(element, str(href).strip())
        if (element.get("rel") or "alternate").lower() == "alternate"
        else ""
    )


def _based(element: etree._Element, reference: str) -> str:
    """Resolve a reference against the ``xml:base`` of its element (RFC 4287 section 2).

    Unchanged when there is none.
    """
    try:
        return urljoin(str(element.base), reference) if element.base and reference else reference
    except ValueError:
        return reference


def parse_feed_date(text: str) -> int:
    """Seconds since 1970 of an RFC 822 or W3C date; 0 when it is neither."""
    text = text[:_MAX_DATE]
    if moment := parse_w3c_date(text):
        return moment
    # imported at the first feed, because the library costs as much as ten pages
    from email.utils import parsedate_to_datetime

    try:
        parsed = parsedate_to_datetime(text)
        return max(0, int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()))
    except (ValueError, IndexError, TypeError, OverflowError):
        # What ``email.utils`` raises for text that is no date. The entry counts without one.
        return 0
