"""Every link of a page with its place: what it says, on which line, with its fragment.

The crawl keeps each URL of a page once and without fragment. A report about links needs more: each
occurrence with its line, fragments, references that are no URLs, and the places (anchors) of the
page that fragments can name. It reads them from the stored page with the readers of the crawl
(``element_readers``), so what is a link is the same in both. References are resolved here too,
because a page with a long base URL makes that the larger part of the work.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import turbohtml

from lycosa.base.config.feature_sections import ParseSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.linked_page import LinkedPage, LinkPlace
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl
from lycosa.stages.parse.element_readers import READERS, RawPage, read_base
from lycosa.stages.parse.html import (
    IN_DRAWINGS,
    WANTED,
    open_shadow_roots,
    parse_tree,
    remove_templates,
)
from lycosa.stages.parse.media_type import media_type_of
from lycosa.stages.parse.outlinks import base_of, with_encoded_query
from lycosa.stages.parse.style_sheets import style_urls

_MAX_NOSCRIPTS = 1000
_BLANKS = " \t\n\f\r"
# what asks for no page, or not of itself: a connection that is opened early, a form
_NOT_CHECKED = frozenset({LinkKind.FORM, LinkKind.OTHER})
_SCHEME = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.-]*):")
# Schemes that are spelled nearly like those of the web, or that only the author's machine has.
_MISSPELT = re.compile(r"h{1,2}t{1,3}p{1,2}s{0,2}|ttps?|htp+s?|https?-?|file|[a-z]", re.IGNORECASE)


_MAX_CHARACTERS = 20_000_000
"""Of the canonical URLs of a page; only a hostile one, with a long base URL, has more."""


class PlaceParser:
    """What the parse child of a link check runs: links with their places, and nothing else.

    It gets HTML that is decoded, with its charset in the header field Content-Type.
    """

    def __init__(self, section: ParseSection, canonicalizer: Canonicalizer) -> None:
        self._section, self._canonicalizer = section, canonicalizer

    def parse(self, document: ParseInput) -> Parsed:
        """The places of a page (``Parsed.linked``). Never raises because of it."""
        started = time.process_time()
        media_type = media_type_of(document.headers)
        label = media_type.parameters.get("charset") if media_type else None
        body = document.body[: self._section.max_bytes]
        reason, detail, linked = Reason.NONE, "", None
        try:
            linked = read_link_places(
                body, document.url, self._canonicalizer, label, self._section.max_links
            )
        except MemoryError:
            reason, detail = Reason.PARSE_KILLED, "out of memory"
        # one document must never end a check, and the error is reported with it
        except Exception as error:
            reason, detail = Reason.INTERNAL, f"{type(error).__name__}: {error}"[:500]
        return Parsed(reason, detail, elapsed_s=time.process_time() - started, linked=linked)


class _Places(RawPage):
    """Collects what the readers of elements find, each occurrence."""

    __slots__ = ("is_cut", "line", "places")

    def __init__(self, charset: str, max_links: int) -> None:
        super().__init__(charset, max_links=max_links)
        self.places: list[LinkPlace] = []
        self.line = 0
        self.is_cut = False

    def add(
        self, url: str | None, kind: LinkKind, anchor: str = "", nofollow: bool = False
    ) -> None:
        """Record one occurrence."""
        if url is None or kind in _NOT_CHECKED:
            return
        if len(self.places) < self.max_links:
            self.places.append(LinkPlace(url.strip(_BLANKS), kind, anchor, self.line))
        else:
            self.is_cut = True


def read_link_places(
    body: bytes,
    url: str,
    canonicalizer: Canonicalizer,
    label: str | None = None,
    max_links: int = 50_000,
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
    _resolve(found, canonicalizer, base_of(url, found.base))
    return LinkedPage(found.places, _anchors(tree), found.is_cut)


def _resolve(found: _Places, canonicalizer: Canonicalizer, base: str) -> None:
    """Give each place its URL, or why it has none; links beyond ``_MAX_CHARACTERS`` are dropped."""
    charset = None if found.charset.startswith("utf") else found.charset
    known: dict[str, tuple[str, str, str]] = {}
    characters = 0
    for at, place in enumerate(found.places):
        result = known.get(place.raw)
        if result is None:
            result = known[place.raw] = resolved_reference(place.raw, canonicalizer, base, charset)
        characters += len(result[0])
        if characters > _MAX_CHARACTERS:
            del found.places[at:]
            found.is_cut = True
            return
        found.places[at] = LinkPlace(*place[:4], *result)


def resolved_reference(
    raw: str, canonicalizer: Canonicalizer, base: str, charset: str | None = None
) -> tuple[str, str, str]:
    """``url``, ``why`` and ``scheme`` of a ``LinkPlace``."""
    if charset and not raw.isascii():
        raw = with_encoded_query(raw, charset)
    try:
        return canonicalizer.canonical(raw, base), "", ""
    except InvalidUrl as error:
        if error.reason is not Reason.SCHEME:
            return "", error.detail or error.reason.meaning, ""
    found = _SCHEME.match(raw)
    scheme = (found[1] if found else urlsplit(base).scheme).lower()
    if _MISSPELT.fullmatch(scheme):
        return "", f"browsers do not open {scheme}: here", ""
    return "", "", scheme


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
