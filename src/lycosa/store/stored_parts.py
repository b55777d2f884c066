"""Parts of an open segment in an object store: what a listing says, and their bytes as one file."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import msgspec

from lycosa.objects.port import StoredObject
from lycosa.store import layout


class StoredPart(msgspec.Struct, frozen=True):
    """A part by its key.

    ``start`` and ``end`` are offsets in the WARC, ``rows`` and ``rows_end`` in the journal.
    """

    key: str
    start: int
    end: int
    rows: int
    rows_end: int


def parts_in(listing: Iterable[StoredObject], prefix: str) -> dict[str, list[StoredPart]]:
    """The parts of each segment, in the order of their offsets; ``prefix`` is the shard's."""
    found: dict[str, list[StoredPart]] = {}
    for each in listing:
        name, _, key = each.key.removeprefix(prefix).partition("/")
        start, size, rows = (int(number) for number in key.split("-"))
        part = StoredPart(each.key, start, start + size, rows, rows + each.size - size)
        found.setdefault(name, []).append(part)
    for parts in found.values():
        parts.sort(key=lambda part: part.start)
    return found


def contiguous_parts(parts: list[StoredPart]) -> list[StoredPart]:
    """The parts from the beginning on, as far as they are contiguous."""
    found: list[StoredPart] = []
    for part in parts:
        end, rows_end = (found[-1].end, found[-1].rows_end) if found else (0, 0)
        if (part.start, part.rows) != (end, rows_end):
            break
        found.append(part)
    return found


def end_of_parts(parts: list[StoredPart], kind: str, committed: int) -> int:
    """The end of the parts that begin below a length."""
    ends = [
        part.end if kind == layout.WARC else part.rows_end
        for part in parts
        if (part.start if kind == layout.WARC else part.rows) < committed
    ]
    return max(ends, default=0)


class PieceFile(io.RawIOBase):
    """Pieces of bytes as one file."""

    def __init__(self, pieces_of: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces, self._left = pieces_of, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._left:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._left = piece
        data, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)
