"""The port by which a crawl is looked at: what is committed in it, wherever it lies, and nothing
else.

Three things implement it: the files of a crawl folder, beside its owner or after it
(``folder_view``); the shard of a worker that runs, in that worker's own process (``live_view``);
and a shard's newest snapshot with the commits behind it (``snapshot_view``). Each shows the state
after some commit: no commit in part, none out of order. Looking changes nothing, takes no lock and
claims nothing.

What is not committed, or is the machine's and not the crawl's, is not in here: attempt logs,
derived files, locks, what a running crawl says of itself. Who needs that asks for ``Origin.folder``
and says so where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.commit import NOTHING, Commit, Mark
from lycosa.config.sections import Config
from lycosa.folder.manifest import Manifest
from lycosa.kv.port import SavedTable
from lycosa.store import Row, SegmentReader, StoredRecord, StoredSegment
from lycosa.urls.identity import Sites


class Origin(msgspec.Struct, frozen=True):
    """Which crawl it is.

    ``name`` is for people: the folder, or a shard of a cluster's crawl. ``sites`` and ``settings``
    are asked when they are needed, because damage to one stops only what needs it: sites by the
    crawl's own public suffix list, which may raise ``DamagedFile``; and the settings of the last
    start, ``None`` when they were not recorded, which may raise ``OSError`` or a decoding error.
    ``folder`` has the crawl's files, where there is one.
    """

    name: str
    manifest: Manifest
    sites: Callable[[], Sites]
    settings: Callable[[], Config | None]
    folder: Path | None = None


class LastCommits(msgspec.Struct, frozen=True):
    """What the last commits say: the greatest mark; wall time and crawl time of the newest one (0 =
    never); the committed bytes of each open file, by its path relative to a crawl's folder.
    """

    newest: Mark = NOTHING
    wall: float = 0.0
    time: float = 0.0
    lengths: Mapping[str, int] = {}

    @staticmethod
    def of(commit: Commit | None) -> LastCommits:
        """What the last commit of the only log says."""
        return (
            LastCommits(commit.mark, commit.wall, commit.time or commit.wall, commit.lengths)
            if commit
            else LastCommits()
        )


class Seen(msgspec.Struct, frozen=True):
    """What a view shows: a crawl, those of its partitions that are here, their last commits, and
    whether their owner is at work in this very process.
    """

    origin: Origin
    partitions: Sequence[int]
    last: LastCommits
    is_live: bool = False


class View(Protocol):
    """A crawl, or some of its partitions, as committed. Calls block."""

    seen: Seen

    def table(self, partition: int) -> SavedTable:
        """One partition. Close it after use. Raises ``StoreDamaged``."""
        ...

    def segments(self) -> list[StoredSegment]:
        """The segments with committed records, by name. Raises ``OSError``."""
        ...

    def rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[Row]:
        """The committed rows of a segment in the order of their records; with ``having`` those
        whose line contains these bytes. Raises ``JournalError`` or ``OSError``.
        """
        ...

    def record(self, segment: str, offset: int) -> StoredRecord:
        """The WARC record that begins there; ``segment`` as a URL's record names it. Raises
        ``RecordError`` or ``OSError``.
        """
        ...

    def close(self) -> None:
        """Lets go of what it holds; tables that are still open cannot be read any more."""
        ...


class SegmentView(View, Protocol):
    """A view whose segments are read by one reader."""

    _segments: SegmentReader

    def segments(self) -> list[StoredSegment]:
        """See ``View``."""
        return self._segments.listed(self.seen.last.lengths)

    def rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[Row]:
        """See ``View``."""
        return self._segments.rows(segment, having)

    def record(self, segment: str, offset: int) -> StoredRecord:
        """See ``View``."""
        return self._segments.read(segment, offset)
