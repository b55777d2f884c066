"""A URL that was found, as the exchange carries it to the partition that owns it."""

from __future__ import annotations

from enum import IntEnum

import msgspec

_RULES = {12: 2, 13: 2, 19: 4, 34: 4, 29: 6, 30: 8, 33: 10, 31: 12, 32: 12, 35: 14}


class LinkKind(IntEnum):
    """Where a URL was found. The value is written to disk.

    ``SITEMAP`` is a page that a sitemap lists. ``SITEMAP_FILE`` is a sitemap, named in robots.txt
    or listed in an index. ``GIVEN`` is a URL that another program gave to the crawl. ``LICENSE`` is
    a licence that a site names for its pages (RSL). ``CODE`` is a link that user code found in a
    page. ``DOCUMENT`` is a URL that a document names by something that is no link: the source of a
    quotation, a base, a GET form without fields. ``SPECULATIVE`` is a text that looks like a URL
    of the same host. ``WANTED`` is what a page misses while it is rendered. These four are written
    only under formats 2 (``model.compatibility``).
    """

    SEED = 0
    REDIRECT = 1
    SITEMAP = 2
    FEED = 3
    SITEMAP_FILE = 4
    GIVEN = 5
    LICENSE = 6
    A = 10
    AREA = 11
    FRAME = 12
    IFRAME = 13
    CANONICAL = 14
    ALTERNATE = 15
    NEXT = 16
    PREV = 17
    REFRESH = 18
    FORM = 19
    CODE = 20
    DOCUMENT = 21
    SPECULATIVE = 29
    IMG = 30
    SCRIPT = 31
    STYLE = 32
    MEDIA = 33
    OTHER = 34
    WANTED = 35

    is_requisite: bool
    """Whether it is part of how a page looks, not a page.

    Its links are recorded, and fetched only with ``--requisites``.
    """

    leads: bool
    """Whether it leads a reader to a page, so that it counts for ranks and for the importance of
    the host.

    Requisites, forms, sitemaps and what another program gave do not: no author of a page chose the
    target for readers.
    """

    rules: int
    """An even number, equal for the kinds that the same rules apply to: pages, what is never
    followed, guesses, frames (which may be parts of a page), images, media, other requisites, what
    pages want.
    """

    def __init__(self, number: int) -> None:
        # stored, because they are read several times for each link
        self.is_requisite = number >= 30
        self.leads = number == 3 or 10 <= number <= 18 or number == 20
        self.rules = _RULES.get(number, 0)


REDIRECT_KINDS = frozenset({LinkKind.REDIRECT, LinkKind.LICENSE, LinkKind.SPECULATIVE})
"""The kinds that the target of a redirect may have; it has a chain, and others have none."""


def redirect_kind(kind: LinkKind, is_part: bool) -> LinkKind:
    """The kind of a redirect's target, given the kind of its source.

    A licence may move to another host, as it may be on another host; so may a part of a page. A
    guess stays one, or a site that redirects all paths would turn guesses into ordinary URLs.
    """
    is_kept = is_part or kind is LinkKind.LICENSE or kind is LinkKind.SPECULATIVE
    return kind if is_kept else LinkKind.REDIRECT


NO_HINT = -1
"""No priority is given.

An integer, which takes one byte in a parcel where a float takes nine.
"""


NO_SCORE = -1
"""User code says nothing of a URL."""


class Discovered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One find of a URL.

    ``url`` is canonical. ``host8`` and ``url8`` are the first eight bytes of the SHA-256 of its
    host and of itself. ``depth`` counts links from a seed; a redirect keeps its source's depth.
    ``hops`` counts redirects in a row; of a requisite also the links between it and its page, but
    the first. ``via`` is the URL of the page with the link, empty for a
    seed. ``importance`` is the source page's share for this link, in [0, 1]. ``lastmod`` (seconds
    since 1970, 0 = unknown), ``hint`` (priority in [0, 1], negative = none) and ``change_s``
    (seconds between changes, 0 = unknown) come from sitemaps. For a ``GIVEN`` URL ``hint`` is the
    priority itself.

    ``score`` is what user code says of the URL, in 255ths (``NO_SCORE``: nothing); it is set only
    under formats 2.

    Three fields have data that the owner, perhaps another worker, cannot look up. ``chain`` has the
    redirects before ``via``, the first requested first. ``vouching`` has the hosts that vouch for a
    sitemap. ``listed`` is the mark of a page that is listed by a sitemap or feed which a refetch
    policy names, 0 for others.
    """

    url: str
    host8: bytes
    url8: bytes
    kind: LinkKind
    depth: int
    via: str = ""
    hops: int = 0
    importance: float = 0.0
    lastmod: int = 0
    hint: float = NO_HINT
    change_s: int = 0
    chain: tuple[str, ...] = ()
    vouching: tuple[str, ...] = ()
    listed: int = 0
    score: int = NO_SCORE
