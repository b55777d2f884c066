"""Links of many pages, held until they are looked up together.

Looking a hash up in URL-seen costs 0.1 us in a batch of thousands and several in the handful that one page has for one partition. So
a partition lets the links of pages gather, and takes them in when there are enough, when the workbench has nothing ready, and at the
cut of a commit: a page's links are always in the same commit as the end of its lease, so a crash never divides them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from lycosa.kv.records import UrlRecord
from lycosa.model.completed import UrlState
from lycosa.model.discovered import Discovered
from lycosa.model.parsed import Link
from lycosa.reasons import Reason
from lycosa.seen.port import Hashes
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
