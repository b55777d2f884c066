"""What a browser loads for a page without running scripts, beyond the plain attributes.

``element_readers`` has the attributes that nearly every page uses. Here are the others, which cost
a pass over the tree each and are read only for crawls with ``scope.requisites``: styles in the
page, nested documents, references of drawings, modules, and what only older browsers load. Archives
are replayed in those too.

Each part that is parsed apart (a nested document, a conditional comment, a drawing in a ``data:``
URL) is bounded in size, number and depth.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote_to_bytes

import turbohtml

from lycosa.base.model.discovered import LinkKind
from lycosa.stages.parse.element_readers import RawPage
from lycosa.stages.parse.module_imports import is_module_url, static_imports
from lycosa.stages.parse.style_sheets import MAX_STYLE_BYTES, declared_urls, style_urls

ReadElements = Callable[[RawPage, turbohtml.Document], None]
"""Adds the links of a tree's elements to a page (``html.read_parts``)."""

_MAX_PARTS = 100  # of one page, of each kind
_MAX_PART = 1 << 16  # characters
_MAX_NESTED = 3  # documents in documents; a browser loads no more of one URL in itself either
_FRAMES = (LinkKind.FRAME, LinkKind.IFRAME)
_STYLES = frozenset({"", "text/css"})

_ATTRIBUTES = (
    # obsolete, but rendered by browsers to this day, or by those of the time of the page
    *((f"{name}[background]", "background", LinkKind.IMG) for name in ("table", "thead", "tbody")),
    *((f"{name}[background]", "background", LinkKind.IMG) for name in ("tfoot", "tr", "td", "th")),
    ("img[lowsrc]", "lowsrc", LinkKind.IMG),
    ("img[dynsrc]", "dynsrc", LinkKind.MEDIA),
    ("bgsound[src]", "src", LinkKind.MEDIA),
    ("applet[archive]", "archive", LinkKind.SCRIPT),
    ("import[implementation]", "implementation", LinkKind.SCRIPT),
    ("html[manifest]", "manifest", LinkKind.STYLE),
    ("meta[name=msapplication-config i]", "content", LinkKind.STYLE),
    ("meta[name=msapplication-tileimage i]", "content", LinkKind.IMG),
    ("link[rel~=prefetch i]", "href", LinkKind.MEDIA),
    ("link[rel~=prerender i]", "href", LinkKind.MEDIA),
)
_MOVIES = frozenset({"src", "movie", "url", "filename", "ref"})  # names of an object's params
# SVG 2: presentation attributes that may refer to another document, and elements with an href
_PAINTS = ("fill", "stroke", "filter", "mask", "clip-path", "cursor")
_PAINTED = ",".join(
    f"[{name}*='url(' i]" for name in (*_PAINTS, "marker-start", "marker-mid", "marker-end")
)
_REFERRING = "linearGradient,radialGradient,pattern,filter,textPath,mpath,tref,cursor"
_DRAWING = re.compile(r"\s*data:image/svg\+xml(?P<options>[^,]{0,200}),", re.IGNORECASE)
_DRAWINGS = (("img", "src"), ("object", "data"), ("embed", "src"), ("iframe", "src"))
_CONDITION, _CONDITION_END = "<!--[if", "<![endif]"
_SHEET_LINE = re.compile(r"<\?xml-stylesheet\s[^>]{0,500}?\bhref\s*=\s*[\"']([^\"'>]{1,2000})[\"']")
_HEAD = 4096  # characters in which the lines of an XML prolog are looked for


def read_requisites(
    page: RawPage, tree: turbohtml.Document, text: str, read_elements: ReadElements, nested: int = 0
) -> None:
    """Add everything else that a browser loads for a page to its links.

    ``text`` is the markup, ``nested`` the number of documents around this one.
    """
    for selector, attribute, kind in _ATTRIBUTES:
        if tree.select(selector.partition("[")[0]):  # one lookup; nearly no page has any
            for element in tree.select(selector):
                for url in _addresses(element, attribute):
                    page.add(url, kind)
    for param in tree.select("param"):
        if (param.attr("name") or "").strip().lower() in _MOVIES:
            page.add(param.attr("value") or None, LinkKind.MEDIA)
    _read_styles(page, tree)
    _read_modules(page, tree)
    if tree.select("svg"):
        _read_drawing(page, tree)
    if nested < _MAX_NESTED:
        for part in _parts(tree, text):
            _read_part(page, part, read_elements, nested + 1)


