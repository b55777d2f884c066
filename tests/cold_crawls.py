"""A stopped crawl folder of which every record is cold that may be, as one more commit makes it."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import msgspec

from lycosa.base.model.refetch_cell import counted_cell
from lycosa.base.model.url_state import UrlState
from lycosa.stages.frontier.cold_cells import cells_key
from lycosa.stages.frontier.visit_state import decode_visit
from lycosa.state.cold.cold_file import encode_file
from lycosa.state.cold.cold_rows import ColdFileRow, ColdRecord, cold_key, cold_name, object_key
from lycosa.state.commit import MARK_KEY, CommitLog, LastCommit, Mark, PartitionBatch
from lycosa.state.folder.names import last_commit_path, log_folder
from lycosa.state.kv.kv_port import SavedTable, Writes
from lycosa.state.kv.table_records import decode_url, encode_record, host_key
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.counters import COUNTERS_KEY, Counters, count, counters_of
from lycosa.state.shard.folder_view import FolderView

_WAITING = frozenset({UrlState.QUEUED, UrlState.PARKED})
_FILES = 2  # of each partition


def cold_copy(folder: Path, to: Path) -> int:
    """A copy of a stopped crawl with cold files; returns the number of cold records.

    The crawl gets a commit too, which writes what has become cold as it is in the files.
    """
    shutil.copytree(folder, to)
    make_cold(folder, is_cold=False)
    return make_cold(to)


def make_cold(folder: Path, is_cold: bool = True) -> int:
    """Make every record of a stopped crawl cold for which nothing waits; returns their number.

    The tables stay behind the log, as after a crash. With ``is_cold`` false all stays in them.
    """
    view, store = FolderView(folder), FolderStore(str(folder), folder)
    batches, before, found = [], {}, 0
    for number in view.seen.partitions:
        table = view.open_table(number)
        writes, records = cold_writes(table, number, store if is_cold else None)
        before[number], found = Mark.unpack(table.get(MARK_KEY)), found + records
        table.close()
        batches.append(PartitionBatch(number, writes))
    log = CommitLog(log_folder(folder), 0, last_commit=LastCommit(last_commit_path(folder, 0)))
    assert log.last is not None
    log.append(
        msgspec.structs.replace(
            log.last, sequence=log.next_sequence, batches=batches, before=before
        )
    )
    log.close()
    return found


def cold_writes(table: SavedTable, partition: int, store: ObjectStore | None) -> tuple[Writes, int]:
    """Write cold files, and return what their commit writes to the table, and their records.

    Without a ``store`` the records are written to the table as they would be in files.
    """
    records = [each for each in _records(table) if _may_go(table, each)]
    writes: dict[bytes, bytes | None] = {
        b"U" + each.url: None if store is not None else each.cold_value for each in records
    }
    for number in range(1, _FILES + 1) if store is not None else ():
        # Not one after the other, so that readers have to merge them.
        if part := records[number - 1 :: _FILES]:
            data, name = encode_file(part), cold_name(partition, number, 1, 1_000_000_000.0)
            assert store is not None
            store.put(object_key(name), data)
            row = ColdFileRow.of(name, data, part, 1_000_000_000, len(part))
            writes[cold_key(number)] = encode_record(row)
    states = Counter(int(each.record.state) for each in records) if store is not None else {}
    counters = msgspec.structs.replace(counters_of(table), cold=dict(states))
    _take_cells(table, records, counters, writes, is_cold=store is not None)
    return {**writes, COUNTERS_KEY: encode_record(counters)}, len(records)


def _take_cells(
    table: SavedTable,
    records: list[ColdRecord],
    counters: Counters,
    writes: dict[bytes, bytes | None],
    is_cold: bool,
) -> None:
    """Cold records that are due one day are counted by host; the others have no cell."""
    of_hosts: dict[bytes, dict[int, int]] = {}
    for each in records:
        history = each.record.history
        if history is not None and history.cell and each.record.due_at:
            count(of_hosts.setdefault(each.url[:8], {}), counted_cell(history.cell, history.policy))
        elif history is not None and history.cell:
            bare = msgspec.structs.replace(history, cell=0)
            key = host_key(each.url[:8])
            visit = decode_visit(writes.get(key) or table.get(key) or b"")
            visit.cells += counters.move_cell(history, bare)
            writes[key], writes[b"g" + each.url[:8]] = encode_record(visit), None
    if is_cold:
        writes.update({cells_key(host8): encode_record(of) for host8, of in of_hosts.items()})


def _records(table: SavedTable) -> list[ColdRecord]:
    found = []
    for key, value in table.scan(b"U", b"V"):
        host = table.get(host_key(key[1:9]))
        assert host is not None
        found.append(ColdRecord(key[1:], decode_visit(host).host, value, decode_url(value)))
    return found


def _may_go(table: SavedTable, each: ColdRecord) -> bool:
    if each.record.state in _WAITING:
        return False
    return not any(table.get(prefix + each.url) for prefix in (b"a", b"l", b"B", b"E", b"X"))
