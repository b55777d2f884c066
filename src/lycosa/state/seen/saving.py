"""The common part of both kinds of URL-seen: new hashes in memory by commit, all others in a file.

The owner's loop looks up and adds hashes; ``save`` writes the file on another thread. ``save``
leaves its result where the loop picks it up at its next call, so no object that the loop reads
changes at the same time. Hashes stay in memory until the content that the loop reads contains them.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from lycosa.state.seen.delta import Delta
from lycosa.state.seen.hash_files import restamp
from lycosa.state.seen.seen_port import Hashes, Mask, SeenSnapshot

_MIN_DELTA = 1 << 15
MAX_DELTA = 1 << 18
_Known = TypeVar("_Known")


class SavingSeenUrls(ABC, Generic[_Known]):
    """A ``SeenUrls`` whose file is rewritten in a thread. ``known`` is the file's content.

    ``known`` is immutable and replaced as a whole. A missing or damaged file has ``stamp`` -1 and
    counts as ``nothing``. ``max_delta`` is the number of hashes in memory above which
    ``should_save`` is true.
    """

    def __init__(
        self, path: Path, known: _Known, stamp: int, nothing: _Known, max_delta: int
    ) -> None:
        self._path, self._nothing, self._max_delta = path, nothing, max_delta
        self._known = known
        self._delta = Delta(stamp)
        self._saved: tuple[_Known, int] = (known, stamp)
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
            max(_MIN_DELTA, self._count(self._known) // 8), self._max_delta
        )

    def unseen(self, hashes: Hashes) -> Mask:
        self._adopt()
        fresh = self._lacks(hashes)
        places = np.flatnonzero(fresh)
        if len(places):
            fresh[places] = self._delta.add_hashes(hashes[places])
        self._asked += len(hashes)
        self._unseen += int(np.count_nonzero(fresh))
        return fresh

    def seal(self, commit: int) -> None:
        self._adopt()
        self._delta.seal(commit)

    def save(self, applied: int) -> None:
        with self._saving:
            known, stamp = self._saved
            # read before ``sealed``: a generation that is added in between waits for the next save
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
        """True where a hash is not in the file."""

    @abstractmethod
    def _count(self, known: _Known) -> int:
        """The number of hashes in the file."""

    @abstractmethod
    def _write(self, known: _Known, parts: list[Hashes], stamp: int) -> _Known:
        """Write the file with ``parts`` added, none of whose hashes it contains.

        ``known`` must not change, because the loop reads it.
        """

    @abstractmethod
    def _write_anew(self, hashes: Iterable[Hashes], stamp: int) -> _Known:
        """Write the file from these hashes only, which may repeat.

        A crash meanwhile leaves a file that is not used.
        """
