"""Every link of a page with its place: what it says, on which line, with its fragment.

The crawl keeps each URL of a page once and without fragment. A report about links needs more: each
occurrence with its line, fragments, references that are no URLs, and the places (anchors) of the
page that fragments can name. It reads them from the stored page with the readers of the crawl
(``element_readers``), so what is a link is the same in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import turbohtml

from lycosa.base.model.discovered import LinkKind
from lycosa.stages.parse.element_readers import READERS, RawPage, read_base
from lycosa.stages.parse.html import (
    IN_DRAWINGS,
    WANTED,
    open_shadow_roots,
    parse_tree,
    remove_templates,
)
from lycosa.stages.parse.outlinks import base_of
from lycosa.stages.parse.style_sheets import style_urls

_MAX_NOSCRIPTS = 1000
_BLANKS = " \t\n\f\r"
# what asks for no page, or not of itself: a connection that is opened early, a form
_NOT_CHECKED = frozenset({LinkKind.FORM, LinkKind.OTHER})


class LinkPlace(NamedTuple):
    """One occurrence of a link. ``raw`` is the reference as written, without blanks around it.

    ``line`` is that of the element in the source, from 1; 0 is not known.
    """

    raw: str
    kind: LinkKind
    text: str
    line: int


@dataclass(slots=True)
class LinkedPage:
    """The links of a page in their order, its base URL, and its anchors."""

    base: str
    charset: str
    places: list[LinkPlace] = field(default_factory=list)
    anchors: frozenset[str] = frozenset()


class _Places(RawPage):
    """Collects what the readers of elements find, each occurrence."""

    __slots__ = ("line", "places")

    def __init__(self, charset: str, max_links: int) -> None:
        super().__init__(charset, max_links=max_links)
        self.places: list[LinkPlace] = []
        self.line = 0

    def add(
        self, url: str | None, kind: LinkKind, anchor: str = "", nofollow: bool = False
    ) -> None:
        """Record one occurrence."""
        if url is not None and kind not in _NOT_CHECKED and len(self.places) < self.max_links:
            self.places.append(LinkPlace(url.strip(_BLANKS), kind, anchor, self.line))


def read_link_places(
    body: bytes, url: str, label: str | None = None, max_links: int = 50_000
) -> LinkedPage:
    """Read an HTML page. ``url`` is its address, ``label`` the charset from HTTP.

    At most ``max_links`` occurrences, the first ones.
    """
    tree = parse_tree(body, label, has_positions=True)
    charset = (tree.encoding or "utf-8").lower()
    found = _Places(charset, max_links)
    for element in tree.select("base"):
        read_base(found, element)
    if tree.select("template"):
        remove_templates(tree)
        open_shadow_roots(tree)
    noscripts = 0
    for element in _linking(tree):
        found.line = element.source_line or 0
        if element.tag != "noscript":
            READERS[element.tag](found, element)
        elif noscripts < _MAX_NOSCRIPTS:
            noscripts += 1
            _read_noscript(found, element.text)
    _read_styles(found, tree)
    return LinkedPage(base_of(url, found.base), charset, found.places, _anchors(tree))


def _linking(tree: turbohtml.Document) -> Iterator[turbohtml.Element]:
    """The elements that may have links, as the crawl chooses them (``html``)."""
    wanted = ",".join(selector for selector in WANTED if tree.select(selector))
    for element in tree.select(wanted) if wanted else ():
        if (
            element.tag == "a"
            or element.tag in IN_DRAWINGS
            or element.namespace is turbohtml.Namespace.HTML
        ):
            yield element


def read_anchors(body: bytes, label: str | None = None) -> frozenset[str]:
    """The anchors of an HTML page alone."""
    return _anchors(parse_tree(body, label))


def _read_noscript(found: _Places, content: str) -> None:
    """The links of a ``noscript``, all at the line of the element."""
    if "=" not in content:
        return
    tree = parse_tree(content)
    if tree.select("template"):
        remove_templates(tree)
    for element in _linking(tree):
        # a refresh in it is for browsers without scripts
        if element.tag not in ("noscript", "meta", "title"):
            READERS[element.tag](found, element)


def _read_styles(found: _Places, tree: turbohtml.Document) -> None:
    """What ``style`` elements and attributes load."""
    for element in tree.select("style"):
        found.line = element.source_line or 0
        for url, kind in style_urls(element.text):
            found.add(url, kind)
    if tree.select("[style]"):
        for element in tree.select("[style*='url(' i]"):
            found.line = element.source_line or 0
            for url, _ in style_urls(element.attr("style") or ""):
                found.add(url, LinkKind.IMG)


def _anchors(tree: turbohtml.Document) -> frozenset[str]:
    """What a fragment can name: an ``id``, or the ``name`` of an ``a``.

    Source: HTML standard 7.4.6.4, "find a potential indicated element".
    """
    ids = {element.attr("id") for element in tree.select("[id]")}
    names = {element.attr("name") for element in tree.select("a[name]")}
    return frozenset(each for each in ids | names if each)
