"""A request to a host, asked of the partition that owns it.

Only the owner of a host sends requests to it. When another host's robots.txt redirects there, the
owner is asked to send one request in the host's own turn: that is an errand. Its answer goes to the
partition that asked. The asking partition counts the redirects and asks for the next one itself, so
an errand never causes another errand.
"""

from __future__ import annotations

import msgspec

from lycosa.base.reasons import Reason

MAX_URL_CHARS = 2048
"""Maximum length of an errand's URL. A hundred of them may wait in one record."""


class Asker(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The origin that asks: a partition, one of its hosts, http or https.

    ``number`` distinguishes the question from earlier ones of that origin.
    """

    partition: int
    host8: bytes
    secure: bool
    number: int


class Errand(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One request to a host that others asked for. All askers of the same URL share it."""

    url: str
    askers: tuple[Asker, ...]


class Question(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the asking host remembers until the answer comes. Times are crawl time, in seconds.

    ``hops`` counts the redirects of its robots.txt so far. ``heard`` is an answer that the host's
    next turn takes in; the file itself is stored by then. After ``deadline`` the origin counts as
    unreachable and the question is *late*. A late answer is accepted until a second deadline.
    """

    secure: bool
    number: int
    url: str
    hops: int
    deadline: float
    is_late: bool = False
    heard: Answer | None = None


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The result of an errand, for all askers of one partition.

    ``status`` (0 = no response), ``reason`` and ``detail`` are those of the request. ``location``
    is the target of a redirect. ``robots`` is the content of a robots.txt in the stored form, empty
    when the file was unavailable. ``record_id`` names the WARC record of the response. With
    ``until`` (crawl time, else 0) nothing was requested yet: the host rests until then, and another
    answer follows.

    ``time`` is the crawl time of the answering partition (0 = the same as that of the asking one).
    They may differ, because on a cluster each shard has its own crawl time.
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
