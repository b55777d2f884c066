"""Reads HTML: bytes in, unresolved facts of the page out.

Only this module and those that read its tree use the parser, turbohtml.

One WHATWG tree is built per document. One selector finds all links and everything that describes
the page, and then the visible text is extracted. The selector runs in C, so Python sees only the
elements that it found; walking the whole tree costs three times as much. The cost of a selector
grows with its alternatives, while a single tag name is looked up in an index that the tree keeps
until it is changed. So only names that occur in the page are selected, and the tree is changed only
after everything is found. Malformed markup never raises, because the tree-construction algorithm
handles every sequence of bytes.

The tree is the one that a browser with scripts builds. In it the content of ``<noscript>`` is one
piece of text up to ``</noscript>``, so an element that is not closed in it contains nothing of the
page behind. The links in it count, because the crawler runs no scripts: it is parsed apart.

Links inside ``<template>`` and comments are not links. A template that is a declarative shadow root
is content and stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

import turbohtml
from turbohtml import PlainText

from lycosa.base.model.discovered import LinkKind
from lycosa.stages.parse.charset import charset_name
from lycosa.stages.parse.element_readers import READERS, RawPage, read_anchor, read_base
from lycosa.stages.parse.scripted_pages import (
    SHORT_TEXT,
    empty_places,
    looks_scripted,
    script_need,
)

WANTED = (
    "a", "area", "link", "meta", "title", "form", "frame", "iframe", "img", "script[src]", "source",
    "audio", "video", "track", "embed", "object", "input[type=image i]", "body[background]",
    "svg image", "svg script", "svg use", "svg feImage", "noscript",
)  # fmt: skip
"""The selectors of elements that have links, or facts about the page (``READERS``)."""
# How many noscript elements are parsed one by one, at some 20 microseconds each. In the others,
# which only a hostile page has, an element that is not closed may hide links of the next ones.
_MAX_APART = 1000
IN_DRAWINGS = frozenset({"image", "script", "use", "feImage"})  # these are links in SVG too
_REFRESH = "meta[http-equiv=refresh i]"
_TEMPLATE = "template:not([shadowrootmode=open i],[shadowrootmode=closed i])"

# Not shown by a browser with scripts and styles; neither is fallback content of media.
_INVISIBLE = (
    "head", "script", "style", "noscript", _TEMPLATE, "iframe", "noframes", "noembed",
    "audio", "video", "canvas", "datalist", "dialog:not([open])",
    # as one selector, because these have to test every element
    "[hidden],[style*='display:none' i],[style*='display: none' i]",
)  # fmt: skip

# The text renderer formats tables in columns and quotes with indents, at a cost that grows with the
# square of a hostile page, and it numbers lists. As plain blocks they cost no more than their text.
_LAID_OUT = (
    "table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "ol", "dd", "blockquote",
    "option", "optgroup", "select", "button", "legend",
)  # fmt: skip
# Inline elements are removed and their content stays: in an inline element that contains blocks the
# renderer would not see the end of a block.
_INLINE = "a,abbr,b,big,cite,code,del,em,font,i,ins,label,mark,s,small,span,strong,time,tt,u"
_PLAIN = PlainText(layout="strict", bullet="", table_cell_separator=" ")

_HTML = turbohtml.Namespace.HTML


def read_html(
    body: bytes | str,
    label: str | None = None,
    max_links: int = 50_000,
    read_more: Callable[[turbohtml.Document, RawPage], None] | None = None,
    reads_requisites: bool = False,
    judges_scripts: bool = False,
) -> RawPage:
    """Read a page. ``label`` is the charset from HTTP.

    ``read_more`` may read the tree after everything but the text was found; it must not change it.
    ``reads_requisites`` adds what only browsers load (``page_requisites``); ``judges_scripts`` sets
    ``script_need``.
    The order is that of WHATWG: BOM, HTTP, meta prescan, UTF-8 check, detector.
    """
    tree = parse_tree(body, label)
    page = RawPage((tree.encoding or "utf-8").lower(), max_links=max_links)
    hosts: list[turbohtml.Element] = []
    if tree.select("template"):
        remove_templates(tree)
        hosts = open_shadow_roots(tree)
    root = tree.root
    if root is not None:
        page.language = root.attr("lang") or root.attr("xml:lang") or ""
    for element in tree.select("base"):  # before the links, because it may follow them
        read_base(page, element)
    _read_elements(page, tree, _Noscripts(page))
    if reads_requisites:
        _read_requisites(page, tree, body)
    scripts = tree.select("script")
    if read_more is not None:
        read_more(tree, page)
    empty = empty_places(tree) if judges_scripts and scripts else None
    for host in hosts:
        host.unwrap()  # what ends a line in a component ends it
    page.text = render_text(tree)
    if len(page.text) < SHORT_TEXT and scripts:
        page.looks_scripted = looks_scripted(page, scripts, body)
    if empty is not None:
        page.script_need = script_need(page, scripts, body, empty)
    return page


def read_drawing(body: bytes, label: str | None = None, max_links: int = 50_000) -> RawPage:
    """The links of an SVG file. Its text is not read."""
    tree = parse_tree(body, label)
    page = RawPage((tree.encoding or "utf-8").lower(), max_links=max_links)
    _read_elements(page, tree)
    _read_requisites(page, tree, body)
    return page


def _read_requisites(page: RawPage, tree: turbohtml.Document, body: bytes | str) -> None:
    # Here, because a child of a crawl without requisites needs no tokenizer of style sheets.
    from lycosa.stages.parse.page_requisites import read_requisites, sheet_lines

    markup = body if isinstance(body, str) else body.decode("utf-8", "replace")
    for url in sheet_lines(markup):
        page.add(url, LinkKind.STYLE)
    read_requisites(page, tree, markup, _read_elements)


def _read_elements(
    page: RawPage, tree: turbohtml.Document, noscripts: _Noscripts | None = None
) -> None:
    # Looking up one tag name costs nothing. In SVG and MathML the names of HTML have no meaning,
    # except those that can be links there too.
    is_mixed = bool(tree.select("svg") or tree.select("math"))
    wanted = ",".join([selector for selector in WANTED if tree.select(selector)])
    for element in tree.select(wanted) if wanted else ():
        if (tag := element.tag) == "a":
            read_anchor(page, element)  # nearly all are; saves a lookup for each
        elif not is_mixed or tag in IN_DRAWINGS or element.namespace is _HTML:
            if tag != "noscript":
                READERS[tag](page, element)
            elif noscripts is not None:
                noscripts.read(element.text)
    if noscripts is not None:
        noscripts.read_others()


class _Noscripts:
    """Reads the links in the noscript elements of a page.

    A title, a ``<base>`` or a refresh in them is for browsers without scripts, and so is not read.
    """

    def __init__(self, page: RawPage) -> None:
        self._page = page
        self._contents: dict[str, None] = {}

    def read(self, content: str) -> None:
        # a link needs an attribute, and many elements have the same content
        if "=" in content and content not in self._contents:
            self._contents[content] = None
            if len(self._contents) <= _MAX_APART:
                self._read(content)

    def read_others(self) -> None:
        if len(self._contents) > _MAX_APART:
            self._read("".join(islice(self._contents, _MAX_APART, None)))

    def _read(self, content: str) -> None:
        tree = _tree(content)
        if tree.select("template"):
            remove_templates(tree)
        for element in [*tree.select("title"), *tree.select(_REFRESH)]:
            element.decompose()
        _read_elements(self._page, tree)


def remove_templates(tree: turbohtml.Document) -> None:
    """Remove what is no part of the page: templates that are no declarative shadow roots."""
    for element in tree.select(_TEMPLATE):
        if element.namespace is _HTML:
            element.decompose()


def open_shadow_roots(tree: turbohtml.Document) -> list[turbohtml.Element]:
    """Put the content of declarative shadow roots in their places, because it is shown.

    Returns the components that had them: custom elements.
    """
    hosts: list[turbohtml.Element] = []
    for element in tree.select("template"):
        if element.namespace is _HTML:
            host, content = element.parent, tuple(element.children)
            if isinstance(host, turbohtml.Element) and not any(map(_has_slot, content)):
                _hide_children(host)
            # not ``unwrap``, which leaves the fragment of the template around the content
            for child in content:
                element.insert_before(child)
            if isinstance(host, turbohtml.Element) and "-" in host.tag:
                hosts.append(host)
            element.decompose()
    return hosts


def _has_slot(content: turbohtml.Node) -> bool:
    is_tree = isinstance(content, turbohtml.Element | turbohtml.DocumentFragment)
    return is_tree and content.select_one("slot") is not None


def _hide_children(host: turbohtml.Element) -> None:
    """Hide what a component has no slot for: its shadow root is shown instead of its children."""
    for child in tuple(host.children):
        if isinstance(child, turbohtml.Element):
            child.attrs["hidden"] = ""
        elif isinstance(child, turbohtml.Text):
            child.decompose()


def parse_tree(
    body: bytes | str, label: str | None = None, has_positions: bool = False
) -> turbohtml.Document:
    """The tree of a page. ``label`` is the charset from HTTP.

    ``has_positions`` keeps the line of each element.
    """
    charset = charset_name(label) if label else None
    if charset is not None and isinstance(body, bytes):
        return _tree(body, charset, has_scripts=True, has_positions=has_positions)
    tree = _tree(body, has_scripts=True, has_positions=has_positions)
    if (
        isinstance(body, bytes)
        and tree.encoding_confidence == "tentative"
        and (declared := _xml_charset(body))
    ):
        return _tree(body, declared, has_scripts=True, has_positions=has_positions)
    return tree


def _tree(
    body: bytes | str,
    charset: str | None = None,
    has_scripts: bool = False,
    has_positions: bool = False,
) -> turbohtml.Document:
    # Shadow roots are parsed as ordinary templates, so that their content is found like any other.
    return turbohtml.parse(
        body,
        encoding=charset,
        detect_encoding=True,
        positions=has_positions,
        scripting=has_scripts,
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


def render_text(tree: turbohtml.Document | turbohtml.Element) -> str:
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
