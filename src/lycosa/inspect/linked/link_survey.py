"""All links of the pages of a site, as they were found: what there is to check.

One pass over the stored pages fills it. Links are resolved and canonical, as the crawl knows URLs,
with the fragment next to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from lycosa.base.config.patterns import Patterns
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.linked_page import LinkedPage, LinkPlace

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
    """A reference of a page that is no URL which can be requested."""

    page: str
    place: LinkPlace


class LinkSurvey:
    """What was found on the pages; ``ignored`` are patterns of URLs that are not checked.

    ``skipped`` counts references with schemes of other programs (``mailto``) by scheme. ``anchors``
    has the anchors of each HTML page, ``listed`` the URLs that sitemaps list with the sitemap,
    ``indexable`` the pages that belong in one.
    """

    def __init__(self, ignored: Sequence[str] = ()) -> None:
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
        for place in page.places:
            key = place.raw, place.kind in _WITH_PLACES
            if key not in known:
                known.add(key)
                self.add_place(url, place)

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

    def is_ignored(self, url: str) -> bool:
        """Whether one of the patterns matches."""
        return self._ignored is not None and self._ignored.find(url) is not None

    def add_place(self, page: str, place: LinkPlace) -> None:
        """Add one link, or what is wrong with it."""
        if self.is_ignored(place.raw) or (place.url and self.is_ignored(place.url)):
            return
        if place.url:
            fragment = place_in(place.raw) if place.kind in _WITH_PLACES else ""
            self.links.append(
                PageLink(page, place.url, fragment, place.kind, place.text, place.line, place.raw)
            )
        elif place.why:
            self.bad.append(BadLink(page, place))
        else:
            self.skipped[place.scheme] += 1


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
