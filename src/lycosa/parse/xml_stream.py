"""Elements of an XML document as they end, from bytes that nobody vouches for.

Nothing outside the document is ever read: no DTD, no entities of its own, no network. Broken XML gives what stands before
the break and, where the parser can go on, behind it. The depth and size of names and texts are libxml2's safe limits
(``huge_tree`` off).
"""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

_STEP = 65_536


def ended_elements(body: bytes, charset: str | None = None) -> Iterator[etree._Element]:
    """Each element when its end tag was read, children before parents. The receiver clears what it has finished with.

    ``charset`` overrules the document's own declaration; a name that libxml2 does not know is passed over.
    """
    try:
        parser = _parser(charset)
    except LookupError:
        parser = _parser(None)
    try:
        for start in range(0, len(body), _STEP):
            parser.feed(body[start : start + _STEP])
            yield from _elements(parser)
        parser.close()
    except etree.XMLSyntaxError:
        pass  # not XML from here on; what was read before stays
    yield from _elements(parser)


def _parser(charset: str | None) -> etree.XMLPullParser:
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
    """The name without its namespace, in lower case: feeds and sitemaps are full of wrong namespaces."""
    return str(element.tag).rpartition("}")[2].lower()


def text_of(element: etree._Element) -> str:
    """All text inside, stripped (no-break spaces and byte order marks too)."""
    return "".join(str(part) for part in element.itertext()).strip(" \t\r\n\xa0\u200b\ufeff")


def release(element: etree._Element) -> None:
    """Frees an element that was dealt with, and its elder siblings, so that memory does not grow with the document."""
    element.clear(keep_tail=False)
    parent = element.getparent()
    if parent is not None:
        while (elder := element.getprevious()) is not None:
            parent.remove(elder)
