"""The content of a page from its tree: main content as text and Markdown, and metadata.

The main content is copied, what ``main_content`` left out is removed from the copy, and the parser
renders the rest: as Markdown, and with the renderer of the visible text. So the lines of the main
text are lines of the visible text, and ``PageContent`` needs only their places.
"""

from __future__ import annotations

import copy
from bisect import bisect_left

import turbohtml
from turbohtml import Markdown

from lycosa.base.model.page_content import Heading, PageContent
from lycosa.base.urls.identity import InvalidUrl, resolve
from lycosa.stages.parse.html import render_text
from lycosa.stages.parse.main_content import HEADINGS, MainContent, find_main
from lycosa.stages.parse.page_metadata import PageMetadata

_MAX_HEADINGS = 500
_MAX_HEADING = 500
_WEB = ("http://", "https://")
_OUT = "data-lycosa-out"  # marks what is left out of the copy
# Forms, and what no reader of Markdown shows.
_NEVER = (
    "script,style,noscript,template,svg,iframe,object,embed,canvas,audio,video,nav,button,dialog,"
    f"menu,input,select,textarea,[{_OUT}]"
)
_MARKDOWN = Markdown(
    lists=Markdown.Lists(bullets="-"),
    tables=Markdown.Tables(header="first", cell_blocks="text"),
    images=Markdown.Images(mode="markdown"),
)


class ContentReader:
    """Reads the content of one page; references are relative to ``base``."""

    def __init__(self, base: str, max_text: int) -> None:
        self._base, self._max_text = base, max_text
        self._main = ""
        self._known: dict[str, str] = {}

    def read(self, tree: turbohtml.Document) -> PageContent:
        """The content without its places in the visible text. Marks elements of the tree."""
        root = tree.find("body") or tree.root
        if root is None:
            return PageContent()
        found, metadata = find_main(root), PageMetadata(tree, self._absolute)
        return PageContent(
            markdown=self._markdown(found) if found.blocks else "",
            headings=_headings(found),
            author=metadata.author(),
            published=metadata.published(),
            modified=metadata.modified(),
            structured=metadata.structured(),
            alternates=metadata.alternates(),
        )

    def places(self, text: str) -> tuple[int, ...]:
        """The places of the main text in the visible text of the page that was read."""
        return find_lines(text, self._main)

    @property
    def main_text(self) -> str:
        """The main text of the page that was read; a line for each block."""
        return self._main

    def _markdown(self, found: MainContent) -> str:
        """The main content as Markdown; its text is kept for ``places``."""
        for each in found.left_out():
            each.element.attrs[_OUT] = ""
        part = copy.deepcopy(found.element.element)
        for element in part.select(_NEVER):
            element.decompose()
        part.rewrite_links(self._absolute)
        for element in part.select('a[href=""],a:not([href])'):
            element.unwrap()
        for element in part.select('img[src=""],img:not([alt]),img[alt=""]'):
            element.decompose()
        markdown = part.to_markdown(_MARKDOWN)[: self._max_text]
        self._main = render_text(part)
        return markdown

    def _absolute(self, raw: str) -> str:
        """The absolute form of a reference; empty when it is not http or https."""
        known = self._known.get(raw)
        if known is None:
            try:
                url = resolve(raw.strip(), self._base)
            except InvalidUrl:
                url = ""
            known = self._known[raw] = url if url.startswith(_WEB) else ""
        return known


def find_lines(text: str, part: str) -> tuple[int, ...]:
    """Where the lines of ``part`` are in ``text``: begin and end of each run of lines, in order.

    Each line is looked for behind the one before; one that is not there is left out.
    """
    begins: dict[str, list[int]] = {}
    begin = 0
    for line in text.split("\n"):
        begins.setdefault(line, []).append(begin)
        begin += len(line) + 1
    places: list[int] = []
    end = 0
    for line in part.split("\n"):
        known = begins.get(line, ())
        at = bisect_left(known, end)
        if not line or at == len(known):
            continue
        begin = known[at]
        if places and places[-1] + 1 == begin:
            places[-1] = begin + len(line)
        else:
            places += (begin, begin + len(line))
        end = begin + len(line)
    return tuple(places)


def _headings(found: MainContent) -> tuple[Heading, ...]:
    headings = [
        Heading(int(block.owner.tag[1]), block.text()[:_MAX_HEADING])
        for block in found.blocks
        if block.owner.tag in HEADINGS
    ]
    return tuple(headings[:_MAX_HEADINGS])
