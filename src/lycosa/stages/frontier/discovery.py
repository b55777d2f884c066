"""Links of many pages, gathered until they are looked up together.

Looking up a hash in URL-seen costs 0.4 us in a batch of hundreds, and 1.7 us in the handful that
one page has for one partition. So a partition gathers the links of pages. It takes them in when
there are enough, when the workbench has no ready host, and at the cut of a commit. So a page's
links are always in the same commit as the end of its lease, and a crash never separates them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from lycosa.base.listing_kind import NOT_LISTED
from lycosa.base.model.discovered import NO_HINT, NO_SCORE, Discovered, LinkKind
from lycosa.base.model.parsed import Link
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import target_of
from lycosa.stages.frontier.cold_urls import NEVER_SO_DEEP, ColdUrls
from lycosa.stages.frontier.ranking import stored_importance
from lycosa.stages.frontier.visit_state import VisitStates
from lycosa.state.cold.cold_rows import ReturnCause
from lycosa.state.kv.table_records import UrlRecord
from lycosa.state.seen.seen_port import Mask, SeenUrls, hashes_of

ENOUGH = 512  # 0.4 us each, as for thousands; 20 ms of the loop when all of them are new


class LinkSource(msgspec.Struct, frozen=True, gc=False):
    """What the links of one page have in common.

    ``hops`` counts the links and redirects between a page and the requisite that they are in; 0 in
    a page itself.
    """

    via: str
    depth: int
    importance: float
    hops: int = 0

    def found(
        self,
        link: Link,
        lastmod: int = 0,
        hint: float = NO_HINT,
        change_s: int = 0,
        vouching: tuple[str, ...] = (),
        listed: int = NOT_LISTED,
        score: int = NO_SCORE,
    ) -> Discovered:
        """One of the links, with what a sitemap and user code say about it, and its mark."""
        by = self.importance
        return Discovered(
            link.url,
            link.host8,
            link.url8,
            link.kind,
            self.depth,
            self.via,
            self.hops,
            by,
            lastmod,
            hint,
            change_s,
            vouching=vouching,
            listed=listed,
            score=score,
        )


class Gathered:
    """Links that were gathered, in the order in which they were found, each with its page.

    A page has a handful for one partition, so they are not handled page by page. ``depth`` is the
    minimum of all.
    """

    __slots__ = ("depth", "links", "origins")

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.origins: list[LinkSource] = []
        self.depth = NEVER_SO_DEEP

    def add_links(self, origin: LinkSource, links: list[Link]) -> bool:
        """Add links; return whether there are enough now."""
        self.links += links
        self.origins += [origin] * len(links)
        if origin.depth < self.depth:
            self.depth = origin.depth
        return len(self.links) >= ENOUGH


class Bounds:
    """By host, the depth from which on a known URL's link has no effect: that of its deepest URL.

    A link has an effect only if its depth is smaller. Most links are known, and most of them have
    no effect. This cache shows it without the host's state, which may be on disk. The number of a
    host only rises, and its entry is removed when it does, so an entry is never wrong.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._of: dict[bytes, int] = {}
        self.get = self._of.get
        self.forget = self._of.pop
        self.clear = self._of.clear

    def note_deepest(self, host8: bytes, deepest: int) -> None:
        if len(self._of) >= self.capacity:
            self._of.clear()
        self._of[host8] = deepest


