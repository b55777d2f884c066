"""Rows of pages that are rendered, and what partitions say to each other about them.

A render is a page's own row (``v``) from the moment at which its capture is committed until its
result is. A round that misses something posts a ``Demand`` to the owner of each URL, and the owner
answers it by one ``Settled``. The last render of a page that ended is a row of its own (``o``): a
page is rendered again only when its body is another one, or when an operator asks.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.capture import Want
from lycosa.base.model.parsed import Directives
from lycosa.base.reasons import Reason

ROUNDS_OF_LENDING = 100
"""A lending is the number of a render times this, plus its round."""


class RenderId(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A render: of the page ``row`` (host8 and url8) of a partition.

    ``number`` grows in the partition. What comes for an earlier render of the page is ignored.
    """

    partition: int
    row: bytes
    number: int


class Demand(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A URL that a render wants, for the partition that owns the URL.

    ``destination`` is that of the Fetch standard (``model.capture.Want``). ``page`` is the URL of
    the page, ``depth`` its depth.
    """

    render: RenderId
    url: str
    destination: str
    page: str
    depth: int = 0


class Settled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a URL that a render wanted: the answer to a ``Demand``.

    ``record`` is the id of the WARC record, empty when there is none; ``reason`` says why.
    ``loads`` are what a script or style sheet imports statically: the page will ask for them.
    """

    render: RenderId
    url: str
    reason: Reason = Reason.NONE
    record: str = ""
    loads: tuple[Want, ...] = ()


class RoundNote(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One round of a render that has ended.

    ``at`` is its end (wall time in seconds), ``end`` how it ended (``RenderEnd``, or ``lost`` when
    no result came). ``wants`` is the number of URLs that were wanted after it, ``found`` that of
    requests that were answered.
    """

    at: int
    end: str
    elapsed_s: float = 0.0
    processor_s: float = 0.0
    wants: int = 0
    found: int = 0


class RenderRow(msgspec.Struct, array_like=True, gc=False):
    """A page that is to be rendered.

    ``date_us`` and ``record`` are those of its capture, ``digest`` that of its body. ``directives``
    are what the capture says to robots, with its headers. ``began`` is crawl time, as is ``until``,
    the latest time to which it waits for its wants. ``round`` is the next one. ``asked`` has the
    url8 of each URL that was wanted so far, ``open`` those without an answer. ``foreign`` counts
    those of other sites. ``failures`` are rounds in a row without a document, ``processor_s`` is
    that of all rounds. ``priority`` is in 255ths. ``is_ordered``: an operator asked for it.
    """

    url: str
    number: int
    date_us: int
    record: str
    digest: bytes
    directives: Directives
    began: float
    priority: int = 0
    depth: int = 0
    is_ordered: bool = False
    round: int = 1
    until: float = 0.0
    asked: bytes = b""
    open: bytes = b""
    foreign: int = 0
    failures: int = 0
    processor_s: float = 0.0

    @property
    def lending(self) -> int:
        """The number under which its next round is lent to a renderer."""
        return self.number * ROUNDS_OF_LENDING + self.round


class RenderStory(msgspec.Struct, array_like=True, gc=False):
    """What a page was answered, and what it wanted: written once a round, read at the next one.

    ``records`` has the id of the record that answered each canonical URL. ``wanted`` are the URLs
    of ``RenderRow.asked``. ``failed`` has the reasons of those that were not stored.
    """

    records: dict[str, str] = {}
    wanted: list[str] = []
    rounds: list[RoundNote] = []


class RenderOutcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last render of a page that ended.

    ``digest`` is that of the body, ``end`` how the last round ended, or ``too_old``. ``at`` is wall
    time. ``segment`` and ``offset`` are the place of the document's record; ``record`` its id;
    empty without a document. ``links`` and ``characters`` are how many more the document has than
    the page.
    """

    digest: bytes
    end: str
    at: int
    record: str = ""
    segment: str = ""
    offset: int = 0
    rounds: tuple[RoundNote, ...] = ()
    wanted: int = 0
    links: int = 0
    characters: int = 0
