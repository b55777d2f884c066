"""The C library's memory is given back, on whatever thread."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from lycosa.base.system.process_memory import give_back


def _own_kb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_free_memory_of_other_threads_goes_back_to_the_system() -> None:
    kept: list[bytes] = []

    def use_much() -> None:
        pieces = [bytes(100_000) for _ in range(1000)]
        kept.append(pieces.pop())  # the last one keeps the heap from shrinking by itself

    thread = threading.Thread(target=use_much)
    thread.start()
    thread.join()
    give_back()
    before = _own_kb()
    give_back()
    assert _own_kb() <= before + 1000
