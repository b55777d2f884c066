"""After ``kill -9`` the logs hold everything that was acknowledged, and what is left of the rest
harms nobody.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lycosa.base.system.durable import cut_back
from lycosa.state.attempts import crashed_attempts, read_attempts
from lycosa.state.commit import (
    Commit,
    CommitLog,
    Mark,
    PartitionBatch,
    all_logs,
    marked,
    merged_by_worker,
)
from lycosa.state.kv.memory_table import MemoryKeyValue, MemoryTables

# Commits in the order of the design: output file synced, then the log; says on stdout what it
# acknowledged.
COMMITTER = """
import os, sys
from pathlib import Path
from lycosa.state.commit import CommitLog, Commit, PartitionBatch
from lycosa.base.system.durable import cut_back
folder, size = Path(sys.argv[1]), int(sys.argv[2])
log = CommitLog(folder / "log", 0, file_bytes=20 * size)
output = folder / "out.bin"
cut_back(output, log.last.lengths["out.bin"] if log.last else 0)
fd = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while True:
    number = log.next_sequence
    os.write(fd, b"%08d" % number)
    os.fdatasync(fd)
    batch = PartitionBatch(number % 3, [(b"last", b"%d" % number), (b"fill", os.urandom(size))])
    log.append(Commit(term=1, sequence=number, wall=0.0, lengths={"out.bin": 8 * number}, batches=[batch]))
    log.drop_until(number - 40)
    print(number, flush=True)
"""

ATTEMPTER = """
import sys, time
from pathlib import Path
from lycosa.state.attempts import AttemptLog
from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
log = AttemptLog(Path(sys.argv[1]), 0, time.time(), time.monotonic())
number = 0
while True:
    number += 1
    attempt = log.begin_attempt("a.test", "192.0.2.1", f"http://a.test/{number}", FetchKind.PAGE, time.monotonic(), time.time())
    print("begun", number, flush=True)
    log.end_attempt(attempt, Reason.NONE, 200, 0.0, time.monotonic(), time.time(), 0.0)
    print("ended", number, flush=True)
"""


def run_and_kill(program: str, lines: int, *arguments: object) -> list[bytes]:
    """The whole lines that a program printed until it was killed, some time after the given
    number of them.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    for _ in range(lines):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().split(b"\n")[:-1]
    process.stdout.close()
    process.wait()
    return rest


@pytest.mark.parametrize(("seed", "size"), [(1, 100), (2, 30_000), (3, 3_000_000)])
def test_every_acknowledged_commit_survives_kills_and_the_output_is_cut_back_to_it(
    tmp_path: Path, seed: int, size: int
) -> None:
    chance, floor = random.Random(seed), 0
    for _ in range(3):
        told = run_and_kill(
            COMMITTER, chance.randrange(1, 60 if size < 1_000_000 else 15), tmp_path, size
        )
        log = CommitLog(tmp_path / "log", 0)
        last = log.last
        assert last is not None
        assert last.sequence >= max([floor, *map(int, told)])
        floor = last.sequence
        sequences = [record.sequence for record in log.records()]
        assert sequences == list(range(sequences[0], floor + 1))
        assert cut_back(tmp_path / "out.bin", last.lengths["out.bin"]) in (0, 8)
        assert (tmp_path / "out.bin").read_bytes()[-8:] == b"%08d" % floor
        log.close()


def test_attempts_that_began_before_a_kill_are_in_the_log(tmp_path: Path) -> None:
    for start in range(1, 4):
        told = run_and_kill(ATTEMPTER, 100 * start, tmp_path)
        begun = max((int(line.split()[1]) for line in told if line.startswith(b"begun")), default=0)
        ended = max((int(line.split()[1]) for line in told if line.startswith(b"ended")), default=0)
        last = [
            attempt for attempt in read_attempts(tmp_path) if attempt.run == newest_run(tmp_path)
        ]
        assert len(last) >= begun
        assert sum(attempt.is_finished for attempt in last) >= ended
        assert len(crashed_attempts(tmp_path, {})) <= 1


def newest_run(folder: Path) -> str:
    return max(folder.glob("attempts-*.log")).read_text().split("\t")[3]


@pytest.mark.parametrize("seed", range(5))
def test_tables_that_lost_their_unflushed_end_are_brought_up_to_the_log(
    tmp_path: Path, seed: int
) -> None:
    """Runs with one to three workers; every table loses a random part of what was applied since
    it was flushed.
    """
    chance = random.Random(seed)
    disks = [MemoryTables() for _ in range(4)]
    stores = [disk(tmp_path) for disk in disks]
    truth: list[dict[bytes, bytes]] = [{} for _ in stores]
    for term in range(1, 5):
        logs = {log.worker: log for log in all_logs(tmp_path)}
        apply_missing(list(logs.values()), stores)
        assert [dict(store.scan(b"k", b"l")) for store in stores] == truth
        workers = chance.randrange(1, 4)
        for worker in range(workers):
            logs.setdefault(worker, CommitLog(tmp_path, worker, file_bytes=300))
        for _ in range(chance.randrange(40)):
            log = logs[chance.randrange(workers)]
            commit(
                log,
                term,
                [number for number in range(4) if number % workers == log.worker],
                stores,
                truth,
                chance,
            )
            if chance.random() < 0.1:
                for store in stores:
                    store.flush()
                for log in logs.values():
                    log.drop_until(log.next_sequence - 1)
        # a power loss: what was written to a table since its flush is gone
        for number in chance.sample(range(4), 2):
            disks[number].crash()
            stores[number] = disks[number](tmp_path)
        for log in logs.values():
            log.close()


def commit(
    log: CommitLog,
    term: int,
    owned: list[int],
    stores: list[MemoryKeyValue],
    truth: list[dict[bytes, bytes]],
    chance: random.Random,
) -> None:
    batches = [
        PartitionBatch(
            number, [(b"k%d" % chance.randrange(5), b"%d.%d" % (term, log.next_sequence))]
        )
        for number in owned
    ]
    record = Commit(term=term, sequence=log.next_sequence, wall=0.0, batches=batches)
    log.append(record)
    for batch in batches:
        stores[batch.partition].write(marked(batch, record.mark, 0))
        truth[batch.partition].update(
            {key: value for key, value in batch.writes if value is not None}
        )


def apply_missing(logs: list[CommitLog], stores: list[MemoryKeyValue]) -> None:
    applied = [Mark.unpack(store.get(b"M:commit")) for store in stores]
    for _, found in merged_by_worker(logs):
        for batch in found.batches:
            if found.mark > applied[batch.partition]:
                stores[batch.partition].write(marked(batch, found.mark, 0))
