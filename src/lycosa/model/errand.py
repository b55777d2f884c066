"""A request to a host, asked of the partition that owns it.

Only the owner of a host sends requests to it. Where another host's robots.txt redirects there, the
owner is asked to send one request in the host's own turn: that is an errand. Its answer goes back
to the partition that asked. Who asks counts the redirects and asks for the next one itself, so an
errand never causes an errand.
"""

from __future__ import annotations

import msgspec

from lycosa.reasons import Reason

MOST_URL_CHARS = 2048
"""An errand's URL is at most this long: a hundred of them wait in one record."""


class Asker(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who asks: a partition, one of its hosts, http or https; ``number`` tells the question from
    earlier ones of that origin.
    """

    partition: int
    host8: bytes
    secure: bool
    number: int


class Errand(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One request that a host owes to others. All who ask for the same URL share it."""

    url: str
    askers: tuple[Asker, ...]


class Question(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the asking host remembers until the answer comes. Times are crawl time, in seconds.

    ``hops`` counts the redirects of its robots.txt so far. ``heard`` is an answer that the host's
    next turn takes in: the file itself is stored by then. After ``deadline`` the origin counts as
    unreachable; the question is *late* then and an answer is still taken until the deadline that
    follows.
    """

    secure: bool
    number: int
    url: str
    hops: int
    deadline: float
    is_late: bool = False
    heard: Answer | None = None


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What came of an errand, for all who asked from one partition.

    ``status`` (0 = no response), ``reason`` and ``detail`` are those of the request. ``location``
    is where a redirect leads; ``robots`` is what a robots.txt says, as it is stored for an origin,
    empty when the file could not be had. ``record_id`` names the WARC record of the response. With
    ``until`` (crawl time, else 0) nothing was requested yet: the host rests until then, and another
    answer follows.

    ``time`` is the crawl time of the partition that answers, because that of the one that asked may
    be another: on a cluster each shard has its own. 0: it is the same.
    """

    askers: tuple[Asker, ...]
    url: str
    status: int = 0
    reason: Reason = Reason.NONE
    detail: str = ""
    location: str = ""
    robots: bytes = b""
    record_id: str = ""
    until: float = 0.0
    time: float = 0.0
