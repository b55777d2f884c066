"""What html5lib and lexbor find in a page: the links, bases and metas of their trees, gathered here
without a line of our reader.

Both build the tree of the HTML standard from decoded text. ``facts`` walks such a tree in document
order and takes from it what the standard calls a link or a resource, and what ``lycosa.stages.parse.html``
promises to find. Content of templates is none, with one exception: a declarative shadow root.

html5lib 1.1 is of 2020 and does not know ``<template>``: its content is left out here, which is
what it stands for in the standard too, but where a template changes how a table or a head goes on,
its tree is an older one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import html5lib
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from lycosa.base.model.discovered import LinkKind
from lycosa.stages.parse.element_readers import RawPage
from lycosa.stages.parse.markup_values import parse_refresh, srcset_urls

BLANKS = " \t\n\f\r"
_HTML, _SVG, _XLINK = (
    "{http://www.w3.org/1999/xhtml}",
    "{http://www.w3.org/2000/svg}",
    "{http://www.w3.org/1999/xlink}href",
)
_MATH = "{http://www.w3.org/1998/Math/MathML}"


class Element(NamedTuple):
    """One element: local name, namespace ("html", "svg", "math"), attributes, and whether it
    stands in a ``<noscript>`` or an ``<svg>``.
    """

    tag: str
    namespace: str
    attributes: dict[str, str]
    in_noscript: bool
    in_svg: bool


class Facts(NamedTuple):
    """Kind and nofollow of each raw URL in the order in which they first stand, the base, the
    canonical and the metas with a name.
    """

    links: dict[str, tuple[LinkKind, bool]]
    base: str | None
    canonical: str | None
    metas: list[tuple[str, str]]


def of_page(page: RawPage) -> Facts:
    """The same of a page as our reader gives it."""
    return Facts(
        {raw: (found.kind, found.nofollow) for raw, found in page.links.items()},
        page.base,
        page.canonical,
        page.metas,
    )


def differences(page: RawPage, text: str, html5lib_too: bool = True) -> dict[str, str]:
    """What other parsers find in the same text that our reader does not, or otherwise; by
    parser, empty when all agree.
    """
    ours = of_page(page)
    others = {
        # lexbor's binding builds only the tree of a browser without scripts, in which a noscript
        # that has an unclosed element contains the rest of the page.
        **({"lexbor": by_lexbor(text)} if "<noscript" not in text.lower() else {}),
        **({"html5lib": by_html5lib(text)} if html5lib_too else {}),
    }
    return {
        name: _difference(ours, theirs)
        for name, theirs in others.items()
        if ours != theirs or list(ours.links) != list(theirs.links)
    }


def is_beyond_turbohtml(text: str) -> bool:
    """Whether the text may show one of turbohtml 1.15.4's two known mistakes, both about templates
    and found in random soup alone.

    A NUL in text reopens formatting elements, which it must not: one that a template hid then
    shows. And ``<template>`` does not forbid a later ``<frameset>``, which then replaces the body
    (13.2.6.4.4: "set the frameset-ok flag to not ok").
    """
    return "<template" in text and ("\x00" in text or "<frameset" in text)


def _difference(ours: Facts, theirs: Facts) -> str:
    urls = [
        raw
        for raw in {**ours.links, **theirs.links}
        if ours.links.get(raw) != theirs.links.get(raw)
    ]
    told = [
        f"{raw[:100]!r} ours {ours.links.get(raw)} theirs {theirs.links.get(raw)}"
        for raw in urls[:5]
    ]
    return "; ".join(told) or (
        f"{ours[1:]} and {theirs[1:]}" if ours[1:] != theirs[1:] else "another order"
    )


def by_html5lib(text: str) -> Facts:
    """The facts of html5lib's tree, as a browser with scripts has it."""
    return facts(_walk_etree(_etree(text, has_scripts=True), False, False))


def _etree(text: str, has_scripts: bool) -> Any:
    return html5lib.parse(text, treebuilder="etree", scripting=has_scripts)


def by_lexbor(text: str) -> Facts:
    """The facts of lexbor's tree."""
    # Without events, as else the content of a selected option stands a second time in
    # <selectedcontent>.
    root = LexborHTMLParser(text, options=LexborDocumentOptions.WO_EVENTS).root
    return facts(_walk_lexbor(root) if root is not None else iter(()))


