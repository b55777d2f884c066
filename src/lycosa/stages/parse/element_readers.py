"""The readers of a page's elements: links, metas, title and base.

Raw URL strings are deduplicated here, before they are resolved, without their fragments: a fragment
is never part of the fetched URL, and on documentation pages fragments are most of the differences.
``html`` finds the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import turbohtml

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.page_content import PageContent
from lycosa.base.model.parsed import ScriptNeed
from lycosa.base.preferences.page_statements import is_rsl
from lycosa.stages.parse.markup_values import link_kind, parse_refresh, srcset_urls

MAX_ANCHOR = 200
_MAX_TITLE = 2000
_MAX_LICENSES = 20
# characters of an anchor that are read: an unclosed <a> may contain the whole page
_ANCHOR_WINDOW = 4000
_BLANKS = " \t\n\f\r"
_A = LinkKind.A  # a module constant, because access to an enum's attributes is slow
_HTML = turbohtml.Namespace.HTML
_NOFOLLOW = ("nofollow", "ugc", "sponsored")


@dataclass(slots=True)
class RawLink:
    """An outlink before resolution.

    ``anchor`` is folded; ``nofollow`` is true if every occurrence has it.
    """

    kind: LinkKind
    anchor: str = ""
    nofollow: bool = False


@dataclass(slots=True)
class RawPage:
    """The content of the markup, neither resolved against a base nor checked.

    ``links`` are by raw URL string (stripped, without fragment), in document order. ``metas`` are
    the ``(name, content)`` pairs of all metas with a name (in lower case). ``base`` is the first
    ``<base href>`` and ``canonical`` the first rel=canonical, both raw. ``licenses`` are the raw
    targets of the first links with rel=license that may be RSL licences. ``content`` is set by
    those who read more of the tree. ``looks_scripted`` says that the page seems to be empty until
    its scripts run, ``script_need`` is the finer judgement for crawls that render pages.
    """

    charset: str
    text: str = ""
    title: str = ""
    language: str = ""
    base: str | None = None
    canonical: str | None = None
    metas: list[tuple[str, str]] = field(default_factory=list)
    links: dict[str, RawLink] = field(default_factory=dict)
    max_links: int = 50_000
    licenses: list[str] = field(default_factory=list)
    content: PageContent | None = None
    looks_scripted: bool = False
    script_need: ScriptNeed = ScriptNeed.NONE

    def add(
        self, url: str | None, kind: LinkKind, anchor: str = "", nofollow: bool = False
    ) -> None:
        """Record a raw link.

        A second occurrence keeps the stronger kind, and nofollow only if both have it.
        """
        if url is None:
            return
        raw, mark, _ = url.partition("#")
        raw = raw.strip(_BLANKS)
        if not raw and mark and self.base is None:
            return  # a link into this page
        known = self.links.get(raw)
        if known is None:
            if len(self.links) < self.max_links:
                self.links[raw] = RawLink(kind, anchor, nofollow)
            return
        if kind < known.kind:
            known.kind, known.anchor = kind, anchor or known.anchor
        elif not known.anchor and kind == known.kind:
            known.anchor = anchor
        known.nofollow = known.nofollow and nofollow


def _folded(text: str, limit: int) -> str:
    return " ".join(text[: limit * 20].split())[:limit].rstrip()


def read_anchor(page: RawPage, element: turbohtml.Element) -> None:
    href = element.attr("href")
    if href is None:
        href = element.attr("xlink:href")  # SVG before version 2
        if href is None or element.namespace is _HTML:
            return
    known = page.links.get(href.partition("#")[0])
    if known is not None and known.kind is _A and known.anchor and not known.nofollow:
        return  # this occurrence adds nothing; three of four do not on documentation pages
    rel = element.attr("rel")
    page.add(
        href,
        _A,
        " ".join(element.text[:_ANCHOR_WINDOW].split())[:MAX_ANCHOR].rstrip(),
        rel is not None and _is_nofollow(rel),
    )


def _is_nofollow(rel: str) -> bool:
    words = rel.lower().replace(",", " ").split()
    return any(word in words for word in _NOFOLLOW)


def _read_area(page: RawPage, element: turbohtml.Element) -> None:
    page.add(
        element.attr("href"),
        LinkKind.AREA,
        _folded(element.attr("alt") or "", MAX_ANCHOR),
        _is_nofollow(element.attr("rel") or ""),
    )


def _read_link(page: RawPage, element: turbohtml.Element) -> None:
    href = element.attr("href")
    rels = (element.attr("rel") or "").lower().split()
    if (
        href
        and "license" in rels
        and len(page.licenses) < _MAX_LICENSES
        and is_rsl(element.attr("type") or "")
    ):
        page.licenses.append(href)
    if href and rels and (kind := link_kind(rels, element.attr("as") or "")) is not None:
        if kind is LinkKind.CANONICAL and page.canonical is None:
            page.canonical = href
        page.add(
            href,
            kind,
            _folded(element.attr("title") or "", MAX_ANCHOR),
            _is_nofollow(" ".join(rels)),
        )
    if "preload" in rels:
        for url in srcset_urls(element.attr("imagesrcset") or ""):
            page.add(url, LinkKind.IMG)


def _read_meta(page: RawPage, element: turbohtml.Element) -> None:
    content = element.attr("content")
    if content is None:
        return
    if name := element.attr("name"):
        page.metas.append((name.strip().lower(), content))
    if (element.attr("http-equiv") or "").lower() == "refresh":
        refresh = parse_refresh(content)
        if refresh and refresh[1]:
            page.add(refresh[1], LinkKind.REFRESH)


def read_base(page: RawPage, element: turbohtml.Element) -> None:
    if page.base is None and element.namespace is _HTML:
        page.base = element.attr("href")


def _read_title(page: RawPage, element: turbohtml.Element) -> None:
    if not page.title:
        page.title = _folded(element.text, _MAX_TITLE)


def _read_form(page: RawPage, element: turbohtml.Element) -> None:
    page.add(element.attr("action"), LinkKind.FORM)


def _read_frame(page: RawPage, element: turbohtml.Element) -> None:
    kind = LinkKind.FRAME if element.tag == "frame" else LinkKind.IFRAME
    page.add(element.attr("src") or None, kind, _folded(element.attr("title") or "", MAX_ANCHOR))


def _read_input(page: RawPage, element: turbohtml.Element) -> None:
    page.add(
        element.attr("src") or None, LinkKind.IMG, _folded(element.attr("alt") or "", MAX_ANCHOR)
    )


def _read_image(page: RawPage, element: turbohtml.Element) -> None:
    alt = _folded(element.attr("alt") or "", MAX_ANCHOR)
    page.add(element.attr("src") or None, LinkKind.IMG, alt)
    for url in srcset_urls(element.attr("srcset") or ""):
        page.add(url, LinkKind.IMG, alt)


def _drawing_href(element: turbohtml.Element) -> str | None:
    """The target of an SVG element; ``href`` precedes ``xlink:href`` (SVG 2 section 16.1.5).

    A fragment alone refers to a part of the drawing and gives ``None``.
    """
    href = element.attr("href")
    if href is None:
        href = element.attr("xlink:href")
    return href if href and not href.lstrip(_BLANKS).startswith("#") else None


def _read_drawn(page: RawPage, element: turbohtml.Element) -> None:
    page.add(_drawing_href(element), LinkKind.IMG)


def _read_script(page: RawPage, element: turbohtml.Element) -> None:
    is_html = element.namespace is _HTML
    page.add((element.attr("src") or None) if is_html else _drawing_href(element), LinkKind.SCRIPT)


def _read_media(page: RawPage, element: turbohtml.Element) -> None:
    """A ``source`` with a srcset belongs to a picture, otherwise to audio or video."""
    page.add(element.attr("src") or None, LinkKind.MEDIA)
    page.add(element.attr("poster") or None, LinkKind.IMG)
    for url in srcset_urls(element.attr("srcset") or ""):
        page.add(url, LinkKind.IMG)


def _read_object(page: RawPage, element: turbohtml.Element) -> None:
    page.add(element.attr("data") or None, LinkKind.MEDIA)


def _read_body(page: RawPage, element: turbohtml.Element) -> None:
    page.add(element.attr("background") or None, LinkKind.IMG)


READERS: dict[str, Callable[[RawPage, turbohtml.Element], None]] = {
    "a": read_anchor,
    "area": _read_area,
    "link": _read_link,
    "meta": _read_meta,
    "title": _read_title,
    "form": _read_form,
    "frame": _read_frame,
    "iframe": _read_frame,
    "img": _read_image,
    "input": _read_input,
    "image": _read_drawn,
    "use": _read_drawn,
    "feImage": _read_drawn,
    "script": _read_script,
    "source": _read_media,
    "audio": _read_media,
    "video": _read_media,
    "track": _read_media,
    "embed": _read_media,
    "object": _read_object,
    "body": _read_body,
}
