"""Sorts lines by their bytes, as many as there are, in bounded memory."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_RUN = 50_000  # lines, about 20 MB


class SortedLines:
    """Lines with their line ends, sorted in runs that fit in memory; the runs are merged.

    Runs are unnamed files in ``folder``, whose free space is monitored where it is the crawl's: a
    killed process leaves nothing behind.
    """

    def __init__(self, folder: Path, run: int = _RUN) -> None:
        self._folder, self._run, self._lines = folder, run, list[bytes]()
        self._runs: list[IO[bytes]] = []

    def add(self, line: bytes) -> None:
        """Take a line in any order."""
        self._lines.append(line)
        if len(self._lines) >= self._run:
            self._lines.sort()
            file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (closed by ``close``)
            self._runs.append(file)
            file.writelines(self._lines)
            self._lines = []

    def take_all(self) -> Iterator[bytes]:
        """All lines in order; once."""
        self._lines.sort()
        for run in self._runs:
            run.seek(0)
        return heapq.merge(*self._runs, self._lines)

    def close(self) -> None:
        """Delete the runs."""
        for run in self._runs:
            run.close()
