"""Sorts lines by their bytes, as many as there are, in bounded memory."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

_RUN = 50_000  # lines, about 20 MB
_MAX_RUNS = 128  # open files


class SortedLines:
    """Lines with their line ends, sorted in runs that fit in memory; the runs are merged.

    Runs are unnamed files in ``folder``, whose free space is monitored where it is the crawl's: a
    killed process leaves nothing behind.
    """

    def __init__(self, folder: Path, run: int = _RUN) -> None:
        self._folder, self._run, self._lines = folder, run, list[bytes]()
        self._runs: list[IO[bytes]] = []

    def add_line(self, line: bytes) -> None:
        """Take a line in any order."""
        self._lines.append(line)
        if len(self._lines) >= self._run:
            self._lines.sort()
            self._runs.append(self._written(self._lines))
            self._lines = []
            if len(self._runs) >= _MAX_RUNS:
                merged = self._written(heapq.merge(*map(_rewound, self._runs)))
                self.close()
                self._runs = [merged]

    def merged(self) -> Iterator[bytes]:
        """All lines in order; once, at the end."""
        self._lines.sort()
        return heapq.merge(*map(_rewound, self._runs), self._lines)

    def close(self) -> None:
        """Delete the runs."""
        for run in self._runs:
            run.close()

    def _written(self, lines: Iterable[bytes]) -> IO[bytes]:
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (closed by ``close``)
        file.writelines(lines)
        return file


def _rewound(run: IO[bytes]) -> IO[bytes]:
    run.seek(0)
    return run
