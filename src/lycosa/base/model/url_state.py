"""The end of a lease, as the partition gets it, and the states of a URL."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from lycosa.base.model.capture import ELSEWHERE, Change
from lycosa.base.preferences.preference_model import Statement
from lycosa.base.reasons import Reason


class UrlState(IntEnum):
    """State of a URL; exactly one at any time. The value is written to disk.

    A leased URL is ``QUEUED`` on disk. The queued URLs of a parked or retired host count as parked
    or retired with it.
    """

    QUEUED = 1  # waits in its host's back queue, or for its retry time
    PARKED = 2  # set aside by a budget
    FETCHED = 3  # a 2xx or 304 capture is stored
    REDIRECTED = 4  # the answer was a redirect, which became a discovered URL
    FAILED = 5  # it failed, and no retry is due
    REFUSED = 6  # refused by a rule that depends on state (robots.txt)
    RETIRED = 7  # its host was retired
    GONE = 8  # there was content, and the last answers were 404 or 410

    @property
    def label(self) -> str:
        """The name in outputs."""
        return self.name.lower()


class History(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a URL's record remembers of its fetches.

    ``digest`` is the raw SHA-1 of the payload. ``interval_s`` is the current refetch interval.
    ``date_us``, ``record_id``, ``segment`` and ``offset`` are those of the last capture.
    ``duplicate_of`` is the URL whose body is the same or nearly the same. ``is_same`` says that it
    is exactly the same. Then ``date_us`` and ``record_id`` are those of that URL's capture, which
    alone has the body. ``forwards`` counts how often a signal moved the next fetch forward since
    the last one.

    The fields after it are of formats 2 (``model.compatibility``). ``text_digest`` is the 64-bit
    digest of the visible text, 8 bytes. ``body_segment`` and ``body_offset`` name the record with
    the body of the last capture, when that is another one (see ``body_place``). ``observations``
    are up to 16 bytes, one for each of the last fetches, the oldest first. ``cell`` is the page's
    cell in the grid of the refetch price (u16, 0 = none), ``policy`` its class of bounds (u8).
    ``markup`` is what the document said about the use of the page, which still holds after a 304
    (``preferences.kept_markup``).
    """

    fetches: int = 0
    fetched_at: int = 0
    status: int = 0
    digest: bytes = b""
    simhash: int = 0
    etag: str = ""
    last_modified: str = ""
    changes: int = 0
    interval_s: int = 0
    date_us: int = 0
    record_id: str = ""
    segment: str = ""
    offset: int = 0
    redirect_to: str = ""
    duplicate_of: str = ""
    is_same: bool = False
    forwards: int = 0
    text_digest: bytes = b""
    body_segment: str = ""
    body_offset: int = 0
    observations: bytes = b""
    cell: int = 0
    policy: int = 0
    markup: tuple[Statement, ...] = ()

    @property
    def is_elsewhere(self) -> bool:
        """Whether an archive of an earlier crawl has the body of the last capture."""
        return self.body_segment.startswith(ELSEWHERE)

    @property
    def copy_of(self) -> str:
        """``duplicate_of``, but empty where it is a page of an earlier crawl."""
        # Most pages are no copy, so this is one call.
        return self.duplicate_of if self.duplicate_of and not self.is_elsewhere else ""

    @property
    def body_place(self) -> tuple[str, int]:
        """Segment and offset of the record with the body of the last capture.

        It is the capture's own record unless ``body_offset`` is set. Where ``body_segment`` is
        empty then, both records are in one segment. An older program that stored a revisit did not
        set them: then the record at this place is a revisit record.
        """
        if not self.body_offset:
            return self.segment, self.offset
        return self.body_segment or self.segment, self.body_offset


class NotedChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is reported of a capture to readers: how its content changed, and which capture it is.

    ``noted_s`` is wall time (seconds since 1970). ``date_us`` and ``status`` are those of the
    capture; ``distance`` is its ``change_distance``.
    """

    change: Change
    noted_s: int
    date_us: int
    status: int
    distance: int | None = None


class Completed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a lease ended.

    ``number`` is the URL's fetch number at the lease; an older one is ignored. ``due_at`` (seconds
    since 1970, 0 = never) is the next fetch: a retry when ``state`` is ``QUEUED``, else a refetch.
    ``history``, if given, replaces the old one. ``noted`` is a change that is reported. ``title``
    is a hash of the title of a page that is a near copy, or may turn out to be one (0 = none).
    ``items`` is the number of rows that each extractor made of the capture.
    """

    host8: bytes
    url8: bytes
    number: int
    state: UrlState
    reason: Reason = Reason.NONE
    detail: str = ""
    due_at: int = 0
    history: History | None = None
    noted: NotedChange | None = None
    title: int = 0
    items: dict[str, int] = {}
