"""Gathers the state of a crawl folder, without changing anything in it.

Table files that never change are linked, all others copied. Then the commits that the tables lack
are applied from the logs, as a start would. Bytes that no commit names are left behind.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

from lycosa.moves.reshard.gathered import GatheredState, prepare_gathering
from lycosa.state.commit import MARK_KEY, Mark, marked, merged_by_worker, saved_logs
from lycosa.state.folder.manifest import load_manifest
from lycosa.state.folder.names import (
    attempts_folder,
    crawl_sites,
    log_folder,
    suffix_list,
    table_folder,
)
from lycosa.state.folder.saved_config import settings_of
from lycosa.state.folder.start_check import check_crawl
from lycosa.state.kv.kv_port import KeyValue, Opener
from lycosa.state.kv.read_only import table_reader
from lycosa.state.shard.object_snapshots import CONSTANT_SUFFIX

_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP})


def gather_folder(
    folder: Path, work: Path, open_table: Opener, told: Callable[[int], None]
) -> GatheredState:
    """Gather a crawl folder, whose lock the caller holds, in the folder ``work``. Blocks.

    ``told`` is called with the number of partitions that are there. Raises ``ManifestError``,
    ``CommittedDataMissing``, ``TableLocked``, ``LogDamaged``, ``StoreDamaged`` or ``OSError``.
    """
    manifest, config = load_manifest(folder), settings_of(folder)
    check_crawl(folder, manifest, config.seen.urls, table_reader())
    crawl_sites(folder, manifest.identity.suffixes)  # whether its list is the crawl's own
    prepare_gathering(work, suffix_list(folder).read_bytes())
    tables: dict[int, KeyValue] = {}
    try:
        for number in range(manifest.identity.partitions):
            target = table_folder(work, number)
            if table_folder(folder, number).exists():
                copy_files(table_folder(folder, number), target)
            tables[number] = open_table(target)
            told(number + 1)
        wall, time, sequence = _apply_logs(folder, tables)
        newest = max(Mark.unpack(table.get(MARK_KEY)) for table in tables.values())
    finally:
        for table in tables.values():
            table.flush()
            table.close()
    _copy_attempts(folder, work)
    return GatheredState(
        work,
        manifest,
        config,
        Mark(newest.term, sequence),
        manifest.term,
        wall,
        time,
    )


def copy_files(source: Path, target: Path) -> None:
    """Copy the files of a closed table; those that never change are linked. Raises ``OSError``."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.suffix == CONSTANT_SUFFIX:
            try:
                (target / path.name).hardlink_to(path)
                continue
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
        if path.name != "LOCK":
            shutil.copyfile(path, target / path.name)


def _apply_logs(folder: Path, tables: dict[int, KeyValue]) -> tuple[float, float, int]:
    """Apply the commits that tables lack.

    Returns wall time and crawl time of the last commit, and the greatest sequence.
    """
    marks = {number: Mark.unpack(table.get(MARK_KEY)) for number, table in tables.items()}
    wall = time = 0.0
    sequence = max((mark.sequence for mark in marks.values()), default=0)
    for worker, commit in merged_by_worker(saved_logs(log_folder(folder)).values()):
        if (commit.time or commit.wall) >= time:
            wall, time = commit.wall, commit.time or commit.wall
        sequence = max(sequence, commit.sequence)
        for batch in commit.batches:
            if commit.mark > marks[batch.partition]:
                tables[batch.partition].write(marked(batch, commit.mark, worker))
                marks[batch.partition] = commit.mark
    return wall, time, sequence


def _copy_attempts(folder: Path, work: Path) -> None:
    """Copy the attempt logs, and what tells the URLs that were in flight at a crash."""
    for pattern in ("attempts-w*", "settling-w*", "crashes.json"):
        for path in attempts_folder(folder).glob(pattern):
            shutil.copyfile(path, attempts_folder(work) / path.name)
