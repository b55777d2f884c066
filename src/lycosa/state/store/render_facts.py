"""What the row of a render has beyond the fields of a page.

A render is a ``JournalRow`` whose field ``render`` is set: text, title, links and fingerprint are
those of the rendered document, ``original`` is the capture that was rendered, and the place is that
of the first record of the render.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.finished_render import RoundNote
from lycosa.base.model.rendered_page import PageRequest

RENDER_LINE = b'"render":{'
"""Is in the line of every render: as ``having`` of ``read_rows`` it gives renders, and only these.

Inside a text of JSON each quotation mark has a backslash, so no page can forge it.
"""
DOCUMENT, PAGE_INFO, PAGE_TEXT, VIEW = "document", "pageinfo", "text", "view"


class RenderRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A WARC record of a render.

    ``name`` is ``document`` (a conversion of the response) or the word of the URN under which
    Browsertrix stores such a record: ``pageinfo``, ``text``, ``view``. ``length`` is that of its
    gzip member, ``digest`` that of its block.
    """

    name: str
    length: int
    record_id: str
    digest: str
    media_type: str


class RenderFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How a page was rendered.

    ``end`` is the ``RenderEnd`` of the last round. ``is_better`` says that readers get the text of
    the render, not that of the page, whose characters and links are ``page_characters`` and
    ``page_links``. ``shown_url`` is where scripts took the page, if that is another URL.
    ``elapsed_s`` and ``processor_s`` are sums over ``rounds``, ``memory_bytes`` is the most of the
    last one. ``steady_digest`` is ``sha1:`` and base32 of the document without nonces: equal for
    equal renders. ``records`` are in their order, without a gap. ``requests``, ``refused``,
    ``changed``, ``console`` and ``errors`` are those of ``Rendered``; ``more_wants`` too.
    """

    end: str
    is_better: bool = False
    page_characters: int = 0
    page_links: int = 0
    shown_url: str = ""
    browser: str = ""
    fonts: str = ""
    elapsed_s: float = 0.0
    processor_s: float = 0.0
    memory_bytes: int = 0
    steady_digest: str = ""
    rounds: tuple[RoundNote, ...] = ()
    records: tuple[RenderRecord, ...] = ()
    requests: tuple[PageRequest, ...] = ()
    more_wants: int = 0
    refused: dict[str, int] = {}
    changed: dict[str, int] = {}
    console: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    def places(self, offset: int) -> list[tuple[RenderRecord, int]]:
        """Each record with its offset, if the first one is at ``offset``."""
        found = []
        for each in self.records:
            found.append((each, offset))
            offset += each.length
        return found
