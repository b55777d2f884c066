"""Links of many pages, held until they are looked up together.

Looking a hash up in URL-seen costs 0.1 us in a batch of thousands and several in the handful that one page has for one partition. So
a partition lets the links of pages gather, and takes them in when there are enough, when the workbench has nothing ready, and at the
cut of a commit: a page's links are always in the same commit as the end of its lease, so a crash never divides them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress

import msgspec
import numpy as np

from lycosa.frontier.visit_state import VisitStates
from lycosa.kv.records import UrlRecord
from lycosa.model.completed import UrlState
from lycosa.model.discovered import Discovered
from lycosa.model.parsed import Link
from lycosa.reasons import Reason
from lycosa.seen.port import Hashes, SeenUrls
from lycosa.url import host_of, scheme_of, target_of

ENOUGH = 4096


class Origin(msgspec.Struct, frozen=True, gc=False):
    """What the links of one page have in common; ``priority`` in [0, 1] is theirs if they are new."""

    via: str
    depth: int
    importance: float
    priority: float

    def found(self, link: Link) -> Discovered:
        """One of the links by itself."""
        return Discovered(link.url, link.host8, link.url8, link.kind, self.depth, self.via, 0, self.importance)


class Gathered:
    """Links that wait, with their pages, in the order in which they were found."""

    def __init__(self) -> None:
        self.pages: list[tuple[Origin, list[Link]]] = []
        self.count = 0

    def __repr__(self) -> str:
        return f"<Gathered links={self.count} pages={len(self.pages)}>"

    def add(self, origin: Origin, links: list[Link]) -> bool:
        """Whether there are enough now."""
        self.pages.append((origin, links))
        self.count += len(links)
        return self.count >= ENOUGH

    def hashes(self) -> Hashes:
        """Of all links, in order."""
        return hashes_of([link.url8 for _, links in self.pages for link in links])


class Bounds:
    """By host, what a known URL's find must be under (depth) or over (importance) to change anything: (deepest, importance).

    Most links are known, and most of their finds change nothing; this says so without the host's state, which may be on disk. Both
    numbers of a host only rise, so an entry that is removed whenever they do is never wrong.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._of: dict[bytes, tuple[int, float]] = {}
        self.get = self._of.get
        self.forget = self._of.pop

    def __repr__(self) -> str:
        return f"<Bounds hosts={len(self._of)} of {self._capacity}>"

    def note(self, host8: bytes, deepest: int, importance: float) -> None:
        if len(self._of) >= self._capacity:
            self._of.clear()
        self._of[host8] = (deepest, importance)


class Discovery:
    """Tells new URLs from known ones for one partition: ``admit`` is called with the new, ``meet_again`` with the known whose find may
    change something."""

    def __init__(
        self,
        seen: SeenUrls,
        visits: VisitStates,
        bounds: Bounds,
        admit: Callable[[Discovered, float, float], None],
        meet_again: Callable[[Discovered, float], None],
    ) -> None:
        self._seen, self._visits, self._bounds = seen, visits, bounds
        self._admit, self._meet_again = admit, meet_again
        self._gathered, self._gathered_at = Gathered(), 0.0

    def __repr__(self) -> str:
        return f"<Discovery {self._gathered!r} {self._bounds!r}>"

    def take(self, batch: Sequence[Discovered], priorities: Sequence[float], now: float) -> list[bool]:
        """URLs one by one, behind those that gathered. Tells which were new."""
        self.take_gathered()
        new: list[bool] = self._seen.unseen(hashes_of([found.url8 for found in batch])).tolist()
        for found, priority, is_new in zip(batch, priorities, new, strict=True):
            if is_new:
                self._admit(found, priority, now)
            else:
                self._meet_again(found, now)
        return new

    def gather(self, origin: Origin, links: list[Link], now: float) -> None:
        """The links of a page, to be taken in with others."""
        self._gathered_at = now
        if self._gathered.add(origin, links):
            self.take_gathered()

    def take_gathered(self) -> bool:
        """Takes in what gathered; says whether there was anything."""
        if not self._gathered.count:
            return False
        gathered, now, self._gathered = self._gathered, self._gathered_at, Gathered()
        is_new: list[bool] = self._seen.unseen(gathered.hashes()).tolist()
        start = 0
        for origin, links in gathered.pages:
            fresh = is_new[start : (start := start + len(links))]
            if True in fresh:
                for link in compress(links, fresh):
                    self._admit(origin.found(link), origin.priority, now)
            self._meet_page(origin, links, fresh, now)
        return True

    def _meet_page(self, origin: Origin, links: list[Link], fresh: list[bool], now: float) -> None:
        """The links of a page that were known, host by host: nearly none changes anything."""
        depth, importance = origin.depth, origin.importance
        for host8 in {link.host8 for link in links}:
            deepest, highest = self._bounds.get(host8) or self._read_bounds(host8)
            if depth < deepest or importance > highest:
                for link, is_new in zip(links, fresh, strict=True):
                    if link.host8 == host8 and not is_new:
                        self._meet_again(origin.found(link), now)

    def _read_bounds(self, host8: bytes) -> tuple[int, float]:
        record = self._visits.peek(host8)
        if record is None:
            return 0, 1.0  # a hash that belongs to another host's URL: nothing here can change
        bound = record.deepest, record.importance
        self._bounds.note(host8, *bound)
        return bound


def hashes_of(url8s: Sequence[bytes]) -> Hashes:
    """``url8`` values as numbers."""
    return np.frombuffer(b"".join(url8s), dtype=">u8").astype(np.uint64)


def record_of(found: Discovered, host: str, priority: float, now: float, is_parked: bool) -> UrlRecord:
    """The first record of a new URL."""
    url, via = found.url, found.via
    if via.startswith(url[: len(url) - len(target := target_of(url))]) and host_of(via) == host and scheme_of(via) == scheme_of(url):
        via = target_of(via)  # a page of the same origin is kept as its path and query
    return UrlRecord(
        UrlState.PARKED if is_parked else UrlState.QUEUED, url[4] == "s", target, found.depth, round(priority * 255), found.kind, int(now),
        via, found.hops, Reason.DISCOVERY_RATE if is_parked else Reason.NONE,
    )  # fmt: skip
