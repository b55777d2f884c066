"""Rows of pages that are rendered.

A render is a row (``v``) from the moment at which its capture is committed until its
result is. The last render of a page that ended is another row (``o``): a
page is rendered again only when its body is another one, or when an operator asks.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.fetched import Privacy
from lycosa.base.model.finished_render import RoundNote
from lycosa.base.model.parsed import Directives
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences

ROUNDS_OF_LENDING = 100
"""A lending is the number of a render times this, plus its round."""


class CapturedPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is remembered of the capture of a page until its render ends.

    ``date_us``, ``record``, ``segment`` and ``offset`` are those of the record with the body, which
    is another URL's where that has the same one; ``digest`` is that of the body. ``directives`` are
    what the capture says to robots, with its headers, ``preferences`` what it states about the use
    of the page. ``characters`` and ``links`` are what the parser found.
    """

    url: str
    date_us: int
    record: str
    digest: bytes
    segment: str = ""
    offset: int = 0
    fetch_number: int = 1
    directives: Directives = Directives()
    preferences: Preferences = NOTHING_STATED
    characters: int = 0
    links: int = 0
    priority: int = 0
    depth: int = 0
    privacy: Privacy = Privacy.PUBLIC


class RenderRow(msgspec.Struct, array_like=True, gc=False):
    """A page that is to be rendered.

    ``began`` is crawl time, as is ``until``, the latest time to which it waits for its wants.
    ``round`` is the next one. ``asked`` has the url8 of each URL that was wanted so far, ``open``
    those without an answer; ``foreign`` counts those of other sites. ``failures`` are rounds in a
    row without a document, ``processor_s`` is that of all rounds.
    ``is_ordered``: an operator asked for it.
    """

    page: CapturedPage
    number: int
    began: float
    is_ordered: bool = False
    round: int = 1
    until: float = 0.0
    asked: bytes = b""
    open: bytes = b""
    foreign: int = 0
    failures: int = 0
    processor_s: float = 0.0

    @property
    def wants_left(self) -> int:
        """Number of URLs that it waits for."""
        return len(self.open) // 8

    @property
    def lending(self) -> int:
        """The number under which its next round is lent to a renderer."""
        return self.number * ROUNDS_OF_LENDING + self.round


class RenderState(msgspec.Struct, array_like=True, gc=False):
    """What a page was answered, and what it wanted: written once a round, read at the next one.

    ``records`` has the id of the record that answered each canonical URL, ``wanted`` the
    destination of each URL of ``RenderRow.asked`` (``model.capture.Want``). ``places`` says where
    the records are, as ``FoundCapture.place``; those of an older program are not known.
    """

    records: dict[str, str] = {}
    wanted: dict[str, str] = {}
    rounds: list[RoundNote] = []
    places: dict[str, str] = {}


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
