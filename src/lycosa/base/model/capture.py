"""One stored fetch, from which the store writes records and the line of the row journal."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.model.parsed import Parsed
from lycosa.base.model.remark import Remark
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences


class RobotsDecision(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The robots.txt that decided, and its decision.

    ``version`` is the SHA-1 (base32) of the file, empty when there was none; ``fetched`` is when it
    was read (seconds since 1970); ``status`` its HTTP status (0 = unreachable); ``group`` the
    user-agent line that applies (empty = none); ``line`` the 1-based line number of the rule (0 =
    no rule matched); ``rule`` the text of that line. ``bound`` is empty, or the limit because of
    which the rules were not judged, so that the URL counts as disallowed.
    """

    allowed: bool = True
    version: str = ""
    fetched: float = 0.0
    status: int = 0
    group: str = ""
    line: int = 0
    rule: str = ""
    bound: str = ""


class Original(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The capture that a revisit or duplicate refers to.

    It has URL, WARC-Date in microseconds since 1970, and record ID.
    """

    url: str
    date_us: int
    record_id: str = ""


ELSEWHERE = "@"
"""Begins the segment of a place that is in an archive of an earlier crawl."""


class StoredOriginal(Original, frozen=True, array_like=True, gc=False):
    """An ``Original`` with the place of its record, which has the body.

    ``segment`` and ``offset`` are those of its ``Location``. They are final when the record is
    made: a segment keeps its name and its offsets when it is closed, uploaded or imported. Rows of
    programs before formats 2 lack them: ``offset`` is 0 then, where no segment has a response.
    A ``segment`` that begins with ``@`` is a WARC file of an earlier crawl.
    """

    segment: str = ""
    offset: int = 0

    @property
    def is_elsewhere(self) -> bool:
        """Whether the capture is one of an earlier crawl."""
        return self.segment.startswith(ELSEWHERE)

    def place_beside(self, segment: str) -> tuple[str, int]:
        """``body_segment`` and ``body_offset`` of a revisit record in ``segment``.

        The first is empty when both are in one segment.
        """
        return "" if self.segment == segment else self.segment, self.offset


class Change(IntEnum):
    """How the content of a capture differs from that of the URL's capture before.

    The value is written to disk.
    """

    NONE = 0  # not judged, or an error page
    NEW = 1  # the first content
    CHANGED = 2
    SAME = 3
    GONE = 4  # there was content, and now the status is 404 or 410
    BACK = 5  # there is content again

    @property
    def label(self) -> str:
        """The name in outputs."""
        return self.name.lower()


TOLD_CHANGES = (Change.NEW, Change.CHANGED, Change.GONE, Change.BACK)
"""The changes that are reported to readers."""


class Want(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A requisite that a page needs to be rendered.

    ``destination`` is that of the Fetch standard: ``script``, ``style``, ``font``, ``image``, or
    empty for data.
    """

    url: str
    destination: str = ""


class Capture(msgspec.Struct, frozen=True, gc=False):
    """A fetch to be stored.

    ``parsed`` is ``None`` for robots.txt and responses without a document. ``payload_digest`` is
    ``sha1:`` and base32 of the body as received (transfer-decoded). ``original`` makes the record a
    revisit: server-not-modified with ``not_modified``, else identical-payload-digest.
    ``media_type`` is the detected type of the body, without parameters. ``preferences`` are what
    the site stated about the use of the page, as of this fetch. ``change_distance`` is the number
    of SimHash bits in which the text differs from that of the capture before, if both have a
    SimHash. ``remarks`` are those of user code, and ``items`` its rows, by the name of the
    extractor: JSON values in the order of its columns (``model.item_schema``). ``scores`` are what
    user code said of links, by URL, in 255ths.
    """

    fetched: Fetched
    kind: FetchKind
    host: str
    site: str
    depth: int
    via: str
    link_kind: LinkKind
    payload_digest: str
    parsed: Parsed | None = None
    robots: RobotsDecision = RobotsDecision()
    original: StoredOriginal | None = None
    not_modified: bool = False
    near_duplicate_of: Original | None = None
    chain: tuple[str, ...] = ()
    fetch_number: int = 1
    media_type: str = ""
    preferences: Preferences = NOTHING_STATED
    change: Change = Change.NONE
    change_distance: int | None = None
    remarks: tuple[Remark, ...] = ()
    items: dict[str, list[list[Any]]] = {}
    scores: dict[str, int] = {}


class Location(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The location of a record.

    It has the segment file name (closed form), byte offset and length of its gzip member, and the
    record ID.
    """

    segment: str
    offset: int
    length: int
    record_id: str
