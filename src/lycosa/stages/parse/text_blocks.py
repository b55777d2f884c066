"""The text of a page as blocks: what a browser shows on separate lines.

One walk over the tree, in document order, without recursion, because a page may nest 512 elements.
It takes time and memory in proportion to the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import turbohtml
from turbohtml import Element, Text

from lycosa.stages.parse.boilerplate import is_boilerplate, is_hidden

_NO_TEXT = frozenset((
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed",
    "canvas", "audio", "video", "picture", "source", "track", "map", "area", "img", "head", "link",
    "meta", "title", "datalist", "select", "option", "optgroup", "textarea", "noframes", "noembed",
))  # fmt: skip
_INLINE = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em",
    "font", "i", "ins", "kbd", "label", "mark", "q", "rp", "rt", "ruby", "s", "samp", "small",
    "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
))  # fmt: skip
# Without content on any page; that of others may be boilerplate or not (``boilerplate``).
_NO_TEXT |= {"nav", "button", "dialog", "menu", "input", "output", "progress", "meter"}
# A parser ends them before the next block (HTML standard 13.2.6.4.7), nearly always; and code has
# an element for each word.
_ONLY_INLINE = frozenset(("p", "pre", "h1", "h2", "h3", "h4", "h5", "h6"))
_WITH_OTHER_TEXT: list[Any] = ["script", "style", "noscript", "iframe", "div"]
MAX_ELEMENTS = 100_000
"""Elements of a page that are read; the rest of a larger one is not looked at."""


class BlockElement:
    """An element that begins a line, in document order.

    ``end`` is the number of the first one behind its content. ``full`` and ``clean`` are weights of
    the text in it, which ``main_content`` calculates: of all text, and without boilerplate.
    """

    __slots__ = ("clean", "element", "end", "full", "is_boilerplate", "is_out", "number", "parent",
                 "tag")  # fmt: skip

    def __init__(
        self,
        element: turbohtml.Element,
        tag: str,
        parent: BlockElement | None,
        number: int,
        is_boilerplate: bool,
    ) -> None:
        self.element, self.tag, self.parent, self.number = element, tag, parent, number
        self.is_boilerplate = is_boilerplate
        self.is_out = False
        self.end = number + 1
        self.full = self.clean = 0.0


class TextBlock:
    """A line of text: directly in ``owner``, not interrupted by another block.

    ``characters`` of text without white space at its ends, ``linked`` of them in links.
    """

    __slots__ = ("characters", "linked", "owner", "pieces")

    def __init__(self, owner: BlockElement) -> None:
        self.owner = owner
        self.characters = self.linked = 0
        self.pieces: list[str] = []

    def __repr__(self) -> str:
        return f"<TextBlock {self.owner.tag} {self.text()[:60]!r}>"

    def text(self) -> str:
        """Its text with white space folded."""
        return " ".join("".join(self.pieces).split())


def read_blocks(root: turbohtml.Element) -> tuple[list[BlockElement], list[TextBlock]]:
    """The block elements and the blocks below ``root``, in document order."""
    walk = _Walk(root)
    walk.run()
    return walk.elements, walk.blocks


class _Walk:
    def __init__(self, root: turbohtml.Element) -> None:
        top = BlockElement(root, root.tag, None, 0, False)
        self.elements, self.blocks = [top], list[TextBlock]()
        self._block = TextBlock(top)
        self._links = 0  # links that are open
        # the rest of an element's children; its BlockElement, or whether its end closes a link
        self._open: list[tuple[Iterator[turbohtml.Node], BlockElement | bool]] = [
            (iter(root.children), top)
        ]

    def run(self) -> None:
        opened = self._open
        while opened:
            children, inside = opened[-1]
            for child in children:
                if isinstance(child, Text):
                    # Not in a separate method: it is half of all nodes.
                    block, text = self._block, child.data
                    block.pieces.append(text)
                    if length := len(text.strip()):
                        block.characters += length
                        if self._links:
                            block.linked += length
                elif isinstance(child, Element) and self._enter(child):
                    break
            else:
                opened.pop()
                self._leave(inside)

    def _enter(self, element: turbohtml.Element) -> bool:
        """Begin an element; return whether its children come next."""
        tag = element.tag
        if tag in _INLINE:
            is_link = tag == "a"
            if not is_link and element.attrs and is_hidden(element):
                return False
            self._links += is_link
            self._open.append((iter(element.children), is_link))
            return True
        if tag in _NO_TEXT or len(self.elements) >= MAX_ELEMENTS:
            return False
        if tag == "br":
            self._block.pieces.append("\n")
            return False
        owner = self._block.owner
        self._end_block()
        below = BlockElement(element, tag, owner, len(self.elements), is_boilerplate(element, tag))
        self.elements.append(below)
        self._block = TextBlock(below)
        if tag in _ONLY_INLINE and not element.find_all(_WITH_OTHER_TEXT):
            self._add_inline(element)
        else:
            self._open.append((iter(element.children), below))
            return True
        self._leave(below)
        return False

    def _add_inline(self, element: turbohtml.Element) -> None:
        """Add the text of an element without blocks as a whole, which takes the fewest calls."""
        text = element.text.strip()
        self._block.pieces.append(text)
        self._block.characters = len(text)
        if text:
            self._block.linked = sum([len(each.text.strip()) for each in element.find_all("a")])

    def _leave(self, inside: BlockElement | bool) -> None:
        if isinstance(inside, BlockElement):
            self._end_block()
            inside.end = len(self.elements)
            if inside.parent is not None:
                self._block = TextBlock(inside.parent)
        else:
            self._links -= inside

    def _end_block(self) -> None:
        if self._block.characters:
            self.blocks.append(self._block)
