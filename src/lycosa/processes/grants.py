"""The supervisor's side of permits: ``--max-pages`` holds exactly over any number of workers and their deaths.

What workers have captured and what they may still capture never adds up to more than the limit. A worker that dies loses its
permits: what it had committed is counted again from disk, and the rest can be given to others.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.config.sections import LimitSection

_LARGEST = 64


class Grants:
    """``captures`` is what each worker's partitions hold at the start, by worker; see ``recount``."""

    def __init__(self, section: LimitSection, captures: Mapping[int, int], workers: int) -> None:
        self._limit = section.max_pages
        self._bytes = section.max_bytes
        self._workers = workers
        by_worker = dict.fromkeys(range(workers), 0)
        for partition, number in captures.items():
            by_worker[partition % workers] += number
        self._asking: list[int] = []
        self._may = by_worker  # captures that each worker has or may have

    def __repr__(self) -> str:
        return f"<Grants limit={self._limit} may={self._may}>"

    @property
    def left(self) -> int:
        """Captures that nobody has and nobody may make yet."""
        return max(self._limit - sum(self._may.values()), 0)

    def ask(self, worker: int, returned: int) -> None:
        """The worker wants permits; or gives back those that it cannot use."""
        self._may[worker] -= returned
        if not returned and worker not in self._asking:
            self._asking.append(worker)

    def give(self) -> list[tuple[int, int]]:
        """Who gets how many now; whoever gets none keeps waiting, first come first served."""
        given: list[tuple[int, int]] = []
        while self._asking and self.left:
            # Small shares towards the end, so that nobody sits on permits that another could use.
            share = min(_LARGEST, max(self.left // (2 * self._workers), 1))
            worker = self._asking.pop(0)
            self._may[worker] += share
            given.append((worker, share))
        return given

    def recount(self, worker: int, captures: Mapping[int, int]) -> None:
        """The worker died; its partitions hold so many captures."""
        self._may[worker] = sum(captures.values())
        self._asking = [each for each in self._asking if each != worker]

    def is_reached(self, captures: int, body_bytes: int) -> bool:
        """Whether all that the limits allow was captured."""
        return bool(self._limit and captures >= self._limit) or bool(self._bytes and body_bytes >= self._bytes)
