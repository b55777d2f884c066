"""After ``kill -9`` a store holds the first n batches, whole, and every batch before the last
flush.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lycosa.state.kv.rocks import RocksKeyValue, rocks_opener

# Writes numbered batches over and over the same keys, and says on stdout when one was flushed.
# Small buffers, so that RocksDB flushes and compacts by itself as well.
WRITER = """
import sys
from pathlib import Path
from lycosa.state.kv.rocks import rocks_opener
store = rocks_opener(4 << 20, 1 << 20)(Path(sys.argv[1]))
number = int.from_bytes(store.get(b"M") or b"")
while True:
    number += 1
    stamp = number.to_bytes(8)
    store.write([(b"M", stamp)] + [(b"K%03d" % key, stamp + b"x" * 200) for key in range(300)] + [(b"N" + stamp, b"")])
    if number % 40 == 0:
        store.flush()
    print(number, number % 40 == 0, flush=True)
"""


@pytest.mark.parametrize("seed", range(4))
def test_kill_leaves_whole_batches_in_order(tmp_path: Path, seed: int) -> None:
    chance, folder = random.Random(seed), tmp_path / "kv"
    for _ in range(2):
        flushed, reached = _write_and_kill(folder, lines=chance.randrange(30, 150))
        store = RocksKeyValue(folder)
        stamp = store.get(b"M") or b""
        number = int.from_bytes(stamp)
        assert flushed <= number <= reached + 1
        assert {value[:8] for _, value in store.scan(b"K", b"L")} == {stamp}
        assert [int.from_bytes(key[1:]) for key, _ in store.scan(b"N", b"O")] == list(
            range(1, number + 1)
        )
        store.close()


def test_repeating_batches_from_a_log_after_a_kill_gives_the_same_store(tmp_path: Path) -> None:
    folder = tmp_path / "kv"
    _, reached = _write_and_kill(folder, lines=100)
    store = rocks_opener(4 << 20, 1 << 20)(folder)
    number = int.from_bytes(store.get(b"M") or b"")
    for missing in range(number + 1, reached + 1):
        store.write([(b"M", missing.to_bytes(8)), (b"N" + missing.to_bytes(8), b"")])
    assert sum(1 for _ in store.scan(b"N", b"O")) == max(number, reached)
    store.close()


def _write_and_kill(folder: Path, lines: int) -> tuple[int, int]:
    """The last batch known to be flushed, and the last one known to be written, before the
    process was killed.
    """
    flushed = reached = 0
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for _ in range(lines):
            number, was_flushed = writer.stdout.readline().split()
            reached = int(number)
            flushed = reached if was_flushed == "True" else flushed
        writer.send_signal(signal.SIGKILL)
        for line in writer.stdout:
            if line.endswith("\n"):
                number, was_flushed = line.split()
                reached = int(number)
                flushed = reached if was_flushed == "True" else flushed
    return flushed, reached
