"""The port for viewing a crawl: what is committed in it, wherever it is stored.

Status, explain, export, SQL, the audit and the questions of callers read all crawls through it. It
has four implementations. ``folder_view`` reads the files of a crawl folder, during or after the
crawl. ``live_view`` reads the shard of a running worker, in that worker's process.
``snapshot_view`` reads a shard's newest snapshot and the commits after it. ``cluster_view`` reads
all shards of a cluster so. Each shows the state after some commit, with no partial commit and all
commits in order. Viewing changes nothing, takes no lock and claims nothing.

Uncommitted data, and data that belongs to the machine and not to the crawl, is not included:
attempt logs, derived files, locks, the status of a running crawl. Code that needs such data uses
``CrawlOrigin.folder`` and reports when there is no folder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.urls.identity import Sites
from lycosa.state.commit import NOTHING, Commit, Mark
from lycosa.state.folder.manifest import Manifest
from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.item_source import ItemSource
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.segments_port import SegmentReader, StoredSegment
from lycosa.state.store.stored_data import StoredRecord

if TYPE_CHECKING:
    from lycosa.state.ranks.rank_file import RankFile
    from lycosa.state.ranks.rank_set import RankSet


class CommitReader(Protocol):
    """A commit log as a reader needs it."""

    def read(self) -> Iterator[Commit]:
        """See ``Log``."""
        ...


class CrawlOrigin(msgspec.Struct, frozen=True):
    """The identity and origin of a crawl.

    ``name`` is for messages: the folder, or a shard of a cluster's crawl. ``sites`` and
    ``settings`` are called when needed, because damage to one of them should stop only its users.
    ``sites`` uses the crawl's public suffix list and may raise ``DamagedFile``. ``settings`` gives
    the settings of the last start, ``None`` when they were not recorded, and may raise ``OSError``
    or a decoding error. ``folder`` has the crawl's files, if there is one.

    ``find_derived`` gives local files of one kind of derived data (``pages``, ``links``), one for
    each closed segment that has it; ``find_attempts`` the files of attempt logs that may concern a
    partition, by worker, oldest first, or ``None`` when they are not here. Both may take long.
    ``is_cluster`` says that the partitions are shards on many machines. Each of them has all places
    of the scope, and the records of an open segment are in parts. ``items`` are those of user
    code, if they can be read. ``ranks`` gives, by digest and partition, what a set of ranks is and
    its file; it may raise ``RanksError`` and what reading a file raises.
    """

    name: str
    manifest: Manifest
    sites: Callable[[], Sites]
    settings: Callable[[], Config | None]
    folder: Path | None = None
    find_derived: Callable[[str], Sequence[Path]] = lambda kind: ()
    find_attempts: Callable[[int], Mapping[int, Sequence[Path]] | None] = lambda partition: None
    is_cluster: bool = False
    items: ItemSource | None = None
    ranks: RankReader | None = None


class RankReader(Protocol):
    """Reads the ranks that a crawl goes by."""

    def __call__(self, digest: str, partition: int) -> tuple[RankSet, RankFile]:
        """See ``rank_set.open_rank_file``."""
        ...


def rank_reader(folder: Path, store: ObjectStore | None, partitions: int) -> RankReader:
    """Reads ranks in ``folder``, or downloads them there from ``store``. ``partitions`` is the
    number of partitions of the crawl.
    """

    def read(digest: str, partition: int) -> tuple[RankSet, RankFile]:
        # Imported here, because it imports numpy, and most crawls have no ranks.
        from lycosa.state.ranks.rank_set import open_rank_file

        return open_rank_file(folder, store, digest, partition, partitions)

    return read


class LastCommits(msgspec.Struct, frozen=True):
    """The content of the last commits.

    ``newest`` is the greatest mark; ``wall`` and ``time`` are wall time and crawl time of the
    newest commit (0 = never). ``lengths`` are the committed bytes of each open file, by its path
    relative to a crawl's folder, and ``sums`` those of ``Commit.sums``. ``price`` is that of a
    refetch (0 = none) in the newest commit, ``ranks`` the digest of its ranks.
    """

    newest: Mark = NOTHING
    wall: float = 0.0
    time: float = 0.0
    lengths: Mapping[str, int] = {}
    sums: Mapping[str, int] = {}
    price: float = 0.0
    ranks: str = ""

    @staticmethod
    def joined(lasts: Collection[LastCommits]) -> LastCommits:
        """The content of the last commits of several shards, of which the latest counts."""
        latest = max(lasts, key=lambda last: (last.time, last.wall), default=LastCommits())
        return LastCommits(
            max((last.newest for last in lasts), default=NOTHING),
            latest.wall,
            latest.time,
            {name: length for last in lasts for name, length in last.lengths.items()},
            {name: value for last in lasts for name, value in last.sums.items()},
            latest.price,
            latest.ranks,
        )

    @staticmethod
    def of_commit(commit: Commit | None) -> LastCommits:
        """The content of the last commit of a single log."""
        return (
            LastCommits(
                commit.mark,
                commit.wall,
                commit.time or commit.wall,
                commit.lengths,
                commit.sums,
                commit.price,
                commit.ranks,
            )
            if commit
            else LastCommits()
        )


class ShardPosition(msgspec.Struct, frozen=True):
    """The state of a shard, as a view has it.

    ``owner_term`` is the term of its newest owner, ``last`` the mark of the last commit read,
    ``wall`` and ``time`` its wall time and crawl time (0 = there is none). ``inbox`` is the
    position up to which its inbox is taken; ``settings`` the version of the live settings.
    ``is_final`` says that its owner ended with this commit. ``snapshot`` is the commit of the
    snapshot that was restored, ``needed`` the earliest commit of which a snapshot can be used (0 =
    none is needed), and ``commits`` the number of commits that were read.
    """

    shard: int
    owner_term: int
    last: Mark
    wall: float
    time: float
    inbox: int
    settings: int
    is_final: bool
    snapshot: Mark
    needed: int
    commits: int


class ViewSummary(msgspec.Struct, frozen=True):
    """What a view contains.

    That is a crawl, some or all of its partitions, their last commits, and whether their owner is
    running in this process. ``shards`` are the positions of the shards of a cluster that were read,
    by number.
    """

    origin: CrawlOrigin
    partitions: Sequence[int]
    last: LastCommits
    is_live: bool = False
    shards: Mapping[int, ShardPosition] = {}


class CrawlView(Protocol):
    """A crawl, or some of its partitions, as committed. Calls block."""

    seen: ViewSummary

    def open_table(self, partition: int) -> SavedTable:
        """The table of one partition. Close it after use. Raises ``StoreDamaged``."""
        ...

    def list_segments(self) -> list[StoredSegment]:
        """The segments with committed records, by name. Raises ``OSError``."""
        ...

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        """The committed rows of a segment, in the order of their records.

        With ``having``, only rows whose line contains these bytes. Raises ``JournalError`` or
        ``OSError``.
        """
        ...

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        """The WARC record at ``offset``; ``segment`` as in a URL's record.

        Raises ``RecordError`` or ``OSError``.
        """
        ...

    def close(self) -> None:
        """Release all resources. Tables that are still open cannot be read afterwards."""
        ...


class SegmentView(CrawlView, Protocol):
    """A view whose segments are read by one reader."""

    _segments: SegmentReader

    def list_segments(self) -> list[StoredSegment]:
        return self._segments.list_segments(self.seen.last.lengths)

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        return self._segments.read_rows(segment, having)

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        return self._segments.read_record(segment, offset)
