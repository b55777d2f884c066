"""Returns the crawl folder to its last commit: the first step of every start.

The commit log has the length of each open file. Bytes beyond it were never committed and are cut
off. A file that is shorter has lost committed bytes, and stops the start before anything is
changed. Every step can be repeated: after a crash inside ``recover`` the next one completes it.

    ====================================================  ====================================
    a crash after                                         finds, and does
    ====================================================  ====================================
    creating an ``.open`` file, before its first commit   a file that is not in ``lengths``:
                                                          removed, its URLs are still queued
    writing WARC or journal, before the commit            files longer than committed: cut
    the commit, before the segment is sealed              an open segment: continued by its
                                                          worker
    renaming the journal, before the WARC                 one final and one open name: the WARC
                                                          is renamed
    renaming both, before the next commit                 ``lengths`` names the open form: the
                                                          final one has exactly that length
    renaming both, before the derived files               a segment without them: they are built
    ====================================================  ====================================
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from lycosa.base.system.durable import cut_back, sync_folder
from lycosa.state.store import journal, layout
from lycosa.state.store.closed_lengths import check_closed_lengths, complete_closed_lengths
from lycosa.state.store.closing import build_derived, give_final_names, wanted_or_certain
from lycosa.state.store.damage import StoreDamaged
from lycosa.state.store.derived_files import folders_of_kinds
from lycosa.state.store.removed_files import removed_files


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What ``recover`` did; all names are relative to the crawl folder.

    ``cut`` maps files to the number of bytes cut off. ``unbuildable`` maps missing derived files
    that cannot be built to the reason (their journal is missing or damaged). All captures are in
    the WARC, so the crawl can continue. ``damaged`` are segments in an object store that were
    damaged when they were sealed.
    """

    cut: dict[str, int] = {}
    removed: list[str] = []
    closed: list[str] = []
    built: list[str] = []
    unbuildable: dict[str, str] = {}
    damaged: list[str] = []

    @property
    def is_clean(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.cut or self.removed or self.closed or self.built or self.unbuildable)


def recover(
    folder: Path, lengths: Mapping[str, int], workers: int | None = None, only: int | None = None
) -> Recovery:
    """Cut, remove, close and rebuild files, before any worker starts.

    ``lengths`` are those of the last commits of *all* workers. With ``workers``, open segments of
    workers beyond that number are closed, because no worker would continue them. With ``only``,
    just that worker's segments are handled and ``lengths`` are its own, because the others may be
    running. Raises ``StoreDamaged`` before anything is changed, when a file is missing or shorter
    than its committed length, or a closed file has another length.
    """
    check_lengths(folder, lengths, only)
    report = Recovery()
    for name, committed in sorted(lengths.items()):
        if (folder / name).exists() and (dropped := cut_back(folder / name, committed)):
            report.cut[name] = dropped
    _remove_uncommitted(folder, lengths, report, only)
    _finish_closings(folder, workers, report, only)
    _remove_temporary(folder, report, only)
    complete_closed_lengths(folder, only)
    built, unbuildable = rebuild(folder, only)
    report.built.extend(built)
    report.unbuildable.update(unbuildable)
    return report


def rebuild(folder: Path, only: int | None = None) -> tuple[list[str], dict[str, str]]:
    """Build all missing derived files of closed segments, of one worker or of all.

    Returns the names of the files built, and of those that cannot be built with the reason.
    """
    built: list[str] = []
    unbuildable: dict[str, str] = {}
    for name in layout.closed_segments(folder):
        if not _is_meant(name, only):
            continue
        try:
            built += build_derived(folder, name)
        except (FileNotFoundError, journal.JournalError, ValueError, OverflowError) as error:
            # A value that a table cannot represent is our error, but no reason to stop the crawl.
            wanted, reason = wanted_or_certain(folder, name)
            files = [layout.file_name(kind, name) for kind in wanted]
            unbuildable.update(
                (file, reason or str(error)) for file in files if not (folder / file).exists()
            )
    return built, unbuildable


def check_lengths(folder: Path, lengths: Mapping[str, int], only: int | None = None) -> None:
    """Compare the files with their committed lengths; change nothing.

    Parameters are those of ``recover``. Raises ``StoreDamaged``.
    """
    _check_open(folder, lengths)
    check_closed_lengths(folder, only)


def _check_open(folder: Path, lengths: Mapping[str, int]) -> None:
    for name, committed in lengths.items():
        opened = folder / name
        if opened.exists():
            if (length := opened.stat().st_size) < committed:
                raise StoreDamaged(opened, length, committed)
            continue
        closed = opened.with_name(opened.name.removesuffix(layout.OPEN))
        if closed.exists():
            # Closing changes no byte, so a longer file is damaged too.
            if (length := closed.stat().st_size) != committed:
                raise StoreDamaged(closed, length, committed)
        elif (removed := removed_files(folder).get(name.removesuffix(layout.OPEN))) is not None:
            if removed.bytes != committed:
                raise StoreDamaged(closed, removed.bytes, committed)
        elif committed:
            raise StoreDamaged(opened, None, committed)


def _is_meant(name: str, only: int | None) -> bool:
    """Whether a segment is to be handled."""
    return only is None or layout.segment_worker(name) == only


def _remove_uncommitted(
    folder: Path, lengths: Mapping[str, int], report: Recovery, only: int | None
) -> None:
    for path in layout.open_files(folder):
        if not _is_meant(layout.stem_of(path), only):
            continue
        name = f"{path.parent.name}/{path.name}"
        # A journal with its final name proves that the segment was committed and closing.
        if name in lengths or layout.is_closed(folder, layout.JOURNAL, layout.stem_of(path)):
            continue
        path.unlink()
        sync_folder(path.parent)
        report.removed.append(name)


def _finish_closings(folder: Path, workers: int | None, report: Recovery, only: int | None) -> None:
    for name in sorted({layout.stem_of(path) for path in layout.open_files(folder)}):
        if not _is_meant(name, only):
            continue
        is_closing = any(
            (folder / layout.file_name(kind, name)).exists()
            for kind in (layout.WARC, layout.JOURNAL)
        )
        is_nobodys = workers is not None and layout.segment_worker(name) >= workers
        if is_closing or is_nobodys:
            give_final_names(folder, name)
            report.closed.append(layout.file_name(layout.WARC, name))


def _remove_temporary(folder: Path, report: Recovery, only: int | None) -> None:
    for kind in folders_of_kinds(folder):
        for path in sorted((folder / kind).glob(".*.tmp")):
            if not _is_meant(layout.stem_of(path), only):
                continue
            path.unlink()
            report.removed.append(f"{kind}/{path.name}")
