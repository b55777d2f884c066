"""The crawl of one machine as a source: the commit logs, tables and journals of its folder.

The crawl may run, start and end meanwhile. Nothing is locked and no file is changed. A partition
may have belonged to another worker in an earlier run, so the commits of all logs are merged by
their marks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lycosa.feeds.log_tail import TailReader
from lycosa.feeds.projector_source import UNREAD, CaptureLines, JournalPosition
from lycosa.state.commit import Commit, Mark
from lycosa.state.commit.commit_log_files import log_files_of
from lycosa.state.folder.manifest import load_manifest
from lycosa.state.folder.names import crawl_sites, last_commit_path, log_folder
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.shard.item_source import FolderItems
from lycosa.state.shard.view import CrawlOrigin, CrawlView
from lycosa.state.store import layout
from lycosa.state.store.closed_lengths import closed_journals
from lycosa.state.store.journal import read_header, read_lines
from lycosa.state.store.journal_rows import SegmentHeader
from lycosa.state.store.removed_files import removed_files


class JournalEnd(NamedTuple):
    """A segment, its number among those of its worker, and the committed bytes of its journal.

    If the journal of a closed segment ``is_missing``, the name may be a pattern.
    """

    segment: str
    number: int
    bytes: int
    is_missing: bool = False


class FolderSource:
    """A crawl folder as a ``ProjectorSource``.

    Raises a ``ManifestError`` when the folder is not a crawl.
    """

    def __init__(self, folder: Path) -> None:
        manifest = load_manifest(folder)
        self._folder = folder
        self._tails: dict[int, TailReader] = {}
        self._lengths: dict[int, Mapping[str, int]] = {}
        self.origin = CrawlOrigin(
            str(folder),
            manifest,
            lambda: crawl_sites(folder, manifest.identity.suffixes),
            lambda: None,
            folder=folder,
            items=FolderItems(folder),
        )

    def view(self) -> CrawlView:
        """See ``ProjectorSource``. Raises like ``FolderView``."""
        return FolderView(self._folder)

    def commits(self) -> Iterator[Commit]:
        """See ``ProjectorSource``. One that is dropped before its end needs a ``rewind``."""
        self._find_logs()
        streams = [_marked(tail) for tail in self._tails.values()]
        for _, worker, commit in heapq.merge(*streams, key=lambda each: each[:2]):
            self._lengths[worker] = commit.lengths
            yield commit

    def rewind(self) -> None:
        self._tails.clear()
        self._lengths.clear()

    def captures(self, read: Mapping[str, JournalPosition]) -> Iterator[CaptureLines]:
        """See ``ProjectorSource``. Open segments are read up to the commits that were given.

        Captures of a deleted journal are left out, as docs/registry.md says.
        """
        finished = {name for name, position in read.items() if position.is_closed}
        for name in sorted(layout.segment_names(self._folder, layout.JOURNAL) - finished):
            is_closed = layout.is_closed(self._folder, layout.JOURNAL, name)
            start = read.get(name, UNREAD).bytes
            end = self._closed_bytes(name) if is_closed else self._committed_bytes(name)
            if end > start or is_closed:
                path = layout.existing(self._folder, layout.JOURNAL, name)
                yield CaptureLines(name, end, is_closed, read_lines(path, start, end))

    def _journals(self) -> tuple[set[str], set[str]]:
        """The segments that have a journal, and the closed ones whose journal is missing."""
        # First the closed ones: a journal gets its final name before anything says so.
        closed = closed_journals(self._folder) | set(layout.closed_segments(self._folder))
        names = layout.segment_names(self._folder, layout.JOURNAL)
        return names, closed - names

    def journal_path(self, segment: str) -> Path:
        """The file of a closed journal."""
        return self._folder / layout.file_name(layout.JOURNAL, segment)

    def journal_ends(self) -> dict[int, list[JournalEnd]]:
        """How far each segment's journal may be read, by worker, in the order of writing.

        A worker writes one segment after the other and numbers them from 1. So the list ends where
        rows may be added, and has a place for each journal that is missing before.
        """
        found: dict[int, list[JournalEnd]] = {}
        named = {layout.stem_of(name) for each in self._lengths.values() for name in each}
        names, missing = self._journals()
        order = sorted(
            (layout.segment_worker(each), layout.segment_number(each), each)
            for each in names | missing
        )
        newest = {worker: number for worker, number, name in order if name in named}
        ended = set[int]()
        for worker, number, name in order:
            if worker < 0 or worker in ended:
                continue
            ends = found.setdefault(worker, [])
            ends += _gap(worker, ends[-1].number if ends else 0, number)
            if name in missing:
                ends.append(JournalEnd(name, number, 0, is_missing=True))
                continue
            is_closed = layout.is_closed(self._folder, layout.JOURNAL, name)
            end = self._closed_bytes(name) if is_closed else self._committed_bytes(name)
            if not is_closed and (name not in named or number >= newest[worker]):
                ended.add(worker)
            ends.append(JournalEnd(name, number, end))
        return found

    def header_of(self, segment: str) -> SegmentHeader:
        """The header of a segment's journal. Raises ``JournalError`` or ``OSError``."""
        return read_header(layout.existing(self._folder, layout.JOURNAL, segment))

    def read_journal(self, segment: str, start: int, end: int) -> Iterator[bytes]:
        """The lines of a journal between two ends of frames.

        Raises ``JournalError`` or ``OSError``.
        """
        path = layout.existing(self._folder, layout.JOURNAL, segment)
        return read_lines(path, start, end)

    def _closed_bytes(self, segment: str) -> int:
        name = layout.file_name(layout.JOURNAL, segment)
        try:
            return (self._folder / name).stat().st_size
        except FileNotFoundError:
            # Uploaded and removed since: the list of removed files has its length.
            removed = removed_files(self._folder).get(name)
            return removed.bytes if removed else 0

    def _committed_bytes(self, segment: str) -> int:
        name = layout.file_name(layout.JOURNAL, segment) + layout.OPEN
        return max((each[name] for each in self._lengths.values() if name in each), default=0)

    def count_waiting(self) -> int:
        self._find_logs()
        return sum(tail.waiting for tail in self._tails.values())

    def _find_logs(self) -> None:
        logs = log_folder(self._folder)
        for worker in sorted(log_files_of(logs).keys() - self._tails.keys()):
            self._tails[worker] = TailReader(logs, worker, last_commit_path(self._folder, worker))


def _gap(worker: int, before: int, number: int) -> list[JournalEnd]:
    """The journals between two numbers of a worker, of which not even the names are known."""
    return [
        JournalEnd(f"*-w{worker:03d}-{missing:06d}-*", missing, 0, is_missing=True)
        for missing in range(before + 1, number)
    ]


def _marked(tail: TailReader) -> Iterator[tuple[Mark, int, Commit]]:
    """The commits with what orders them among those of other workers."""
    for commit in tail.commits():
        yield commit.mark, tail.worker, commit
