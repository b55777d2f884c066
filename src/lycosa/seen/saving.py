"""What both forms of URL-seen do alike: the newest hashes in memory, told apart by commit, all
others in a file.

The owner's loop asks and remembers; ``save`` writes the file on another thread. It leaves its
result where the loop takes it at its next call, so nothing that the loop reads changes under it.
Hashes stay in memory until what the loop reads has them.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from lycosa.seen.delta import Delta
from lycosa.seen.files import restamp
from lycosa.seen.port import Hashes, Mask, SeenSnapshot

_LEAST_DELTA = 1 << 15
MOST_DELTA = 1 << 18
Known = TypeVar("Known")


class SavingSeenUrls(ABC, Generic[Known]):
    """See ``SeenUrls``. ``known`` is the file's content, which is never changed but replaced.

    A missing or damaged file shows as ``stamp`` -1 and is treated as ``nothing``. ``most_delta`` is
    how many hashes may be in memory before ``should_save`` asks for their being written.
    """

    def __init__(
        self, path: Path, known: Known, stamp: int, nothing: Known, most_delta: int
    ) -> None:
        self._path, self._nothing, self._most_delta = path, nothing, most_delta
        self._known = known
        self._delta = Delta(stamp)
        self._saved: tuple[Known, int] = (known, stamp)
        self._saving = threading.Lock()
        self._is_closed = False
        self._asked = self._unseen = 0

    @property
    def stamp(self) -> int:
        return self._saved[1]

    @property
    def should_save(self) -> bool:
        self._adopt()
        return len(self._delta) > min(
            max(_LEAST_DELTA, self._count(self._known) // 8), self._most_delta
        )

    def unseen(self, hashes: Hashes) -> Mask:
        self._adopt()
        fresh = self._lacks(hashes)
        places = np.flatnonzero(fresh)
        if len(places):
            fresh[places] = self._delta.add(hashes[places])
        self._asked += len(hashes)
        self._unseen += int(np.count_nonzero(fresh))
        return fresh

    def seal(self, commit: int) -> None:
        self._adopt()
        self._delta.seal(commit)

    def save(self, applied: int) -> None:
        with self._saving:
            known, stamp = self._saved
            # read before ``sealed``: a generation that joins in between waits for the next time
            upto = min(applied, self._delta.last)
            if upto <= stamp:
                return
            parts = [
                generation.hashes
                for generation in self._delta.sealed
                if stamp < generation.commit <= upto
            ]
            if parts or stamp < 0:
                known = self._write(known, parts, upto)
            else:
                restamp(self._path, upto)
            self._saved = (known, upto)

    def rebuild(self, hashes: Iterable[Hashes], stamp: int) -> None:
        assert not len(self._delta), "rebuild comes before anything is remembered"
        self._known = self._write_anew(hashes, stamp)
        self._delta = Delta(stamp)
        self._saved = (self._known, stamp)

    @abstractmethod
    def snapshot(self) -> SeenSnapshot: ...

    def close(self) -> None:
        with self._saving:
            self._is_closed = True
            self._known = self._nothing
            self._saved = (self._nothing, self.stamp)

    def _adopt(self) -> None:
        assert not self._is_closed, "used after close"
        known, stamp = self._saved
        if known is not self._known:
            self._known = known
            self._delta.forget(stamp)

    @abstractmethod
    def _lacks(self, hashes: Hashes) -> Mask:
        """True where the file has not got a hash."""

    @abstractmethod
    def _count(self, known: Known) -> int:
        """Hashes in it."""

    @abstractmethod
    def _write(self, known: Known, parts: list[Hashes], stamp: int) -> Known:
        """The file with the parts added, which have nothing in common with it. ``known`` itself
        stays as it is: the loop reads it.
        """

    @abstractmethod
    def _write_anew(self, hashes: Iterable[Hashes], stamp: int) -> Known:
        """The file made from nothing but these, which may repeat; a crash meanwhile leaves a
        file that is not used.
        """
