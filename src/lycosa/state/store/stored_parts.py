"""Parts of an open segment in an object store: what a listing says, and their bytes as one file."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

from lycosa.state.objects.objects_port import StoredObject
from lycosa.state.store import layout


class StoredPart(msgspec.Struct, frozen=True):
    """A part by its key.

    ``start`` and ``end`` are offsets in the WARC, ``rows`` and ``rows_end`` in the journal.
    """

    key: str
    start: int
    end: int
    rows: int
    rows_end: int

    @property
    def warc_size(self) -> int:
        """Bytes of WARC members, with which the part begins."""
        return self.end - self.start

    @property
    def size(self) -> int:
        """All its bytes."""
        return self.warc_size + self.rows_end - self.rows


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


def committed_parts(
    prefix: str, parts: Sequence[StoredPart], length: int, rows_length: int
) -> list[StoredPart]:
    """What makes up the committed bytes of a segment, without a gap, whatever a listing lacks.

    ``prefix`` is the segment's. ``length`` and ``rows_length`` are the committed bytes of WARC and
    journal. A missing part gets a key as if it were there; several in a row get one. The end of a
    part in the journal is the beginning of the next one, because a listing gives its actual size.
    """
    known = [part for part in parts if part.start < length]
    found: list[StoredPart] = []
    behind = StoredPart("", length, length, rows_length, rows_length)
    for part, after in pairwise([*known, behind]):
        end, rows_end = (found[-1].end, found[-1].rows_end) if found else (0, 0)
        if part.start > end:
            found.append(_missing(prefix, end, part.start, rows_end, part.rows))
        is_followed = part.end == after.start
        rows_end = after.rows if is_followed else max(part.rows_end, part.rows)
        found.append(StoredPart(part.key, part.start, part.end, part.rows, rows_end))
    end, rows_end = (found[-1].end, found[-1].rows_end) if found else (0, 0)
    if end < length:
        found.append(_missing(prefix, end, length, rows_end, rows_length))
    return found


def _missing(prefix: str, start: int, end: int, rows: int, rows_end: int) -> StoredPart:
    key = f"{prefix}{start:012d}-{end - start:012d}-{rows:012d}"
    return StoredPart(key, start, end, rows, rows_end)


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
