"""The main content of a page: its blocks without navigation, comments, advertising.

A block of running text counts with its characters that are in no link. Elements that look like
boilerplate are left out, unless they have most of the text of the page: then their names mislead.
From the page, or from an ``article`` that has enough of it, the walk goes down to the element that
still has four fifths of what counts. Its blocks are the content, with the introduction between the
page's heading and them, and without lists of links, leading labels and trailing notes.

The numbers were chosen on half of three public sets of labelled pages, and the other half measured
what they give: ``docs/decisions/main-content.md``.
"""

from __future__ import annotations

from typing import NamedTuple

import turbohtml

from lycosa.stages.parse.text_blocks import BlockElement, TextBlock, read_blocks

HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
_PROSE = frozenset(["p", "blockquote", "pre"])
# Where the walk ends: an element of text, a list or a table cell is a part of the content.
_PARTS = frozenset((
    "p", "li", "td", "th", "dd", "dt", "pre", "blockquote", "ul", "ol", "dl", "h1", "h2", "h3",
    "h4", "h5", "h6",
))  # fmt: skip
_ITEMS = frozenset(["li", "td", "dd", "dt", "th", "pre", "figcaption"])

_MIN_PROSE, _MIN_OTHER = 25, 50  # characters of a block of running text
_SHORT = 0.1  # weight of a shorter one
_MISNAMED = 0.6  # share of all text that no boilerplate has
_MIN_CLEAN, _MIN_CHARACTERS = 0.15, 200  # below these, nothing was boilerplate
_ARTICLE = 0.3  # share of the text that makes an article the place to begin
_INSIDE = 0.8  # share that the element of the content has of what the one around it has
_LEAD_BLOCKS, _MIN_LEAD, _MAX_LEADS = 12, 100, 2
_LIST_OF_LINKS = 200  # characters of a block of links that is left out
_MIN_LAST = 40  # characters of the last block, unless it is an item of a list


class MainContent(NamedTuple):
    """The element around the main content, its blocks, and the elements ``inside`` of it, in order.

    There are no blocks when nothing reads as content.
    """

    element: BlockElement
    blocks: list[TextBlock]
    inside: list[BlockElement]

    def left_out(self) -> list[BlockElement]:
        """The elements in it that have none of its blocks, without those inside of such ones."""
        kept: set[int] = set()
        for block in self.blocks:
            each: BlockElement | None = block.owner
            while each is not None and each.number not in kept:
                kept.add(each.number)
                each = each.parent
        out, end = list[BlockElement](), 0
        for each in self.inside:
            if each.number >= end and each.number not in kept:
                out.append(each)
                end = each.end
        return out


def find_main(root: turbohtml.Element) -> MainContent:
    """The main content below ``root``."""
    elements, blocks = read_blocks(root)
    weights = [_weight(block) for block in blocks]
    used = _clean(elements, blocks, weights)
    chosen = _choose(elements)
    first = next((at for at, block in enumerate(used) if _is_in(block, chosen)), None)
    if first is None:
        return MainContent(chosen, [], [])
    inside = [block for block in used[first:] if _is_in(block, chosen)]
    leads = _leads(used, first)
    top = chosen
    while any(not _is_in(lead, top) for lead in leads) and top.parent is not None:
        top = top.parent
    return MainContent(top, _trimmed([*leads, *inside]), elements[top.number + 1 : top.end])


def _weight(block: TextBlock) -> float:
    length, tag = block.characters, block.owner.tag
    if block.linked * 2 > length:
        return 0.0
    is_short = length < (_MIN_PROSE if tag in _PROSE else _MIN_OTHER)
    return (length - block.linked) * (_SHORT if is_short or tag in HEADINGS else 1.0)


def _clean(
    elements: list[BlockElement], blocks: list[TextBlock], weights: list[float]
) -> list[TextBlock]:
    """The blocks that are no boilerplate; sets ``full``, ``clean`` and ``is_out``."""
    for block, weight in zip(blocks, weights, strict=True):
        block.owner.full += weight
    for each in reversed(elements):
        if each.parent is not None:
            each.parent.full += each.full
    total = elements[0].full
    for each in elements[1:]:
        assert each.parent is not None
        each.is_out = each.parent.is_out or (each.is_boilerplate and each.full <= _MISNAMED * total)
    left = sum([w for block, w in zip(blocks, weights, strict=True) if not block.owner.is_out])
    if left < _MIN_CLEAN * total or left < _MIN_CHARACTERS < total:
        for each in elements:
            each.is_out = False
    for block, weight in zip(blocks, weights, strict=True):
        if not block.owner.is_out:
            block.owner.clean += weight
    for each in reversed(elements):
        if each.parent is not None:
            each.parent.clean += each.clean
    return [block for block in blocks if not block.owner.is_out]


def _choose(elements: list[BlockElement]) -> BlockElement:
    """The element of the main content."""
    chosen, best = elements[0], dict[int, BlockElement]()
    for each in elements[1:]:
        assert each.parent is not None
        known = best.get(each.parent.number)
        if known is None or each.clean > known.clean:
            best[each.parent.number] = each
    articles = [each for each in elements if _is_article(each)]
    if articles:
        largest = max(articles, key=_clean_of)
        if 0 < _ARTICLE * elements[0].clean <= largest.clean:
            chosen = largest
    while True:
        below = best.get(chosen.number)
        if below is None or below.tag in _PARTS or below.clean < _INSIDE * chosen.clean:
            return chosen
        chosen = below


def _is_article(each: BlockElement) -> bool:
    return each.tag == "article" or each.element.attr("itemprop") == "articleBody"


def _clean_of(each: BlockElement) -> float:
    return each.clean


def _is_in(block: TextBlock, chosen: BlockElement) -> bool:
    return chosen.number <= block.owner.number < chosen.end


def _leads(used: list[TextBlock], first: int) -> list[TextBlock]:
    """The introduction: running text between the heading of the page and the content."""
    begin = max(0, first - _LEAD_BLOCKS)
    heading = next(
        (at for at in range(first - 1, begin - 1, -1) if used[at].owner.tag == "h1"), None
    )
    if heading is None:
        return []
    leads = [b for b in used[heading + 1 : first] if _weight(b) >= _MIN_LEAD and not b.linked]
    return leads[-_MAX_LEADS:]


def _trimmed(blocks: list[TextBlock]) -> list[TextBlock]:
    """Without lists of links, and without labels before the text and notes after it."""
    kept = [b for b in blocks if b.linked * 2 <= b.characters or b.characters >= _LIST_OF_LINKS]
    begin = next((at for at, block in enumerate(kept) if _may_begin(block)), 0)
    end = next((at for at in range(len(kept), 0, -1) if _may_end(kept[at - 1])), len(kept))
    return kept[begin:end] if begin < end else kept


def _may_begin(block: TextBlock) -> bool:
    return block.owner.tag in HEADINGS or _weight(block) >= _MIN_PROSE


def _may_end(block: TextBlock) -> bool:
    return block.owner.tag in _ITEMS or (
        block.characters >= _MIN_LAST and block.linked * 3 <= block.characters
    )
