"""Closing a segment: final names, then the files derived from its journal.

The order makes every crash harmless. The journal gets its final name first and the WARC second, so
a WARC with its final name always has a complete journal. Derived files appear by rename, complete
or not at all. They are built in one pass over the journal and from nothing else, so a missing file
can be built at any later time with the same result.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec

from lycosa.base.system.durable import FULL, named, publish, sync_folder
from lycosa.state.store import journal, layout
from lycosa.state.store.derived_files import (
    ITEMS,
    begin_file,
    folders_of_kinds,
    kinds_of,
    wanted_kinds,
)
from lycosa.state.store.journal_rows import SegmentHeader
from lycosa.state.store.removed_files import removed_files

_CERTAIN = wanted_kinds({})  # with any settings


class ClosedSegment(msgspec.Struct, frozen=True):
    """A segment to be closed: everything in it is committed."""

    name: str


def give_final_names(folder: Path, name: str) -> bool:
    """Remove ``.open`` from the names of a segment's journal and WARC, durably.

    Returns whether there was anything to do.
    """
    renamed = False
    for kind in (layout.JOURNAL, layout.WARC):
        closed = folder / layout.file_name(kind, name)
        opened = closed.with_name(closed.name + layout.OPEN)
        if opened.exists():
            opened.rename(closed)
            renamed = True
        elif not closed.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(closed))
        # Also when it was renamed before a crash: the new name may not have been on disk.
        sync_folder(closed.parent)
    return renamed


def missing_files(folder: Path, header: SegmentHeader) -> dict[str, Path]:
    """The derived files that a closed segment should have but does not, by kind.

    Files that were removed after their upload are not missing.
    """
    paths = {kind: folder / layout.file_name(kind, header.segment) for kind in kinds_of(header)}
    removed = removed_files(folder)
    return {
        kind: path
        for kind, path in paths.items()
        if not path.exists() and f"{kind}/{path.name}" not in removed
    }


class LackingFile(msgspec.Struct, frozen=True):
    """A derived file that a closed segment should have but does not: ``pages/NAME.parquet``.

    ``reason`` says why it cannot be built. It is empty when the next start builds the file.
    """

    file: str
    reason: str = ""


def lacking_files(folder: Path) -> list[LackingFile]:
    """The derived files that closed segments lack.

    If the journal cannot say which files its segment was to have, only those are listed that every
    segment has. Lists each folder once; reads the first line of the journals concerned. Which
    tables of items a segment has only its journal says.
    """
    there = {kind: layout.segment_names(folder, kind) for kind in folders_of_kinds(folder)}
    closed, found = list(layout.closed_segments(folder)), list[LackingFile]()
    # Also when all of them are lost: then the newest segment tells whether there were any.
    has_items = (folder / ITEMS).exists() or any(
        kind.startswith(f"{ITEMS}/") for name in closed[-1:] for kind in _wanted(folder, name)
    )
    for name in closed:
        if not has_items and all(name in names for names in there.values()):
            continue
        wanted, reason = wanted_or_certain(folder, name)
        found += [
            LackingFile(layout.file_name(kind, name), reason)
            for kind in wanted
            if name not in there.get(kind, ())
        ]
    return found


def _wanted(folder: Path, name: str) -> list[str]:
    return wanted_or_certain(folder, name)[0]


def wanted_or_certain(folder: Path, name: str) -> tuple[list[str], str]:
    """The kinds of derived files that a closed segment should have, as far as its journal tells.

    The second value says why the journal cannot be built from; empty if it can.
    """
    path = folder / layout.file_name(layout.JOURNAL, name)
    try:
        return kinds_of(journal.read_header(path)), ""
    except FileNotFoundError:
        return _CERTAIN, f"{path.relative_to(folder)} is missing, from which it would be built"
    except journal.JournalError as error:
        return _CERTAIN, str(error)


def build_derived(folder: Path, name: str) -> list[str]:
    """Build the missing derived files of a closed segment; return their names. Blocks.

    Memory is bounded for any size of the segment. It needs only the folder, so it may run in
    another process. Raises ``JournalError``, ``DiskFull`` or another ``OSError``; no incomplete
    file remains under a final name.
    """
    source = folder / layout.file_name(layout.JOURNAL, name)
    header = journal.read_header(source)
    missing = missing_files(folder, header)
    if not missing:
        return []
    for path in missing.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    builders = [begin_file(kind, layout.temporary(path), header) for kind, path in missing.items()]
    try:
        try:
            for row in journal.read_all_rows(source):
                for builder in builders:
                    builder.add_row(row)
        finally:
            for builder in builders:
                builder.close()
            _release_memory()
        for path in missing.values():
            publish(layout.temporary(path), path)
    except BaseException as error:
        # Also at a cancellation: half a file must not stay.
        for path in missing.values():
            layout.temporary(path).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in FULL:  # Parquet's do not name the file
            raise named(error, next(iter(missing.values()))) from error
        raise
    return [f"{kind}/{path.name}" for kind, path in missing.items()]


def build_again(folder: Path, kind: str, name: str, target: Path) -> None:
    """Build a derived file of a closed segment at another place, to compare it.

    Raises ``JournalError`` or ``OSError``.
    """
    source = folder / layout.file_name(layout.JOURNAL, name)
    builder = begin_file(kind, target, journal.read_header(source))
    try:
        for row in journal.read_all_rows(source):
            builder.add_row(row)
    finally:
        builder.close()
        _release_memory()


def _release_memory() -> None:
    """Release the memory of row groups (80 MB).

    Arrow would keep it until the next segment is closed.
    """
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
