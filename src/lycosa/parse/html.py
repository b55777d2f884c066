"""The only module that uses the HTML parser: bytes in, unresolved facts of the page out.

One WHATWG tree is built per document. One selector finds all links and everything that describes
the page, and then the visible text is extracted. The selector runs in C, so Python sees only the
elements that it found; walking the whole tree costs three times as much. The cost of a selector
grows with its alternatives, while a single tag name is looked up in an index that the tree keeps
until it is changed. So only names that occur in the page are selected, and the tree is changed only
after everything is found. Malformed markup never raises, because the tree-construction algorithm
handles every sequence of bytes.

Links inside ``<template>`` and comments are not links. A template that is a declarative shadow root
is content and stays. Raw URL strings are deduplicated here, before they are resolved, without their
fragments: a fragment is never part of the fetched URL, and on documentation pages fragments are
most of the differences.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import turbohtml
import turbohtml.detect
from turbohtml import PlainText

from lycosa.model.discovered import LinkKind
from lycosa.parse.refresh import parse_refresh
from lycosa.parse.relations import link_kind
from lycosa.parse.srcset import srcset_urls

MAX_ANCHOR = 200
_MAX_TITLE = 2000
# characters of an anchor that are read: an unclosed <a> may contain the whole page
_ANCHOR_WINDOW = 4000

_WANTED = (
    *(
        "a",
        "area",
        "link",
        "meta",
        "title",
        "form",
        "frame",
        "iframe",
        "img",
        "script[src]",
        "source",
        "audio",
        "video",
        "track",
    ),
    *(
        "embed",
        "object",
        "input[type=image i]",
        "body[background]",
        "svg image",
        "svg script",
        "svg use",
        "svg feImage",
    ),
)
_IN_DRAWINGS = frozenset({"image", "script", "use", "feImage"})  # these are links in SVG too
_TEMPLATE = "template:not([shadowrootmode=open i],[shadowrootmode=closed i])"

# Not shown by a browser with scripts and styles; neither is fallback content of media.
_INVISIBLE = (
    *(
        "head",
        "script",
        "style",
        "noscript",
        _TEMPLATE,
        "iframe",
        "noframes",
        "noembed",
        "audio",
        "video",
        "canvas",
        "datalist",
    ),
    "dialog:not([open])",
    # as one selector, because these have to test every element
    "[hidden],[style*='display:none' i],[style*='display: none' i]",
)

# The text renderer formats tables in columns and quotes with indents, at a cost that grows with the
# square of a hostile page, and it numbers lists. As plain blocks they cost no more than their text.
_LAID_OUT = (
    *("table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "ol", "dd", "blockquote"),
    *("option", "optgroup", "select", "button", "legend"),
)
# Inline elements are removed and their content stays: in an inline element that contains blocks the
# renderer would not see the end of a block.
_INLINE = "a,abbr,b,big,cite,code,del,em,font,i,ins,label,mark,s,small,span,strong,time,tt,u"
_PLAIN = PlainText(layout="strict", bullet="", table_cell_separator=" ")

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
class Page:
    """The content of the markup, neither resolved against a base nor checked.

    ``links`` are by raw URL string (stripped, without fragment), in document order. ``metas`` are
    the ``(name, content)`` pairs of all metas with a name (in lower case). ``base`` is the first
    ``<base href>`` and ``canonical`` the first rel=canonical, both raw.
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


_BLANKS = " \t\n\f\r"


def read_html(body: bytes | str, label: str | None = None, max_links: int = 50_000) -> Page:
    """Read a page. ``label`` is the charset from HTTP.

    The order is that of WHATWG: BOM, HTTP, meta prescan, UTF-8 check, detector.
    """
    tree = _parse(body, label)
    page = Page((tree.encoding or "utf-8").lower(), max_links=max_links)
    # Looking up one tag name costs nothing. In SVG and MathML the names of HTML have no meaning,
    # except those that can be links there too.
    is_mixed = bool(tree.select("svg") or tree.select("math"))
    if tree.select("template"):
        _remove_templates(tree)
    root = tree.root
    if root is not None:
        page.language = root.attr("lang") or root.attr("xml:lang") or ""
    for element in tree.select("base"):  # before the links, because it may follow them
        _read_base(page, element)
    wanted = ",".join([selector for selector in _WANTED if tree.select(selector)])
    for element in tree.select(wanted) if wanted else ():
        if (tag := element.tag) == "a":
            _read_anchor(page, element)  # nearly all are; saves a lookup for each
        elif not is_mixed or tag in _IN_DRAWINGS or element.namespace is _HTML:
            _READERS[tag](page, element)
    page.text = _visible_text(tree)
    return page


def _remove_templates(tree: turbohtml.Document) -> None:
    for element in tree.select(_TEMPLATE):
        if element.namespace is _HTML:
            element.decompose()


def _parse(body: bytes | str, label: str | None) -> turbohtml.Document:
    charset = charset_name(label) if label else None
    if charset is not None and isinstance(body, bytes):
        return _tree(body, charset)
    tree = _tree(body)
    if (
        isinstance(body, bytes)
        and tree.encoding_confidence == "tentative"
        and (declared := _xml_charset(body))
    ):
        return _tree(body, declared)
    return tree


def _tree(body: bytes | str, charset: str | None = None) -> turbohtml.Document:
    # Shadow roots are parsed as ordinary templates, so that their content is found like any other.
    return turbohtml.parse(
        body,
        encoding=charset,
        detect_encoding=True,
        positions=False,
        allow_declarative_shadow_roots=False,
    )


_XML_ENCODING = re.compile(rb"<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")


