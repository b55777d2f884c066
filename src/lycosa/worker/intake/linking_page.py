"""A page in the course of taking in its links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lycosa.base.listing_kind import NOT_LISTED
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.discovery import LinkSource
from lycosa.stages.frontier.lease import Lease


class LinkingPage(NamedTuple):
    """A page whose links are being taken in.

    It counts the refused links by reason, and has the hosts that vouch for what a sitemap index
    lists. ``news`` are hosts whose owners have to be told that this host links to them.
    """

    lease: Lease
    parsed: Parsed
    origin: LinkSource
    refused: Counter[Reason]
    vouching: tuple[str, ...]
    mark: int
    scores: Mapping[str, int]
    news: set[bytes]

    def mark_of(self, link: Link) -> int:
        """The mark of the page that a link leads to.

        A feed may list pages of any host, and a sitemap only those that it may list.
        """
        is_own = link.kind is LinkKind.FEED and link.host8 == self.lease.host.host8
        return self.mark if is_own or link.kind is LinkKind.SITEMAP else NOT_LISTED


def why_unfollowed(parsed: Parsed, languages: Sequence[str]) -> Reason:
    """Why no link of a page is followed; ``languages`` are those that are wanted, if not all."""
    if parsed.directives.nofollow:
        return Reason.NOFOLLOW
    if languages and parsed.language and parsed.language not in languages:
        return Reason.OTHER_LANGUAGE
    return Reason.NONE
