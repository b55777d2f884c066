"""All links of the pages of a site, as they were found: what there is to check.

One pass over the stored pages fills it. Links are kept resolved and canonical, as the crawl knows
URLs, with the fragment next to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from lycosa.base.config.patterns import Patterns
from lycosa.base.config.sections import CanonicalSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl
from lycosa.stages.parse.link_places import LinkedPage, LinkPlace
from lycosa.stages.parse.outlinks import with_encoded_query

_SCHEME = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.-]*):")
# Schemes that are spelled nearly like those of the web, or that only the author's machine has.
_MISSPELT = re.compile(r"h{1,2}t{1,3}p{1,2}s{0,2}|ttps?|htp+s?|https?-?|file|[a-z]", re.IGNORECASE)
_WITH_PLACES = frozenset({LinkKind.A, LinkKind.AREA, LinkKind.IFRAME, LinkKind.FRAME})
_TEXT_FRAGMENT = ":~:"


class PageLink(NamedTuple):
    """A link: the page, the canonical URL and the fragment to which it leads.

    ``raw`` is the reference as written; ``line`` is that of its element, 0 if not known.
    """

    page: str
    url: str
    fragment: str
    kind: LinkKind
    text: str
    line: int
    raw: str


class BadLink(NamedTuple):
    """A reference that is no URL which can be requested, and why in words."""

    page: str
    place: LinkPlace
    why: str


class LinkSurvey:
    """What was found on the pages; ``ignored`` are patterns of URLs that are not checked.

    ``skipped`` counts references with schemes of other programs (``mailto``) by scheme. ``anchors``
    has the anchors of each HTML page, ``listed`` the URLs that sitemaps list with the sitemap,
    ``indexable`` the pages that belong in one.
    """

    def __init__(self, canonical: CanonicalSection, ignored: Sequence[str] = ()) -> None:
        self._canonicalizer = Canonicalizer(canonical)
        self._ignored = Patterns("--ignore", tuple(ignored)) if ignored else None
        self.links: list[PageLink] = []
        self.bad: list[BadLink] = []
        self.skipped: Counter[str] = Counter()
        self.anchors: dict[str, frozenset[str]] = {}
        self.listed: dict[str, str] = {}
        self.indexable: set[str] = set()
        self.pages = 0

    def add_page(self, url: str, page: LinkedPage) -> None:
        """Add an HTML page with all its links; the same link of a page counts once."""
        self.pages += 1
        self.anchors[url] = page.anchors
        known = set[tuple[str, bool]]()
        charset = None if page.charset.startswith("utf") else page.charset
        for place in page.places:
            key = place.raw, place.kind in _WITH_PLACES
            if key not in known:
                known.add(key)
                self._add(url, page.base, place, charset)

    def add_links(self, url: str, links: Iterable[tuple[str, LinkKind, str]]) -> None:
        """Add the links of a document that has no lines: URL, kind and text of each."""
        for target, kind, text in links:
            if kind in (LinkKind.SITEMAP, LinkKind.SITEMAP_FILE):
                if not self.is_ignored(target):
                    self.listed.setdefault(target, url)
                    self.links.append(PageLink(url, target, "", kind, "", 0, target))
            elif kind not in (LinkKind.FORM, LinkKind.OTHER) and not self.is_ignored(target):
                self.links.append(PageLink(url, target, "", kind, text, 0, target))

    def targets(self) -> Iterator[str]:
        """Every URL that some link leads to, once."""
        return iter(dict.fromkeys(link.url for link in self.links))

    def with_fragment(self) -> set[str]:
        """The URLs of which some link names a place."""
        return {link.url for link in self.links if link.fragment}

    def is_ignored(self, url: str) -> bool:
        """Whether one of the patterns matches."""
        return self._ignored is not None and self._ignored.find(url) is not None

    def canonical(self, url: str) -> str:
        """The canonical form of a URL. Raises ``InvalidUrl``."""
        return self._canonicalizer.canonical(url)

    def _add(self, page: str, base: str, place: LinkPlace, charset: str | None) -> None:
        raw = place.raw
        if charset and not raw.isascii():
            raw = with_encoded_query(raw, charset)
        if self.is_ignored(raw):
            return
        try:
            url = self._canonicalizer.canonical(raw, base)
        except InvalidUrl as error:
            self._refuse(page, place, base, error)
            return
        if not self.is_ignored(url):
            fragment = place_in(raw) if place.kind in _WITH_PLACES else ""
            self.links.append(
                PageLink(page, url, fragment, place.kind, place.text, place.line, place.raw)
            )

    def _refuse(self, page: str, place: LinkPlace, base: str, error: InvalidUrl) -> None:
        found = _SCHEME.match(place.raw)
        scheme = (found[1] if found else urlsplit(base).scheme).lower()
        if error.reason is not Reason.SCHEME:
            self.bad.append(BadLink(page, place, error.detail or error.reason.meaning))
        elif _MISSPELT.fullmatch(scheme):
            self.bad.append(BadLink(page, place, f"browsers do not open {scheme}: here"))
        else:
            self.skipped[scheme] += 1


def place_in(raw: str) -> str:
    """The place that a reference names in its document, as written; empty if it names none.

    Without text fragments, and without what the scripts of applications read (``#/route``,
    ``#!/state``). Source: HTML standard 7.4.6.4, "find a potential indicated element".
    """
    fragment = raw.partition("#")[2].partition(_TEXT_FRAGMENT)[0]
    if not fragment or fragment[0] in "/!" or fragment.lower() == "top":
        return ""
    return fragment


def has_place(anchors: frozenset[str], fragment: str) -> bool:
    """Whether a page with these anchors has the place that a fragment names.

    As written, or decoded (the same clause of the standard). The prefix is that of GitHub and
    others for headings, which scripts of the page add.
    """
    decoded = unquote(fragment)
    return not anchors.isdisjoint((fragment, decoded, f"user-content-{decoded}"))
