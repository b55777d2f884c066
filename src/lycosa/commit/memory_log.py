"""The log port in memory, as a broker's topic behaves: for tests, and for histories of many nodes.

A ``MemoryChangelog`` is the topic of one shard and outlives its owners; a ``MemoryLog`` is one
owner's hold on it. A claim raises the number of the producer, which shuts out every earlier one,
and then appends a record of its own; the log is read until that record is met, which is its end by
construction. Readers ignore commits of an older term behind a newer claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from lycosa.commit.port import Claim, Fenced
from lycosa.commit.record import NOTHING, Commit, LogDamaged

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Commit)


class _Entry(NamedTuple):
    """A claim (no payload) or a commit."""

    term: int
    payload: bytes


class MemoryChangelog:
    """The commits and claims of one shard of the crawl ``crawl``."""

    def __init__(self, crawl: str, shard: int) -> None:
        self.crawl, self.shard = crawl, shard
        self._entries: list[_Entry] = []
        self._producer = 0
        self.terms = 0
        self._trimmed = 0  # the commit of the newest snapshot that a trim named

    def fence(self) -> int:
        """Shuts every earlier producer out; gives the number of the new one."""
        self._producer += 1
        return self._producer

    def claim(self, producer: int) -> int:
        """Appends a claim; gives the term that it begins. Raises ``Fenced``."""
        self.check(producer)
        self.terms += 1
        self._entries.append(_Entry(self.terms, b""))
        return self.terms

    def append(self, producer: int, commit: Commit) -> None:
        """Raises ``Fenced``."""
        self.check(producer)
        self._entries.append(_Entry(commit.term, _ENCODER.encode(commit)))

    def check(self, producer: int) -> None:
        """Raises ``Fenced`` for a producer that is not the newest, and for one that never
        claimed.
        """
        if producer != self._producer or not producer:
            raise Fenced(f"shard {self.shard} has a later owner")

    def commits(self) -> Iterator[Commit]:
        """What counts, in order. Raises ``LogDamaged`` for a commit of another crawl or of a
        term not begun, and for a gap.
        """
        claimed, expected = 0, 0
        for entry in self._entries:
            if not entry.payload:
                claimed = entry.term
            if not entry.payload or entry.term < claimed:
                continue
            commit = _DECODER.decode(entry.payload)
            what = ""
            if entry.term > claimed:
                what = f"commit {commit.sequence} is of term {entry.term}, which no claim began"
            elif commit.crawl != self.crawl:
                what = f"commit {commit.sequence} is of the crawl {commit.crawl}"
            elif expected and commit.sequence != expected:
                what = f"commit {expected} is missing"
            if what:
                raise LogDamaged(Path(f"changelog-{self.shard}"), commit.sequence, what)
            expected = commit.sequence + 1
            yield commit

    def trim(self, sequence: int) -> None:
        """Drops what the trim of an earlier snapshot named, so that the older of two snapshots can
        still be used. One that names a snapshot again, as owners do that have nothing new, drops
        nothing.
        """
        last = max((commit.sequence for commit in self.commits()), default=0)
        newest = min(sequence, last)
        if newest <= self._trimmed:
            return
        upto, self._trimmed = min(self._trimmed, last - 1), newest
        self._entries = [
            each
            for each in self._entries
            if not each.payload or _DECODER.decode(each.payload).sequence > upto
        ]

    def __repr__(self) -> str:
        return (
            f"MemoryChangelog(shard={self.shard}, entries={len(self._entries)}, terms={self.terms})"
        )


class MemoryLog:
    """One owner's hold on a changelog."""

    def __init__(self, changelog: MemoryChangelog) -> None:
        self._changelog = changelog
        self._producer = self.term = 0

    def claim(self) -> Claim:
        """See ``Log``."""
        self._producer = self._changelog.fence()
        self.term = self._changelog.claim(self._producer)
        first = last = None
        for last in self._changelog.commits():
            first = first or last
        return Claim(self.term, [last] if last else [], first.mark if first else NOTHING)

    def read(self) -> Iterator[Commit]:
        """See ``Log``."""
        return self._changelog.commits()

    def append(self, commit: Commit) -> None:
        """See ``Log``; raises ``Fenced`` alone."""
        self._changelog.append(self._producer, commit)

    def trim(self, sequence: int) -> None:
        """See ``Log``."""
        self._changelog.check(self._producer)
        self._changelog.trim(sequence)

    def close(self) -> None:
        self._producer = -1

    def __repr__(self) -> str:
        return f"MemoryLog(term={self.term}, {self._changelog!r})"
