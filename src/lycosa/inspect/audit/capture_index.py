"""An index of all captures that fits in memory: two hashes of eight bytes for each.

One identifies the capture (URL and fetch number), to find a capture made twice. The other
identifies its place (with segment and offset). A URL's record names exactly that place, so a record
is checked by one binary search, without reading the WARC again. The probability that two of n
captures share a hash by chance is about n^2 / 2^65. That would hide one breach or report a false
one: with 100 million captures in one audit of 3,700.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from lycosa.inspect.audit.audit_report import Check
from lycosa.state.store.journal_rows import JournalRow

Keys = NDArray[np.uint64]


class CaptureIndex:
    """Add all captures with ``add_capture`` before any query."""

    def __init__(self) -> None:
        self._captures = array("Q")
        self._places = array("Q")
        self._sorted: Keys | None = None

    def __len__(self) -> int:
        return len(self._places)

    def add_capture(self, url: str, number: int, segment: str, offset: int) -> None:
        """Add a capture; ``segment`` as a ``Location`` names it."""
        self._captures.append(capture_key(url, number))
        self._places.append(place_key(url, number, segment, offset))

    def repeated_captures(self) -> set[int]:
        """``capture_key`` of captures that were added twice."""
        keys = (
            np.sort(np.frombuffer(self._captures, dtype=np.uint64))
            if self._captures
            else np.empty(0, np.uint64)
        )
        return set(keys[1:][keys[1:] == keys[:-1]].tolist())

    def lacking_captures(self, keys: list[int]) -> list[int]:
        """Those ``capture_key`` values that no capture has."""
        known = np.frombuffer(self._captures, dtype=np.uint64) if self._captures else ()
        asked = np.array(keys, dtype=np.uint64)
        return [keys[at] for at in np.flatnonzero(~np.isin(asked, known))]

    def lacking_places(self, keys: list[int]) -> list[int]:
        """Positions of those ``place_key`` values that no capture has."""
        if self._sorted is None:
            self._sorted = (
                np.sort(np.frombuffer(self._places, dtype=np.uint64))
                if self._places
                else np.empty(0, np.uint64)
            )
        if not len(self._sorted):
            return list(range(len(keys)))
        asked = np.array(keys, dtype=np.uint64)
        places = np.searchsorted(self._sorted, asked)
        places[places == len(self._sorted)] = 0
        lacking: list[int] = np.flatnonzero(self._sorted[places] != asked).tolist()
        return lacking


def once_check() -> Check:
    """The check that no capture is stored twice; ``find_repeated`` fills it in."""
    return Check("once", "captures: no URL has the same fetch twice")


def find_repeated(check: Check, index: CaptureIndex, rows: Iterable[JournalRow]) -> None:
    """Report captures that are stored twice.

    ``rows`` are all rows again; they are read only when there are such captures.
    """
    check.checked = len(index)
    if not (repeated := index.repeated_captures()):
        return
    for row in rows:
        if not row.kind.is_of_origin and capture_key(row.url, row.fetch_number) in repeated:
            check.add_breach(
                f"{row.url}, fetch {row.fetch_number}, is stored in {row.segment} at byte"
                f" {row.offset} and elsewhere"
            )


def capture_key(url: str, number: int) -> int:
    """The hash that identifies a capture."""
    return xxh3_64_intdigest(f"{number} {url}".encode())


def place_key(url: str, number: int, segment: str, offset: int) -> int:
    """The hash that identifies a capture and its place."""
    return xxh3_64_intdigest(f"{number} {segment} {offset} {url}".encode())
