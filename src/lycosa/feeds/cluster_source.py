"""The crawl of a cluster as a source: the changelog in Kafka, snapshots and segments in the store.

A shard is a partition, and its log has all its commits, so shards need no common order. Sealed
segments are listed when one that was open is not named by the last commits any more, and now and
then: between closing and sealing a segment is in no list.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Protocol

from lycosa.cluster.kafka.changelog_reader import ChangelogReader
from lycosa.cluster.shards.cluster_view import sealed_segments
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.feeds.projector_source import UNREAD, CaptureLines, JournalPosition
from lycosa.state.commit import Commit
from lycosa.state.shard.view import CrawlView
from lycosa.state.store import layout
from lycosa.state.store.journal import lines_from
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.stored_parts import PieceFile

_LISTED_EVERY_S = 15.0


class CommitFollower(Protocol):
    """Reads the commits of all shards as ``ChangelogReader`` does, which is one."""

    def read_new(self) -> Iterator[Commit]:
        """The commits that were not given yet."""
        ...

    def count_waiting(self) -> int:
        """The number of records that were not read yet."""
        ...

    def close(self) -> None:
        """Disconnect; the next call begins again."""
        ...


class ClusterSource:
    """A crawl on many machines as a ``ProjectorSource``. ``close`` is the caller's.

    ``follower`` reads the commits; the default is the changelog in Kafka.
    """

    def __init__(self, opened: OpenedCluster, follower: CommitFollower | None = None) -> None:
        self._opened = opened
        self.origin = opened.view.seen.origin
        self._follower: CommitFollower = follower or ChangelogReader(
            opened.client, opened.topics, opened.crawl, opened.tell
        )
        self._lengths: dict[int, Mapping[str, int]] = {}
        self._segments: dict[int, ObjectSegments] = {}
        self._open: set[str] = set()
        self._listed_at = -_LISTED_EVERY_S
        self.has_listed = False
        """Whether the last call of ``captures`` listed the sealed segments."""

    def view(self) -> CrawlView:
        """See ``ProjectorSource``. Shards are downloaded when they are read."""
        return self._opened.again()

    def commits(self) -> Iterator[Commit]:
        """See ``ProjectorSource``. Commits of one shard are in order."""
        for commit in self._follower.read_new():
            self._lengths[commit.shard] = commit.lengths
            yield commit

    def rewind(self) -> None:
        self._follower.close()
        self._lengths.clear()
        self._open.clear()
        self._listed_at = -_LISTED_EVERY_S

    def captures(self, read: Mapping[str, JournalPosition]) -> Iterator[CaptureLines]:
        """See ``ProjectorSource``. Raises ``ObjectError`` too."""
        named = self.named_journals()
        yield from self._sealed(read, named)
        for name, length in sorted(named.items()):
            start = read.get(name, UNREAD)
            if length > start.bytes and not start.is_closed:
                segment = StoredSegment(name, False, 0, length)
                data = b"".join(self._reader(name).read_open_journal(segment, start.bytes))
                # fewer when the segment was sealed and its parts deleted; it is read as closed then
                if len(data) == length - start.bytes:
                    lines = lines_from(io.BytesIO(data), name, has_header=not start.bytes)
                    yield CaptureLines(name, length, False, lines)

    def named_journals(self) -> dict[str, int]:
        """The segments that the last commits name as open, with the length of their journals."""
        return {
            layout.stem_of(name): length
            for lengths in self._lengths.values()
            for name, length in lengths.items()
            if name.startswith(f"{layout.JOURNAL}/")
        }

    def names(self) -> set[str]:
        """The segments that are sealed or named. Raises ``ObjectError``."""
        return {*sealed_segments(self._opened.objects), *self.named_journals()}

    def list_again(self) -> None:
        """Let the next call of ``captures`` list the sealed segments."""
        self._listed_at = -_LISTED_EVERY_S

    def count_waiting(self) -> int:
        """See ``ProjectorSource``. Counts records, of which a commit has at least one."""
        return self._follower.count_waiting()

    def close(self) -> None:
        """Disconnect from Kafka."""
        self._follower.close()

    def _sealed(
        self, read: Mapping[str, JournalPosition], named: Mapping[str, int]
    ) -> Iterator[CaptureLines]:
        now = time.monotonic()
        is_recent = self._listed_at >= 0 and now - self._listed_at < _LISTED_EVERY_S
        self.has_listed = not is_recent or bool(self._open - named.keys())
        if not self.has_listed:
            return
        self._open, self._listed_at = set(named), now
        for name, segment in sorted(sealed_segments(self._opened.objects).items()):
            position = read.get(name, UNREAD)
            # one that the commits still name as open is read as such until they do not
            if not position.is_closed and name not in named:
                stream = io.BufferedReader(PieceFile(self._reader(name).read_journal(segment)))
                lines = islice(lines_from(stream, name, has_header=True), position.rows, None)
                yield CaptureLines(name, segment.journal_length or 0, True, lines)

    def _reader(self, segment: str) -> ObjectSegments:
        shard = layout.segment_worker(segment)
        if shard not in self._segments:
            self._segments[shard] = ObjectSegments(self._opened.objects, shard, self._opened.cache)
        return self._segments[shard]
