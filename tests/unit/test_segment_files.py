"""Writing a commit's part of an output file beside other workers that do the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lycosa.state.store.segment_files import write_at

_ROUNDS, _WORKERS = 100, 4


def test_workers_that_make_the_first_file_of_a_folder_at_once_all_succeed(tmp_path: Path) -> None:
    together = threading.Barrier(_WORKERS)

    def write(number: int, folder: Path) -> None:
        together.wait(60)
        write_at(folder / f"w{number}", 0, iter([b"body"]))

    with ThreadPoolExecutor(_WORKERS) as threads:
        for turn in range(_ROUNDS):
            folder = tmp_path / str(turn) / "journal"
            list(threads.map(write, range(_WORKERS), [folder] * _WORKERS))
            assert sorted(path.read_bytes() for path in folder.iterdir()) == [b"body"] * _WORKERS