def _walk_etree(root: Any, in_noscript: bool, in_svg: bool) -> Iterator[Element]:
    stack = [(root, in_noscript, in_svg)]
    while stack:
        node, in_noscript, in_svg = stack.pop()
        if not isinstance(node.tag, str):
            continue  # a comment
        space, _, tag = node.tag.rpartition("}")
        space += "}"
        namespace = {_HTML: "html", _SVG: "svg", _MATH: "math"}.get(space, "html")
        attributes = {
            "xlink:href" if name == _XLINK else name: value
            for name, value in node.attrib.items()
            if isinstance(name, str)
        }
        if namespace == "html" and "xlink:href" in attributes:
            del attributes["xlink:href"]
        yield Element(tag, namespace, attributes, in_noscript, in_svg)
        if (
            tag == "template"
            and namespace == "html"
            and attributes.get("shadowrootmode", "").lower() not in ("open", "closed")
        ):
            continue
        if tag == "noscript" and namespace == "html" and not in_noscript:
            stack.append((_etree(node.text or "", has_scripts=False), True, False))
            continue
        stack.extend((child, in_noscript, in_svg or tag == "svg") for child in reversed(node))


_TEXT_POINTS = frozenset({"mi", "mo", "mn", "ms", "mtext"})
_SVG_POINTS = frozenset({"foreignobject", "desc", "title"})


def _namespace(tag: str, parent: tuple[str, str, dict[str, str]]) -> str:
    """The namespace of a child, which lexbor's binding does not tell: that of its parent, but
    for integration points (13.2.6.5).
    """
    parent_tag, space, attributes = parent
    if space == "svg" and parent_tag.lower() in _SVG_POINTS:
        space = "html"
    elif space == "math":
        is_html = (attributes.get("encoding") or "").lower() in (
            "text/html",
            "application/xhtml+xml",
        )
        is_text = parent_tag in _TEXT_POINTS and tag not in ("mglyph", "malignmark")
        if is_text or (parent_tag == "annotation-xml" and (is_html or tag == "svg")):
            space = "html"
    return tag if space == "html" and tag in ("svg", "math") else space


def _walk_lexbor(root: LexborNode) -> Iterator[Element]:
    stack: list[tuple[LexborNode, tuple[str, str, dict[str, str]], bool, bool]] = [
        (root, ("", "html", {}), False, False)
    ]
    while stack:
        node, parent, in_noscript, in_svg = stack.pop()
        tag = node.tag or ""
        if not node.is_element_node:
            continue
        attributes = {name: value or "" for name, value in node.attributes.items()}
        namespace = _namespace(tag, parent)
        if namespace == "html":
            attributes.pop("xlink:href", None)
        yield Element(tag, namespace, attributes, in_noscript, in_svg)
        if tag == "template" and namespace == "html":
            continue
        in_noscript, in_svg = in_noscript or tag == "noscript", in_svg or tag == "svg"
        me = (tag, namespace, attributes)
        stack.extend(
            (child, me, in_noscript, in_svg)
            for child in reversed(list(node.iter(include_text=False)))
        )


_RELATIONS = {
    "canonical": LinkKind.CANONICAL,
    "next": LinkKind.NEXT,
    "prev": LinkKind.PREV,
    "previous": LinkKind.PREV,
    "alternate": LinkKind.ALTERNATE,
}
_STYLES = {
    "stylesheet",
    "manifest",
    "icon",
    "apple-touch-icon",
    "apple-touch-icon-precomposed",
    "mask-icon",
    "fluid-icon",
}
_STYLES |= {"apple-touch-startup-image"}
_DESTINATIONS = {
    "image": LinkKind.IMG,
    "style": LinkKind.STYLE,
    "font": LinkKind.STYLE,
    "script": LinkKind.SCRIPT,
    "worker": LinkKind.SCRIPT,
}
_DESTINATIONS |= {f"{kind}worklet": LinkKind.SCRIPT for kind in ("audio", "paint")}
_DESTINATIONS |= {
    "sharedworker": LinkKind.SCRIPT,
    "serviceworker": LinkKind.SCRIPT,
    "json": LinkKind.SCRIPT,
}
_DRAWN = {
    "image": LinkKind.IMG,
    "use": LinkKind.IMG,
    "feImage": LinkKind.IMG,
    "script": LinkKind.SCRIPT,
}
_RESOURCES = {  # element: attribute and kind
    "frame": (("src", LinkKind.FRAME),),
    "iframe": (("src", LinkKind.IFRAME),),
    "script": (("src", LinkKind.SCRIPT),),
    "img": (("src", LinkKind.IMG), ("srcset", LinkKind.IMG)),
    "source": (("src", LinkKind.MEDIA), ("srcset", LinkKind.IMG)),
    "audio": (("src", LinkKind.MEDIA),),
    "video": (("src", LinkKind.MEDIA), ("poster", LinkKind.IMG)),
    "track": (("src", LinkKind.MEDIA),),
    "embed": (("src", LinkKind.MEDIA),),
    "object": (("data", LinkKind.MEDIA),),
    "body": (("background", LinkKind.IMG),),
}


