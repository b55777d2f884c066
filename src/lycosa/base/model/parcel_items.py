"""What partitions send each other besides links: errands, wants of rendered pages, near copies."""

from __future__ import annotations

import msgspec

from lycosa.base.model.capture import Original, Want
from lycosa.base.reasons import Reason

# A request to a host, asked of the partition that owns it.
#
# Only the owner of a host sends requests to it. When another host's robots.txt redirects there,
# the owner is asked to send one request in the host's own turn: that is an errand. Its answer goes
# to the partition that asked. The asking partition counts the redirects and asks for the next one
# itself, so an errand never causes another errand.


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


# What a page needs to be rendered, asked of the partitions that own the hosts.
#
# Only the owner of a host sends requests to it, so what a page misses is posted there. The owner
# fetches it like any URL of the host, and says once what became of it: to all pages that wait for
# it, with the commit that settles the URL. Posted wants and settled ones travel in parcels.


FOREIGN_DESTINATIONS = frozenset({"script", "style", "font", "image"})
"""What a page gets of another site: no data, media or documents."""

MAX_WANT_CHARS = 2048
"""Maximum length of the URL of a want. Hundreds of them may travel in one parcel."""


class WantingPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The page that is being rendered: its partition, and the hashes of its host and URL."""

    partition: int
    host8: bytes
    url8: bytes


class PostedWant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A want on its way to the owner of its host. The pure rules have admitted it.

    ``destination`` is that of ``capture.Want``. ``page_url`` and ``depth`` are those of the page.
    """

    url: str
    destination: str
    page: WantingPage
    page_url: str
    depth: int


class SettledWant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a want, for the pages of one partition.

    With a ``record_id`` a response is stored, also a redirect (to ``location``, canonical) or an
    error page: it is the record with the body, which is another URL's where that has the same body.
    Otherwise ``reason`` and ``detail`` say why nothing will come for these pages. ``loads`` is what
    a script or style sheet imports; it is empty if it was fetched before it was wanted.
    """

    url: str
    pages: tuple[WantingPage, ...]
    reason: Reason = Reason.NONE
    detail: str = ""
    status: int = 0
    record_id: str = ""
    location: str = ""
    loads: tuple[Want, ...] = ()


class Fingerprint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The simhash of a capture that was stored, for the owners of its buckets."""

    simhash: int
    original: Original


class Verdict(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The page ``url`` is a near-duplicate: the answer to the partition that owns its URL.

    ``simhash`` is that of the page, so a verdict about earlier content is recognized. ``original``
    is the earlier capture whose simhash differs from it in ``distance`` bits.
    """

    url: str
    simhash: int
    distance: int
    original: Original

    @property
    def rank(self) -> tuple[int, str]:
        """The smaller one of two verdicts about a page counts, in whatever order they arrive.

        It names the earlier original, because the later one may itself be a near-duplicate of it.
        """
        return self.original.date_us, self.original.url


PartitionKey = tuple[int, bytes]
"""A partition and a key that it owns."""