class Discovery:
    """Tells new URLs from known ones for one partition.

    ``admit`` is called with new URLs, ``found_again`` with known ones whose find may have an
    effect.
    """

    def __init__(
        self,
        seen: SeenUrls,
        visits: VisitStates,
        bounds: Bounds,
        admit: Callable[[Discovered, float], None],
        found_again: Callable[[Discovered, float], None],
        cold: ColdUrls,
    ) -> None:
        self._seen, self._visits, self._bounds = seen, visits, bounds
        self._admit, self._found_again, self._cold = admit, found_again, cold
        self._gathered, self._gathered_at = Gathered(), 0.0

    def take_urls(self, batch: Sequence[Discovered], now: float) -> list[bool]:
        """Take URLs one by one, after those that were gathered; return which were new."""
        self.take_gathered()
        hashes = hashes_of([found.url8 for found in batch])
        new: list[bool] = self._seen.unseen(hashes).tolist()
        for found, is_new in zip(batch, new, strict=True):
            if is_new:
                self._admit(found, now)
            else:
                self._found_again(found, now)
        if len(self._cold.hashes):
            self._cold.note_given(batch, now)
            for at in self._cold.ripe_places(hashes, now):
                found = batch[at]
                if found.kind is not LinkKind.SPECULATIVE:
                    url = found.host8 + found.url8
                    self._cold.note_return(url, ReturnCause.LINK, found.depth, now)
        return new

    def gather_links(self, origin: LinkSource, links: list[Link], now: float) -> None:
        """Gather the links of a page, to be taken in with others."""
        self._gathered_at = now
        if self._gathered.add_links(origin, links):
            self.take_gathered()

    def take_gathered(self) -> bool:
        """Take in the gathered links; return whether there were any."""
        if not self._gathered.links:
            return False
        gathered, now, self._gathered = self._gathered, self._gathered_at, Gathered()
        links, origins, admit = gathered.links, gathered.origins, self._admit
        hashes = hashes_of([link.url8 for link in links])
        is_new = self._seen.unseen(hashes)
        for at in np.flatnonzero(is_new).tolist():
            admit(origins[at].found(links[at]), now)
        self._take_known(gathered, is_new, now)
        if len(self._cold.hashes):
            for at in self._cold.ripe_places(hashes, now):
                link, depth = links[at], origins[at].depth
                if link.kind is not LinkKind.SPECULATIVE:
                    url = link.host8 + link.url8
                    self._cold.note_return(url, ReturnCause.LINK, depth, now)
        return True

    def _take_known(self, gathered: Gathered, is_new: Mask, now: float) -> None:
        """Handle the links that were known.

        Nearly none has an effect, and for most hosts one comparison shows that for all of its
        links.
        """
        depth, get, read = gathered.depth, self._bounds.get, self._read_deepest
        open_hosts = set()
        for host8 in {link.host8 for link in gathered.links}:
            deepest = get(host8)
            if depth < (read(host8) if deepest is None else deepest):
                open_hosts.add(host8)
        if not open_hosts:
            return
        for link, origin, new in zip(
            gathered.links, gathered.origins, is_new.tolist(), strict=True
        ):
            if not new and link.host8 in open_hosts:
                deepest = get(link.host8)
                if origin.depth < (read(link.host8) if deepest is None else deepest):
                    self._found_again(origin.found(link), now)

    def _read_deepest(self, host8: bytes) -> int:
        record = self._visits.peek_record(host8)
        if record is None:
            return 0  # a hash of another host's URL: the find has no effect here
        # Any find may confirm a speculative URL.
        deepest = NEVER_SO_DEEP if record.speculation is not None else record.deepest
        self._bounds.note_deepest(host8, deepest)
        return deepest


def record_of(found: Discovered, priority: float, now: float, is_parked: bool) -> UrlRecord:
    """The first record of a new URL."""
    url, via, target = found.url, found.via, target_of(found.url)
    before = len(url) - len(target)
    if via[: before + 1] == url[: before + 1]:
        via = via[before:]  # of a page of the same origin only path and query are stored
    return UrlRecord(
        UrlState.PARKED if is_parked else UrlState.QUEUED,
        url[4] == "s",
        target,
        found.depth,
        round(priority * 255),
        found.kind,
        int(now),
        via,
        found.hops,
        Reason.DISCOVERY_RATE if is_parked else Reason.NONE,
        importance=stored_importance(found),
        chain=found.chain,
        listed=found.listed,
        score=found.score,
    )
