"""A worker that died is recovered beside the others: what is theirs now is not touched, whatever
its log says of earlier runs.
"""

from __future__ import annotations

from pathlib import Path

from lycosa.base.config.sections import Config
from lycosa.state.commit import Commit, CommitLog, PartitionBatch
from lycosa.state.folder.names import log_folder, table_folder
from lycosa.state.kv.kv_port import KeyValue, TableLocked
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.worker.commit.recovery import recover_worker


def test_a_partition_that_the_worker_owned_in_an_earlier_run_is_left_to_its_owner(
    tmp_path: Path,
) -> None:
    opened: dict[str, MemoryKeyValue] = {}
    others = table_folder(tmp_path, 4).name  # of worker 1 among three, of worker 0 among two

    def open_table(folder: Path) -> KeyValue:
        if folder.name == others:
            raise TableLocked(folder)
        return opened.setdefault(folder.name, MemoryKeyValue())

    log_folder(tmp_path).mkdir(parents=True)
    log = CommitLog(log_folder(tmp_path), 1)
    for sequence, (term, partition) in enumerate([(1, 4), (1, 1), (2, 3)], log.next_sequence):
        batches = [PartitionBatch(partition, {b"x": b"%d" % term})]
        log.append(Commit(term=term, sequence=sequence, wall=1.0, batches=batches))
    log.close()
    recovered = recover_worker(tmp_path, Config(), open_table, 1, (1, 3, 5))
    assert recovered.replayed == 2
    assert opened.keys() == {table_folder(tmp_path, number).name for number in (1, 3)}