def _read_part(page: RawPage, part: str, read_elements: ReadElements, nested: int) -> None:
    """Read a document in the page. Only what it loads counts: no reader follows a link in it."""
    tree = turbohtml.parse(part, positions=False, scripting=True)
    apart = RawPage(page.charset, max_links=page.max_links)
    read_elements(apart, tree)
    read_requisites(apart, tree, part, read_elements, nested)
    for url, found in apart.links.items():
        if found.kind.is_requisite or found.kind in _FRAMES:
            page.add(url, found.kind, found.anchor, found.nofollow)


def _addresses(element: turbohtml.Element, attribute: str) -> list[str]:
    value = element.attr(attribute) or ""
    # the archives of an applet are a list (HTML 4.01, 13.4)
    return value.split(",") if attribute == "archive" else [value] * bool(value)


def _read_styles(page: RawPage, tree: turbohtml.Document) -> None:
    left = MAX_STYLE_BYTES
    for element in tree.select("style"):
        if (element.attr("type") or "").strip().lower() in _STYLES:
            text = element.text
            for url, kind in style_urls(text[: max(left, 0)]):
                page.add(url, kind)
            left -= len(text)
    for element in tree.select("[style*='url(' i],[style*='image-set' i],[style*='src(' i]"):
        text = element.attr("style") or ""
        for url in declared_urls(text[: max(left, 0)]):
            page.add(url, LinkKind.IMG)
        left -= len(text)


def _read_modules(page: RawPage, tree: turbohtml.Document) -> None:
    """Modules in the page, and the map that gives their names addresses."""
    for element in tree.select("script"):
        kind = (element.attr("type") or "").strip().lower()
        if kind == "module" and element.attr("src") is None:
            for url in static_imports(element.text):
                page.add(url, LinkKind.SCRIPT)
        elif kind == "importmap":
            for url in _mapped(element.text):
                page.add(url, LinkKind.SCRIPT)


def _mapped(text: str) -> Iterator[str]:
    """The addresses of an import map (HTML standard, 8.1.5.2), without those of whole folders."""
    if len(text) > _MAX_PART:
        return
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return  # a map that is no JSON maps nothing
    scopes = found.get("scopes") if isinstance(found, dict) else None
    maps = [found.get("imports"), *(scopes.values() if isinstance(scopes, dict) else ())] * (
        isinstance(found, dict)
    )
    for each in maps:
        for address in each.values() if isinstance(each, dict) else ():
            if isinstance(address, str) and is_module_url(address) and not address.endswith("/"):
                yield address


def _read_drawing(page: RawPage, tree: turbohtml.Document) -> None:
    """References from an SVG drawing to others."""
    for element in tree.select(_PAINTED):
        for name in element.attrs:
            value = element.attr(name) or ""
            if name != "style" and "url(" in value.lower():
                for url in declared_urls(value[:_MAX_PART]):
                    page.add(url, LinkKind.IMG)
    for element in tree.select(_REFERRING):
        href = element.attr("href") or element.attr("xlink:href") or ""
        if href and not href.lstrip().startswith("#"):
            page.add(href, LinkKind.IMG)


def _parts(tree: turbohtml.Document, text: str) -> Iterator[str]:
    """Documents in the page: of ``srcdoc``, in ``data:`` URLs, and for older browsers."""
    for frame in tree.select("iframe[srcdoc]")[:_MAX_PARTS]:
        yield (frame.attr("srcdoc") or "")[:_MAX_PART]
    left = _MAX_PARTS
    for tag, attribute in _DRAWINGS:
        for element in tree.select(tag):
            found = _DRAWING.match(value := element.attr(attribute) or "")
            if found and left:
                left -= 1
                yield _drawing(found.group("options"), value[found.end() :])
    yield from _conditional(text)


def _drawing(options: str, data: str) -> str:
    content = unquote_to_bytes(data[:_MAX_PART])
    if options.lower().endswith(";base64"):
        try:
            content = base64.b64decode(content)
        except (binascii.Error, ValueError):
            return ""  # cut in the middle, or no base64: a browser shows nothing either
    return content.decode("utf-8", "replace")


def _conditional(text: str) -> Iterator[str]:
    """The contents of comments that Internet Explorer reads as markup (``<!--[if IE]>``)."""
    at = 0
    for _ in range(_MAX_PARTS):
        start = text.find(_CONDITION, at)
        opened = text.find("]>", start) if start >= 0 else -1
        at = text.find(_CONDITION_END, opened) if opened >= 0 else -1
        if at < 0:
            return
        yield text[opened + 2 : min(at, opened + 2 + _MAX_PART)]


def sheet_lines(text: str) -> list[str]:
    """The style sheets that an XML document names before its root (xml-stylesheet)."""
    return _SHEET_LINE.findall(text[:_HEAD])