def _xml_charset(body: bytes) -> str | None:
    """The charset in an XML declaration.

    It ranks after meta (HTML standard 13.2.3.2, "get an XML encoding").
    """
    found = _XML_ENCODING.match(body)
    charset = charset_name(found.group(1).decode("ascii")) if found else None
    # the declaration was read as ASCII, so the document is not UTF-16
    return "utf-8" if charset and charset.startswith("utf-16") else charset


def charset_name(label: str) -> str | None:
    """The Encoding standard's name for a label, in lower case; ``None`` for an unknown label.

    The name for ``latin1`` is ``windows-1252``.
    """
    try:
        return (
            turbohtml.parse(b"", encoding=label.strip(" \t\n\f\r")).encoding or ""
        ).lower() or None
    except LookupError:
        return None


def detect_charset(body: bytes) -> str | None:
    """The charset suggested by structure and letter frequencies; ``None`` without evidence."""
    found = turbohtml.detect.detect(body).encoding
    return found.lower() if found else None


def decode_whatwg(body: bytes, charset: str) -> str:
    """Decode by a name from ``charset_name`` or ``detect_charset``; malformed bytes are U+FFFD."""
    try:
        return codecs.lookup(f"whatwg-{charset}").decode(body, "replace")[0]
    except LookupError:  # a name that only Python has: the detector gives UTF-8-SIG for a BOM
        return body.decode(charset, "replace")


def _visible_text(tree: turbohtml.Document) -> str:
    """The visible text: one line for each block, white space folded.

    Changes the tree, so it has to be called last.
    """
    invisible = [element for selector in _INVISIBLE for element in tree.select(selector)]
    laid_out = [element for name in _LAID_OUT for element in tree.select(name)]
    for element in laid_out:
        element.tag = "div"
    for element in invisible:
        element.decompose()
    tree.strip_tags(_INLINE)
    return fold_lines(tree.to_text(_PLAIN))


def fold_lines(text: str) -> str:
    """Drop blank lines and fold white space in the other lines."""
    if "\xa0" in text:
        text = text.replace("\xa0", " ")
    folded = "\n".join(filter(None, map(str.strip, text.split("\n"))))
    if "  " in folded or "\t" in folded or "\r" in folded:  # inside lines
        lines = folded.split("\n")
        return "\n".join(
            [
                " ".join(line.split()) if "  " in line or "\t" in line or "\r" in line else line
                for line in lines
            ]
        )
    return folded


def _folded(text: str, limit: int) -> str:
    return " ".join(text[: limit * 20].split())[:limit].rstrip()


def _read_anchor(page: Page, element: turbohtml.Element) -> None:
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


def _read_area(page: Page, element: turbohtml.Element) -> None:
    page.add(
        element.attr("href"),
        LinkKind.AREA,
        _folded(element.attr("alt") or "", MAX_ANCHOR),
        _is_nofollow(element.attr("rel") or ""),
    )


def _read_link(page: Page, element: turbohtml.Element) -> None:
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


def _read_meta(page: Page, element: turbohtml.Element) -> None:
    content = element.attr("content")
    if content is None:
        return
    if name := element.attr("name"):
        page.metas.append((name.strip().lower(), content))
    if (element.attr("http-equiv") or "").lower() == "refresh":
        refresh = parse_refresh(content)
        # A refresh inside noscript leads to a page for browsers without scripts.
        if refresh and refresh[1] and element.closest("noscript") is None:
            page.add(refresh[1], LinkKind.REFRESH)


def _read_base(page: Page, element: turbohtml.Element) -> None:
    # A base inside noscript is for browsers without scripts; the links are not written for it.
    if page.base is None and element.namespace is _HTML and element.closest("noscript") is None:
        page.base = element.attr("href")


def _read_title(page: Page, element: turbohtml.Element) -> None:
    if not page.title:
        page.title = _folded(element.text, _MAX_TITLE)


def _read_form(page: Page, element: turbohtml.Element) -> None:
    page.add(element.attr("action"), LinkKind.FORM)


def _read_frame(page: Page, element: turbohtml.Element) -> None:
    kind = LinkKind.FRAME if element.tag == "frame" else LinkKind.IFRAME
    page.add(element.attr("src") or None, kind, _folded(element.attr("title") or "", MAX_ANCHOR))


def _read_input(page: Page, element: turbohtml.Element) -> None:
    page.add(
        element.attr("src") or None, LinkKind.IMG, _folded(element.attr("alt") or "", MAX_ANCHOR)
    )


def _read_image(page: Page, element: turbohtml.Element) -> None:
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


def _read_drawn(page: Page, element: turbohtml.Element) -> None:
    page.add(_drawing_href(element), LinkKind.IMG)


def _read_script(page: Page, element: turbohtml.Element) -> None:
    is_html = element.namespace is _HTML
    page.add((element.attr("src") or None) if is_html else _drawing_href(element), LinkKind.SCRIPT)


def _read_media(page: Page, element: turbohtml.Element) -> None:
    """A ``source`` with a srcset belongs to a picture, otherwise to audio or video."""
    page.add(element.attr("src") or None, LinkKind.MEDIA)
    page.add(element.attr("poster") or None, LinkKind.IMG)
    for url in srcset_urls(element.attr("srcset") or ""):
        page.add(url, LinkKind.IMG)


def _read_object(page: Page, element: turbohtml.Element) -> None:
    page.add(element.attr("data") or None, LinkKind.MEDIA)


def _read_body(page: Page, element: turbohtml.Element) -> None:
    page.add(element.attr("background") or None, LinkKind.IMG)


_READERS: dict[str, Callable[[Page, turbohtml.Element], None]] = {
    "a": _read_anchor,
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
