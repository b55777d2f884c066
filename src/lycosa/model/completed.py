"""A lease ended: what the partition is told, and the states a URL can be in."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from lycosa.reasons import Reason


class UrlState(IntEnum):
    """Where a URL stands; exactly one at any time. The value is written to disk.

    A leased URL is ``QUEUED`` on disk. The queued URLs of a parked or retired host count as parked
    or retired with it.
    """

    QUEUED = 1  # waits in its host's back queue, or for its retry time
    PARKED = 2  # set aside by a budget
    FETCHED = 3  # a 2xx or 304 capture is stored
    REDIRECTED = 4  # the answer was a redirect, which became a discovered URL
    FAILED = 5  # a dead letter: no retry is due
    REFUSED = 6  # refused by a rule that depends on state (robots.txt)
    RETIRED = 7  # its host was given up

    @property
    def label(self) -> str:
        """The name in outputs."""
        return self.name.lower()


class History(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What past fetches of a URL left.

    ``digest`` is the raw SHA-1 of the payload; ``interval_s`` the refetch interval now in force;
    ``date_us``, ``record_id``, ``segment`` and ``offset`` are the last capture's; ``duplicate_of``
    the URL whose body is the same or nearly so. ``is_same`` says that it is the very same: then
    ``date_us`` and ``record_id`` are those of that URL's capture, which alone has the body.
    ``forwards`` counts how often a sitemap brought the page forward since a fetch last found it
    changed.
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


class Completed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a lease ended.

    ``number`` is the URL's fetch number at the lease; an older one is ignored. ``due_at`` (seconds
    since 1970, 0 = never) is the next fetch: a retry when ``state`` is ``QUEUED``, else a refetch.
    ``history`` replaces the old one when given.
    """

    host8: bytes
    url8: bytes
    number: int
    state: UrlState
    reason: Reason = Reason.NONE
    detail: str = ""
    due_at: int = 0
    history: History | None = None
