"""The elements of an untrusted XML document, each as it ends.

Nothing outside the document is ever read: no DTD, no entities that it defines, no network. Broken
XML gives the elements before the error and, where the parser can continue, those after it. Depth
and the sizes of names and texts have libxml2's safe limits (``huge_tree`` off).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml import etree

_STEP = 65_536


def ended_elements(body: bytes, charset: str | None = None) -> Iterator[etree._Element]:
    """Each element after its end tag, children before parents. The caller releases elements.

    ``charset`` overrides the document's declaration; a name that libxml2 does not know is ignored.
    """
    from lxml import etree  # at the first feed or sitemap: most children only see HTML

    try:
        parser = _parser(charset)
    except LookupError:
        # The declaration of the document decides then, as for a server that names no charset.
        parser = _parser(None)
    body = _repaired(without_cut_end(_without_unended(body)))
    try:
        for start in range(0, len(body), _STEP):
            parser.feed(body[start : start + _STEP])
            yield from _elements(parser)
        parser.close()
    except etree.XMLSyntaxError:
        pass  # not XML from here on; the elements before stay
    yield from _elements(parser)


_MAX_UNENDED = 100
# begins with a fixed byte, which is found five times as fast
_WITHOUT_END = re.compile(rb">[^>]{%d,}" % _MAX_UNENDED)
_BARE_AMPERSAND = re.compile(rb"&(?![A-Za-z]+;|#)")


def _without_unended(body: bytes) -> bytes:
    """The document before the first of a hundred tags that do not end.

    For each of them libxml2 would search for an end up to the next one, which takes minutes for a
    megabyte. In CDATA and comments such a text would be valid, but it does not occur in practice.
    """
    for found in _WITHOUT_END.finditer(b">" + body):
        start, end = found.start(), found.end() - 1
        if body.count(b"<", start, end) > _MAX_UNENDED:
            return body[: body.index(b"<", start)]
    return body


def without_cut_end(body: bytes) -> bytes:
    """The document without a tag or an element's text that is cut off at the end.

    libxml2 would end the element where the document ends, and half a URL is another URL. An element
    whose end tag has begun is complete.
    """
    start = body.rfind(b"<")
    last = body[start:]
    if start < 0 or b"\x00" in body[:4]:  # UTF-16
        return body
    if last.startswith(b"<![CDATA["):
        is_cut = b"]]>" not in last
    else:
        tag, end, text = last.partition(b">")
        is_cut = not end or (
            bool(text.strip()) and tag[1:2] not in (b"/", b"?", b"!") and not tag.endswith(b"/")
        )
    return body[:start] if is_cut else body


def _repaired(body: bytes) -> bytes:
    """Remove blanks before the declaration, and write ampersands as numeric references.

    After the first error libxml2 continues but loses every ``&amp;``, which would change all URLs
    that follow; numeric references stay. The most common error is an unescaped ampersand, so that
    is corrected too.
    """
    if b"\x00" in body[:4]:  # UTF-16
        return body
    body = body.lstrip()
    if b"&" not in body:
        return body
    parts: list[bytes] = []
    position = 0
    while position < len(body):
        literal = body.find(b"<![CDATA[", position)  # ampersands in CDATA are literal
        markup = body[position:] if literal < 0 else body[position:literal]
        parts.append(_BARE_AMPERSAND.sub(b"&#38;", markup.replace(b"&amp;", b"&#38;")))
        if literal < 0:
            break
        end = body.find(b"]]>", literal)
        position = len(body) if end < 0 else end
        parts.append(body[literal:position])
    return b"".join(parts)


def _parser(charset: str | None) -> etree.XMLPullParser:
    from lxml import etree

    return etree.XMLPullParser(
        events=("end",),
        encoding=charset,
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )


def _elements(parser: etree.XMLPullParser) -> Iterator[etree._Element]:
    for _, element in parser.read_events():
        if isinstance(element.tag, str):
            yield element


def local_name(element: etree._Element) -> str:
    """The name without its namespace, in lower case.

    Feeds and sitemaps often have wrong namespaces.
    """
    return str(element.tag).rpartition("}")[2].lower()


def text_of(element: etree._Element) -> str:
    """All text inside, without surrounding Unicode white space and byte order marks."""
    return "".join(str(part) for part in element.itertext()).strip().strip("\u200b\ufeff").strip()


def url_of(element: etree._Element) -> str:
    """The text of an element that contains a URL.

    Empty when it refers to an entity, because entities are never resolved.
    """
    if any(not isinstance(child.tag, str) for child in element):
        return ""
    text = text_of(element)
    return "" if text.startswith("&") else text


def release(element: etree._Element) -> None:
    """Free a finished element and its elder siblings.

    So memory does not grow with the document.
    """
    element.clear(keep_tail=False)
    parent = element.getparent()
    if parent is not None:
        while (elder := element.getprevious()) is not None:
            parent.remove(elder)