def facts(elements: Iterator[Element]) -> Facts:
    """What a tree says: links (a, area, link, form), resources, refreshes, base, canonical and
    metas.
    """
    all_elements = list(elements)
    bases = [
        e.attributes["href"]
        for e in all_elements
        if _is(e, "base") and "href" in e.attributes and not e.in_noscript
    ]
    base = bases[0] if bases else None
    links: dict[str, tuple[LinkKind, bool]] = {}
    for element in all_elements:
        for url, kind, nofollow in _links(element):
            raw, mark, _ = url.partition("#")
            raw = raw.strip(BLANKS)
            if not raw and mark and base is None:
                continue  # a place in this page
            before = links.get(raw)
            links[raw] = (
                (min(kind, before[0]), nofollow and before[1]) if before else (kind, nofollow)
            )
    metas = [
        (e.attributes["name"].strip().lower(), e.attributes["content"])
        for e in all_elements
        if _is(e, "meta") and e.attributes.get("name") and "content" in e.attributes
    ]
    return Facts(links, base, _canonical(all_elements), metas)


def _is(element: Element, tag: str) -> bool:
    return element.tag == tag and element.namespace == "html"


def _links(element: Element) -> Iterator[tuple[str, LinkKind, bool]]:
    attributes = element.attributes
    relations = attributes.get("rel", "").lower().replace(",", " ").split()
    nofollow = not {"nofollow", "ugc", "sponsored"}.isdisjoint(relations)
    if (
        element.tag == "a"
        and (href := attributes.get("href", attributes.get("xlink:href"))) is not None
    ):
        yield href, LinkKind.A, nofollow
    elif (
        element.tag in _DRAWN
        and element.in_svg
        and element.namespace == "svg"
        and (href := _drawn_href(attributes))
    ):
        yield href, _DRAWN[element.tag], False
    if element.namespace != "html":
        return
    if element.tag == "area" and "href" in attributes:
        yield attributes["href"], LinkKind.AREA, nofollow
    elif element.tag == "form" and "action" in attributes:
        yield attributes["action"], LinkKind.FORM, False
    elif element.tag == "link":
        for url, kind in _link_element(attributes):
            yield url, kind, nofollow
    elif (
        element.tag == "input"
        and attributes.get("type", "").lower() == "image"
        and attributes.get("src")
    ):
        yield attributes["src"], LinkKind.IMG, False
    elif element.tag == "meta" and attributes.get("http-equiv", "").lower() == "refresh":
        found = parse_refresh(attributes.get("content", ""))
        if found and found[1] and not element.in_noscript:
            yield found[1], LinkKind.REFRESH, False
    for name, kind in _RESOURCES.get(element.tag, ()):
        for url in (
            srcset_urls(attributes.get(name, "")) if name == "srcset" else [attributes.get(name)]
        ):
            if url:
                yield url, kind, False


def _drawn_href(attributes: dict[str, str]) -> str:
    href = attributes.get("href", attributes.get("xlink:href", ""))
    return "" if href.lstrip(BLANKS).startswith("#") else href


def _link_element(attributes: dict[str, str]) -> Iterator[tuple[str, LinkKind]]:
    words = attributes.get("rel", "").lower().split()
    if attributes.get("href") and words:
        if not _STYLES.isdisjoint(words):
            yield attributes["href"], LinkKind.STYLE
        elif known := [word for word in words if word in _RELATIONS]:
            yield attributes["href"], _RELATIONS[known[0]]
        elif "modulepreload" in words:
            yield attributes["href"], LinkKind.SCRIPT
        elif "preload" in words:
            yield (
                attributes["href"],
                _DESTINATIONS.get(attributes.get("as", "").strip().lower(), LinkKind.MEDIA),
            )
        elif not {"preconnect", "dns-prefetch", "profile"}.issuperset(words):
            yield attributes["href"], LinkKind.OTHER
    if "preload" in words:
        for url in srcset_urls(attributes.get("imagesrcset", "")):
            yield url, LinkKind.IMG


def _canonical(elements: list[Element]) -> str | None:
    for element in elements:
        if _is(element, "link") and element.attributes.get("href"):
            kinds = [
                kind
                for _, kind in _link_element(
                    {"rel": element.attributes.get("rel", ""), "href": "x"}
                )
            ]
            if kinds == [LinkKind.CANONICAL]:
                return element.attributes["href"]
    return None
