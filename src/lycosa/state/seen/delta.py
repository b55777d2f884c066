"""The hashes that are not in the file yet: exact, in memory, separated by commit.

A page asks for a hundred hashes, of which a dozen are new. A Python set is fastest for such small
numbers but costs some 100 bytes an entry, so it holds only the newest hashes. Older ones move into
one sorted array (8 bytes each, searched by bisection). In addition the hashes of each commit are
kept in order of arrival (8 bytes each), because ``save`` writes by commit.

All methods belong to the owner's loop. ``sealed`` is an immutable tuple that is replaced as a
whole, so another thread may read it at any time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lycosa.state.seen.seen_port import Hashes, Mask

# set entries before they move into the array: 0.2 MB a partition; moving costs 0.1 us each
_YOUNG = 2048
_EMPTY: Hashes = np.empty(0, dtype=np.uint64)


class Generation(NamedTuple):
    """The new hashes of one commit, unsorted."""

    commit: int
    hashes: Hashes


class Delta:
    """Hashes by commit, with lookup over all of them.

    It does not know the content of the file, so callers check the file first.
    """

    def __init__(self, last: int) -> None:
        """``last`` is the newest commit that the file holds."""
        self.sealed: tuple[Generation, ...] = ()
        self._last = last
        self._young: set[int] = set()
        self._old = _EMPTY  # sorted; may also hold some of young
        self._open: list[Hashes] = []
        self._count = 0

    @property
    def last(self) -> int:
        """The newest sealed commit. Everything sealed up to it is in ``sealed`` or in the file."""
        return self._last

    def __len__(self) -> int:
        return self._count

    @property
    def memory_bytes(self) -> int:
        """An estimate: 100 bytes for an entry of the set, 16 for any other hash."""
        return 100 * len(self._young) + 8 * len(self._old) + 8 * self._count

    def holds_hashes(self, hashes: Hashes) -> Mask:
        """True where a hash is in memory."""
        held = self._is_old(hashes)
        if self._young:
            young = self._young
            held |= np.fromiter(
                (value in young for value in hashes.tolist()), dtype=np.bool_, count=len(hashes)
            )
        return held

    def add_hashes(self, hashes: Hashes) -> Mask:
        """Add the hashes that are not held yet; True at the first occurrence of each such hash."""
        if len(hashes) > _YOUNG:
            return self._add_many(hashes)
        young, fresh = self._young, ~self._is_old(hashes)
        for place in np.flatnonzero(fresh).tolist():
            value = int(hashes[place])
            if value in young:
                fresh[place] = False
            else:
                young.add(value)
        self._note(hashes[fresh])
        if len(young) > _YOUNG:
            self._age()
        return fresh

    def seal(self, commit: int) -> None:
        """Close the open generation and assign it to ``commit``."""
        if self._open:
            # A generation under a number that is already saved would be taken for saved and lost.
            assert commit > self._last, f"commit {commit} does not follow {self._last}"
            self.sealed = (*self.sealed, Generation(commit, np.concatenate(self._open)))
            self._open = []
        self._last = max(self._last, commit)

    def forget(self, commit: int) -> None:
        """Drop the generations up to ``commit``, which the file now contains."""
        self.sealed = tuple(generation for generation in self.sealed if generation.commit > commit)
        left = [*(generation.hashes for generation in self.sealed), *self._open]
        self._young = set()
        self._old = np.sort(np.concatenate(left)) if left else _EMPTY
        self._count = len(self._old)

    def _add_many(self, hashes: Hashes) -> Mask:
        self._age()
        fresh = ~self._is_old(hashes)
        places = np.flatnonzero(fresh)
        found, first = np.unique(hashes[places], return_index=True)
        fresh[:] = False
        fresh[places[first]] = True
        self._note(found)
        self._old = merged_hashes(self._old, found)
        return fresh

    def _is_old(self, hashes: Hashes) -> Mask:
        return (
            is_in_sorted(self._old, hashes)
            if len(self._old)
            else np.zeros(len(hashes), dtype=np.bool_)
        )

    def _note(self, fresh: Hashes) -> None:
        if len(fresh):
            self._open.append(fresh)
            self._count += len(fresh)

    def _age(self) -> None:
        youngest = np.sort(np.fromiter(self._young, dtype=np.uint64, count=len(self._young)))
        self._old = merged_hashes(self._old, youngest)
        self._young = set()


def is_in_sorted(values: Hashes, hashes: Hashes) -> Mask:
    """True where a hash occurs in ``values``, a sorted array that is not empty."""
    places = np.searchsorted(values, hashes)
    places[places == len(values)] = 0
    found: Mask = values[places] == hashes
    return found


def merged_hashes(one: Hashes, other: Hashes) -> Hashes:
    """Merge two sorted arrays, keeping duplicates."""
    if not len(one) or not len(other):
        return one if len(one) else other
    # numpy's stable sort detects the two sorted runs and only merges them.
    return np.sort(np.concatenate((one, other)), kind="stable")
