"""Closing a segment: final names, then the files derived from its journal.

The order makes every crash harmless. The journal gets its final name first and the WARC second, so
a WARC with its final name always has a whole journal. Derived files appear by rename, whole or not
at all, and are built in one pass over the journal from nothing else, so what is missing can be
built at any later time and comes out the same.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec

from lycosa.store import journal, layout
from lycosa.store.derived import DERIVED_KINDS, wanted_kinds
from lycosa.store.removed import removed_files
from lycosa.store.rows import SegmentHeader
from lycosa.system.durable import FULL, named, publish, sync_folder

_CERTAIN = wanted_kinds({})  # whatever the settings were


class ClosedSegment(msgspec.Struct, frozen=True):
    """A segment that is to be closed: everything in it is committed."""

    name: str


def give_final_names(folder: Path, name: str) -> bool:
    """Takes ``.open`` off a segment's journal and WARC, durably. Gives whether there was
    anything to do.
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
        # Also when it was renamed before: that crash may have been before its name was on disk.
        sync_folder(closed.parent)
    return renamed


def missing_files(folder: Path, header: SegmentHeader) -> dict[str, Path]:
    """The derived files that a closed segment should have and has not, by kind; those that were
    removed after their upload are not missing.
    """
    paths = {
        kind: folder / layout.file_name(kind, header.segment)
        for kind in wanted_kinds(header.options)
    }
    removed = removed_files(folder)
    return {
        kind: path
        for kind, path in paths.items()
        if not path.exists() and f"{kind}/{path.name}" not in removed
    }


class LackingFile(msgspec.Struct, frozen=True):
    """A derived file that a closed segment should have and has not: ``pages/NAME.parquet``.
    ``reason`` says why it cannot be built, and is empty when the next start builds it.
    """

    file: str
    reason: str = ""


def lacking_files(folder: Path) -> list[LackingFile]:
    """The derived files that closed segments lack. Where the journal cannot say which files its
    segment was to have, those are told that every segment has. Lists each folder once; reads the
    first line of the journals concerned.
    """
    there = {kind: layout.segment_names(folder, kind) for kind in DERIVED_KINDS}
    found = []
    for name in layout.closed_segments(folder):
        if all(name in names for names in there.values()):
            continue
        wanted, reason = wanted_or_certain(folder, name)
        found += [
            LackingFile(layout.file_name(kind, name), reason)
            for kind in wanted
            if name not in there[kind]
        ]
    return found


def wanted_or_certain(folder: Path, name: str) -> tuple[list[str], str]:
    """The kinds of derived files that a closed segment should have, as far as its journal tells;
    and why it cannot be built from, or nothing.
    """
    path = folder / layout.file_name(layout.JOURNAL, name)
    try:
        return wanted_kinds(journal.read_header(path).options), ""
    except FileNotFoundError:
        return _CERTAIN, f"{path.relative_to(folder)} is gone, from which it would be built"
    except journal.JournalError as error:
        return _CERTAIN, str(error)


def build_derived(folder: Path, name: str) -> list[str]:
    """Builds the missing derived files of a closed segment; gives their names. Blocks; memory is
    bounded whatever the segment holds.

    Needs nothing but the folder, so it may run in another process. Raises ``JournalError``,
    ``DiskFull`` or another ``OSError``; nothing half-built remains under a final name.
    """
    source = folder / layout.file_name(layout.JOURNAL, name)
    header = journal.read_header(source)
    missing = missing_files(folder, header)
    if not missing:
        return []
    for path in missing.values():
        path.parent.mkdir(exist_ok=True)
    builders = [
        DERIVED_KINDS[kind].begin(layout.temporary(path), header) for kind, path in missing.items()
    ]
    try:
        try:
            for row in journal.read_rows(source):
                for builder in builders:
                    builder.add_row(row)
        finally:
            for builder in builders:
                builder.close()
            _release_memory()
        for path in missing.values():
            publish(layout.temporary(path), path)
    except BaseException as error:
        for path in missing.values():
            layout.temporary(path).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in FULL:  # Parquet's do not tell the file
            raise named(error, next(iter(missing.values()))) from error
        raise
    return [f"{path.parent.name}/{path.name}" for path in missing.values()]


def _release_memory() -> None:
    """Arrow keeps what row groups took, 80 MB of it, until the next segment is closed."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
