"""The log port in memory, which behaves like a broker's topic.

It is for tests and for histories of many nodes. A ``MemoryChangelog`` is the topic of one shard and
outlives its owners; a ``MemoryLog`` is one owner's access to it. A claim raises the producer
number, which excludes every earlier producer, and then appends a claim record. The log is read up
to that record, which is its end by construction. Readers ignore commits of an older term after a
newer claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from lycosa.state.commit.log_port import Claim, FeedRow, FeedSource, Fenced, no_rows
from lycosa.state.commit.record import NOTHING, Commit, LogDamaged

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Commit)


class _Entry(NamedTuple):
    """A claim (empty payload) or a commit."""

    term: int
    payload: bytes


class MemoryChangelog:
    """The commits and claims of one shard of the crawl ``crawl``."""

    def __init__(self, crawl: str, shard: int) -> None:
        self.crawl, self.shard = crawl, shard
        self._entries: list[_Entry] = []
        self._producer = 0
        self.terms = 0
        self.feed: list[FeedRow] = []  # of all commits, for readers outside
        self._trimmed = 0  # the commit of the newest snapshot named by a trim

    def fence(self) -> int:
        """Exclude every earlier producer; returns the number of the new one."""
        self._producer += 1
        return self._producer

    def claim(self, producer: int) -> int:
        """Append a claim; returns the term that it begins. Raises ``Fenced``."""
        self.check(producer)
        self.terms += 1
        self._entries.append(_Entry(self.terms, b""))
        return self.terms

    def append(self, producer: int, commit: Commit, feed: Sequence[FeedRow] = ()) -> None:
        """Append a commit. Raises ``Fenced``."""
        self.check(producer)
        self._entries.append(_Entry(commit.term, _ENCODER.encode(commit)))
        self.feed += feed

    def check(self, producer: int) -> None:
        """Raise ``Fenced`` unless ``producer`` is the newest one and has claimed."""
        if producer != self._producer or not producer:
            raise Fenced(f"shard {self.shard} has a later owner")

    def commits(self) -> Iterator[Commit]:
        """The valid commits, in order.

        Raises ``LogDamaged`` for a commit of another crawl or of a term that no claim began, and
        for a gap.
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
                what = f"commit {commit.sequence} has term {entry.term}, which no claim began"
            elif commit.crawl != self.crawl:
                what = f"commit {commit.sequence} belongs to crawl {commit.crawl}"
            elif expected and commit.sequence != expected:
                what = f"commit {expected} is missing"
            if what:
                raise LogDamaged(Path(f"changelog-{self.shard}"), commit.sequence, what)
            expected = commit.sequence + 1
            yield commit

    def trim(self, sequence: int) -> None:
        """Drop the commits up to the previous snapshot, so that two snapshots stay usable.

        A trim that names the same snapshot again, as from an owner without new commits, drops
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
    """One owner's access to a changelog; implements ``Log``. ``append`` raises only ``Fenced``."""

    def __init__(self, changelog: MemoryChangelog) -> None:
        self._changelog = changelog
        self._producer = self.term = 0

    def claim(self) -> Claim:
        self._producer = self._changelog.fence()
        self.term = self._changelog.claim(self._producer)
        first = last = None
        for last in self._changelog.commits():
            first = first or last
        return Claim(self.term, [last] if last else [], first.mark if first else NOTHING)

    def read(self) -> Iterator[Commit]:
        return self._changelog.commits()

    def append(self, commit: Commit, feed: FeedSource = no_rows) -> None:
        self._changelog.append(self._producer, commit, feed())

    def trim(self, sequence: int) -> None:
        self._changelog.check(self._producer)
        self._changelog.trim(sequence)

    def close(self) -> None:
        self._producer = -1

    def __repr__(self) -> str:
        return f"MemoryLog(term={self.term}, {self._changelog!r})"
