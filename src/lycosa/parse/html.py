"""The only module that knows the HTML parser: bytes in, raw facts of the page out.

One WHATWG tree per document, one selector over it for everything that is a link or says something
about the page, and then the visible text. The selector runs in C and Python sees only the elements
it found: walking the whole tree costs three times as much. A selector costs by its alternatives,
while one name alone is in an index that the tree keeps until it is changed: so only names that the
page has are selected, and nothing is changed before everything is found. Malformed markup never
raises, because the tree-construction algorithm has an answer for every sequence of bytes.

Links inside ``<template>`` and comments are not links; a template that is a declarative shadow root
is content and stays. Raw URL strings are deduplicated here, before anybody resolves them, with
their fragments cut off: a fragment is never a part of the URL that is fetched, and on documentation
pages it makes up most of the differences.
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
_ANCHOR_WINDOW = (
    4000  # characters of an anchor that are looked at: an unclosed <a> may hold the whole page
)

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
_IN_DRAWINGS = frozenset({"image", "script", "use", "feImage"})  # what is a link there too
_TEMPLATE = "template:not([shadowrootmode=open i],[shadowrootmode=closed i])"

# Not shown by a browser that has scripts and styles. Fallback content of media is not shown either.
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
    # in one: for these all elements have to be looked at
    "[hidden],[style*='display:none' i],[style*='display: none' i]",
)

# The text renderer lays tables out in columns and quotes with indents, which grows with the square
# of a hostile page, and gives numbers to lists. As plain blocks they cost what their text costs.
_LAID_OUT = (
    *("table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "ol", "dd", "blockquote"),
    *("option", "optgroup", "select", "button", "legend"),
)
# Inline elements go, leaving their content: in one that holds blocks the renderer would not see
# where these end.
_INLINE = "a,abbr,b,big,cite,code,del,em,font,i,ins,label,mark,s,small,span,strong,time,tt,u"
_PLAIN = PlainText(layout="strict", bullet="", table_cell_separator=" ")

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
class Page:
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


_BLANKS = " \t\n\f\r"


def read_html(body: bytes | str, label: str | None = None, max_links: int = 50_000) -> Page:
    """Reads a page. ``label`` is the charset that HTTP gave; order as in WHATWG: BOM, HTTP, meta
    prescan, UTF-8 check, detector.
    """
    tree = _parse(body, label)
    page = Page((tree.encoding or "utf-8").lower(), max_links=max_links)
    # Looking for one tag name costs nothing. In drawings and formulas HTML's names mean nothing,
    # but for what can be a link there too.
    is_mixed = bool(tree.select("svg") or tree.select("math"))
    if tree.select("template"):
        _remove_templates(tree)
    root = tree.root
    if root is not None:
        page.language = root.attr("lang") or root.attr("xml:lang") or ""
    for element in tree.select("base"):  # before the links: the first may stand behind them
        _read_base(page, element)
    wanted = ",".join([selector for selector in _WANTED if tree.select(selector)])
    for element in tree.select(wanted) if wanted else ():
        if (tag := element.tag) == "a":
            _read_anchor(page, element)  # nearly all are; a look-up less for each
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
    # Shadow roots as ordinary templates, so that their content is found like any other.
    return turbohtml.parse(
        body,
        encoding=charset,
        detect_encoding=True,
        positions=False,
        allow_declarative_shadow_roots=False,
    )


_XML_ENCODING = re.compile(rb"<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")


def _xml_charset(body: bytes) -> str | None:
    """What an XML declaration says; it comes after meta (HTML standard 13.2.3.2, "get an XML
    encoding").
    """
    found = _XML_ENCODING.match(body)
    charset = charset_name(found.group(1).decode("ascii")) if found else None
    # read as ASCII, so UTF-16 it is not
    return "utf-8" if charset and charset.startswith("utf-16") else charset


def charset_name(label: str) -> str | None:
    """The Encoding standard's name for a label, in lower case; ``None`` when it is not one.
    ``latin1`` is ``windows-1252``.
    """
    try:
        return (
            turbohtml.parse(b"", encoding=label.strip(" \t\n\f\r")).encoding or ""
        ).lower() or None
    except LookupError:
        return None


def detect_charset(body: bytes) -> str | None:
    """The charset that the bytes look like, by structure and letter frequencies; ``None``
    without evidence.
    """
    found = turbohtml.detect.detect(body).encoding
    return found.lower() if found else None


def decode_whatwg(body: bytes, charset: str) -> str:
    """Decodes by a name from ``charset_name`` or ``detect_charset``, malformed bytes as U+FFFD."""
    try:
        return codecs.lookup(f"whatwg-{charset}").decode(body, "replace")[0]
    except LookupError:  # names that only Python has: the detector says UTF-8-SIG for a mark
        return body.decode(charset, "replace")


def _visible_text(tree: turbohtml.Document) -> str:
    """Text as shown: one line for each block, white space folded. Changes the tree, so it comes
    last.
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
    """Drops blank lines and folds white space in the others."""
    if "\xa0" in text:
        text = text.replace("\xa0", " ")
    folded = "\n".join(filter(None, map(str.strip, text.split("\n"))))
    if "  " in folded or "\t" in folded or "\r" in folded:  # within lines; indents are gone
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
        # A refresh for browsers without scripts leads to a page that says so.
        if refresh and refresh[1] and element.closest("noscript") is None:
            page.add(refresh[1], LinkKind.REFRESH)


def _read_base(page: Page, element: turbohtml.Element) -> None:
    # In <noscript> it is for browsers without scripts, for whom the links were not written.
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
    """SVG 2 section 16.1.5: ``href`` goes before the older ``xlink:href``. A fragment alone is a
    part of the drawing.
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
    """``source`` is a picture's when it has a srcset, else a track's or a medium's."""
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
