"""The state of a crawl on machines that has ended, for ``StateReader``: from snapshots and logs.

No worker runs that could answer, so the shards are read as the commands with ``--cluster`` read
them, into the same cache folder. That takes a while, so it happens once, when something is first
asked for. Nothing changes in a crawl that has ended, so it is read until the crawl continues.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from lycosa.base.config.cluster_file import ClusterFile
from lycosa.base.system.clock import SystemClock
from lycosa.cluster.shards.cluster_view import ClusterView, ReadingProgress
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.saved_settings import SavedSettings, load_saved_settings
from lycosa.stages.parse.parent import ChildParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.store import JournalRow, StoredRecord, StoredSegment


class ClusterState:
    """The state of all shards after their last commits; implements ``StateSource``.

    ``cache`` is as in ``OpenedCluster``. Use ``open`` first.
    """

    def __init__(self, given: ClusterFile, cache: Path) -> None:
        self._given, self._cache = given, cache
        self._opened: OpenedCluster | None = None
        self._saved: SavedSettings | None = None
        self._is_ending = threading.Event()
        self.progress = ReadingProgress()
        """How far ``open`` came."""

    def __repr__(self) -> str:
        return f"<ClusterState {self._opened!r}>"

    def open(self) -> None:
        """Read all shards. Blocks, perhaps for minutes; raises as ``OpenedCluster`` and its view.

        Raises ``ReadingCancelled`` after ``end``.
        """
        self._opened = OpenedCluster(self._given, self._cache, self._note)
        self._opened.view.open_shards()

    def end(self) -> None:
        """Let ``open`` end soon, in another thread."""
        self._is_ending.set()

    def close(self) -> None:
        """Delete the tables; what was downloaded stays in the cache."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def open_view(self, partition: int | None) -> _KeptView:
        """The view of all partitions; closing it has no effect."""
        assert self._opened is not None, "it is open"
        return _KeptView(self._opened.view)

    def saved_settings(self) -> SavedSettings:
        """The settings of the last run."""
        if self._saved is None:
            self._saved = load_saved_settings(CrawlReader(self.open_view(None)))
        return self._saved

    def make_parser(self) -> ChildParser:
        """A parser with the limits of the crawl's."""
        assert self._opened is not None, "it is open"
        config = self._opened.stored.config
        parser = ParserConfig(config.parse, config.canonical, config.agent.product)
        return ChildParser(parser, SystemClock())

    def _note(self, progress: ReadingProgress) -> None:
        self.progress = progress
        if self._is_ending.is_set():
            raise ReadingCancelled


class ReadingCancelled(Exception):
    """The state is not needed any more."""


class _KeptView:
    """The view of a cluster, which outlives a question."""

    def __init__(self, view: ClusterView) -> None:
        self._view, self.seen = view, view.seen

    def __repr__(self) -> str:
        return f"_KeptView({self._view!r})"

    def open_table(self, partition: int) -> SavedTable:
        return self._view.open_table(partition)

    def list_segments(self) -> list[StoredSegment]:
        return self._view.list_segments()

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        return self._view.read_rows(segment, having)

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        return self._view.read_record(segment, offset)

    def close(self) -> None:
        """The view is kept for the next question."""
