"""What each element of a page says: links, metas, the title, the base.

Raw URL strings are deduplicated here, before anybody resolves them, with their fragments cut off: a
fragment is never a part of the URL that is fetched, and on documentation pages it makes up most of
the differences. ``html`` finds the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import turbohtml

from lycosa.model.discovered import LinkKind
from lycosa.parse.refresh import parse_refresh
from lycosa.parse.relations import link_kind
from lycosa.parse.srcset import srcset_urls

MAX_ANCHOR = 200
_MAX_TITLE = 2000
# Characters of an anchor that are looked at: an unclosed <a> may hold the whole page.
_ANCHOR_WINDOW = 4000
_BLANKS = " \t\n\f\r"
_A = LinkKind.A  # here, as an enum's own attributes are slow
_HTML = turbohtml.Namespace.HTML
_NOFOLLOW = ("nofollow", "ugc", "sponsored")


@dataclass(slots=True)
class RawLink:
    """An outlink before resolution: its kind, anchor text (folded) and whether every place that
    has it says nofollow.
    """

    kind: LinkKind
    anchor: str = ""
    nofollow: bool = False


@dataclass(slots=True)
class RawPage:
    """What the markup says, nothing of it resolved against a base or checked.

    ``links`` are by raw URL string (stripped, without fragment) in document order. ``metas`` are
    the ``(name, content)`` pairs of all metas that have a name (in lower case). ``base`` is the
    first ``<base href>``, ``canonical`` the first rel=canonical, both raw.
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

    def add(
        self, url: str | None, kind: LinkKind, anchor: str = "", nofollow: bool = False
    ) -> None:
        """Records a raw link; a second occurrence keeps the stronger kind, and nofollow only
        when both say so.
        """
        if url is None:
            return
        raw, mark, _ = url.partition("#")
        raw = raw.strip(_BLANKS)
        if not raw and mark and self.base is None:
            return  # points into this very page
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
        return  # nothing that this occurrence could add; three of four on documentation pages
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
        # A refresh for browsers without scripts leads to a page that says so.
        if refresh and refresh[1] and element.closest("noscript") is None:
            page.add(refresh[1], LinkKind.REFRESH)


def read_base(page: RawPage, element: turbohtml.Element) -> None:
    # In <noscript> it is for browsers without scripts, for whom the links were not written.
    if page.base is None and element.namespace is _HTML and element.closest("noscript") is None:
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
    """SVG 2 section 16.1.5: ``href`` goes before the older ``xlink:href``. A fragment alone is a
    part of the drawing.
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
    """``source`` is a picture's when it has a srcset, else a track's or a medium's."""
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
