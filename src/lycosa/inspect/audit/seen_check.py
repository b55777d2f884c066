"""URL-seen against the records, both ways.

A URL in URL-seen without a record would never be crawled; a record missing from it would be crawled
twice. The file may be behind the table when a worker was killed: the next start completes it from
the commit log, or rebuilds it when the log does not reach back. URLs that it lacks then must be in
the log. Only the sorted file can be read back; a Bloom filter cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import TableView
from lycosa.state.commit import read_logs
from lycosa.state.folder.names import log_folder, seen_path, stamp_of
from lycosa.state.kv.kv_port import pairs_of
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.seen.delta import is_in_sorted
from lycosa.state.seen.hash_files import HashFileDamaged, map_hash_file
from lycosa.state.seen.seen_port import Hashes, hashes_of
from lycosa.state.seen.urls_sorted import MAGIC, VERSION

_BATCH = 50_000


def check_seen(check: Check, folder: Path, view: TableView) -> None:
    """Check one partition's file. The crawl must not be running."""
    path = seen_path(folder, view.number)
    try:
        header, payload = map_hash_file(path, MAGIC, VERSION)
    except FileNotFoundError:
        # The file saves time at the start and is no part of the state, so its absence is no fault.
        check.add_note(
            "a partition without a sorted file (a Bloom filter, or never saved) is rebuilt from"
            " the table at the next start"
        )
        return
    except HashFileDamaged as error:
        # Not a breach for the same reason: nothing is lost with this file.
        check.add_note(f"{error}; the next start rebuilds it from the table")
        return
    known: Hashes = payload[: 8 * header.count].view("<u8")
    # The opposite is dangerous: URLs that only this file knows would never be crawled.
    if header.stamp > stamp_of(view.mark):
        check.expect(
            False, f"partition {view.number}: {path.name} has commits that its table lacks"
        )
        return
    late = _logged_since(folder, view.number, header.stamp)
    if header.stamp < stamp_of(view.mark) and late is None:
        check.add_note(
            f"{path.name} is behind its table and the log does not reach back; the next start"
            " rebuilds it"
        )
        return
    _compare(check, view, known, late if late is not None else _NONE)


_NONE: Hashes = np.empty(0, dtype=np.uint64)


def _compare(check: Check, view: TableView, known: Hashes, late: Hashes) -> None:
    found = 0
    for hashes in _hashes(view):
        check.checked += len(hashes)
        in_file = (
            is_in_sorted(known, hashes) if len(known) else np.zeros(len(hashes), dtype=np.bool_)
        )
        found += int(in_file.sum())
        missing = hashes[~in_file]
        for lost in np.setdiff1d(missing, late).tolist():
            check.add_breach(
                f"partition {view.number}: URL-seen lacks {lost:016x}, which has a record"
            )
    lost_for_ever = len(known) - found
    check.expect(
        lost_for_ever <= 0,
        f"partition {view.number}: URL-seen has {lost_for_ever} URLs without a record, which would"
        " never be crawled",
    )


def _hashes(view: TableView) -> Iterator[Hashes]:
    batch: list[bytes] = []
    for key, _ in view.scan(b"U", prefix_end(b"U")):
        batch.append(key[9:])
        if len(batch) == _BATCH:
            yield hashes_of(batch)
            batch = []
    if batch:
        yield hashes_of(batch)


def _logged_since(folder: Path, partition: int, stamp: int) -> Hashes | None:
    """URLs that commits after ``stamp`` wrote; ``None`` when the logs do not reach back to it."""
    url8s: list[bytes] = []
    reach = 0
    first: dict[int, int] = {}
    for worker, record in read_logs(log_folder(folder)):
        first.setdefault(worker, stamp_of(record.mark))
        for batch in record.batches:
            if batch.partition == partition and stamp_of(record.mark) > stamp:
                url8s.extend(
                    key[9:]
                    for key, value in pairs_of(batch.writes)
                    if key[:1] == b"U" and value is not None
                )
    reach = max(first.values(), default=0)
    if stamp + 1 < reach:
        return None
    return np.unique(hashes_of(url8s)) if url8s else _NONE
