"""Puts the WARC and the journal of a segment together from its parts, also when parts are damaged
or missing.

A commit names the length of each open file and the CRC-32 of its bytes. If the parts give other
bytes, each of them is read again and examined: the members of its WARC and the frame of its journal
have their own checksums. What is missing in a segment is filled as after a rescue
(``lost_parts``), so all other captures keep their places and get into the indexes. A part that is
damaged and has its size is taken as it is, because most of its records can be read.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.store.journal_rows import SegmentHeader
from lycosa.state.store.lost_parts import LostPart, any_header, rows_filling, warc_filling
from lycosa.state.store.stored_parts import StoredPart

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_OTHER = "has other bytes than the commits"


class DamagedPart(msgspec.Struct, frozen=True):
    """A part that is not as it was committed. ``key`` is empty if it is not known which one."""

    key: str
    what: str


class DamageNote(msgspec.Struct, frozen=True):
    """The content of ``damaged/<shard>/<segment>.json``: what is wrong with a sealed segment, or
    with one that a rescue could not seal.

    ``parts`` are kept. ``underived`` says why there are no derived files; empty if there are.
    """

    segment: str
    parts: list[DamagedPart]
    underived: str = ""
    format: int = 1

    @property
    def text(self) -> str:
        """What is wrong, in one line."""
        found = [f"{each.key or 'one of its parts'} {each.what}" for each in self.parts]
        if self.underived:
            found.append(f"its derived files cannot be built ({self.underived})")
        more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
        return f"segment {self.segment} is damaged: {''.join(found[:1])}{more}"


class ComposedFiles(msgspec.Struct, frozen=True):
    """The files of a segment, and the CRC-32 that they must have (``None``: not known)."""

    warc: Path
    rows: Path
    warc_sum: int | None = None
    rows_sum: int | None = None


class _NotWhole(Exception):
    """A part has another size than it was committed with."""


def compose(
    store: ObjectStore,
    segment: str,
    parts: Sequence[StoredPart],
    target: ComposedFiles,
    may_lack: bool,
) -> list[DamagedPart]:
    """Write the files of a segment; returns what is damaged.

    ``parts`` are without a gap. Raises ``ObjectMissing`` for a missing one, unless the segment
    ``may_lack`` parts, another ``ObjectError``, or ``OSError``.
    """

    def whole(part: StoredPart) -> bytes:
        data = store.get(part.key)
        if len(data) != part.size:
            raise _NotWhole
        return data

    try:
        if _is_as_committed(target, *_write(parts, whole, target)):
            return []
    except _NotWhole:
        pass  # what can be read is put together below, and the damage is returned
    except ObjectMissing:
        if not may_lack:
            raise
    mending = _RepairedSegment(store, segment)
    _write(parts, mending.read, target)
    return mending.damaged or [DamagedPart("", _OTHER)]


def _write(
    parts: Sequence[StoredPart], read: Callable[[StoredPart], bytes], target: ComposedFiles
) -> tuple[int, int]:
    """Write what ``read`` returns of each part; returns the sums of both files."""
    warc_sum = rows_sum = 0
    with target.warc.open("wb") as warc, target.rows.open("wb") as rows:
        for part in parts:
            data = memoryview(read(part))
            ours, theirs = data[: part.warc_size], data[part.warc_size :]
            warc_sum, rows_sum = zlib.crc32(ours, warc_sum), zlib.crc32(theirs, rows_sum)
            warc.write(ours)
            rows.write(theirs)
    return warc_sum, rows_sum


def _is_as_committed(target: ComposedFiles, warc_sum: int, rows_sum: int) -> bool:
    return target.warc_sum in (None, warc_sum) and target.rows_sum in (None, rows_sum)


class _RepairedSegment:
    """Reads parts, notes what is wrong with them, and fills what cannot be used."""

    def __init__(self, store: ObjectStore, segment: str) -> None:
        self._store, self._segment = store, segment
        self.damaged: list[DamagedPart] = []

    def read(self, part: StoredPart) -> bytes:
        """Bytes for the place of a part, of its size. Raises ``ObjectError``."""
        try:
            data = self._store.get(part.key)
        except ObjectMissing:
            data, what = b"", "is missing"
        else:
            what = _what_is_wrong(part, data)
        if not what:
            return data
        self.damaged.append(DamagedPart(part.key, what))
        warc, rows = data[: part.warc_size], data[part.warc_size : part.size]
        lost = LostPart(self._segment, part.start, part.end, part.rows, part.rows_end)
        if len(warc) < part.warc_size:
            warc = _filled(part.warc_size, lambda: warc_filling(lost))
        if len(rows) < part.size - part.warc_size or not _is_frame(rows):
            like = self._like if part.start == 0 else None
            rows = _filled(part.size - part.warc_size, lambda: rows_filling(lost, warc, like))
        return warc + rows

    @cached_property
    def _like(self) -> SegmentHeader | None:
        return any_header(self._store)


def _filled(size: int, fill: Callable[[], bytes]) -> bytes:
    """A filling; zeros where it has no room, so that at least all other places stay."""
    try:
        return fill()
    except ValueError:
        return bytes(size)


def _what_is_wrong(part: StoredPart, data: bytes) -> str:
    """What is wrong with the content of a part; empty if nothing is found."""
    if len(data) != part.size:
        return f"has {len(data)} bytes, and {part.size} were committed"
    if not _are_members(data[: part.warc_size]):
        return "has a damaged record"
    return "" if _is_frame(data[part.warc_size :]) else "has damaged rows"


def _are_members(data: bytes) -> bool:
    """Whether these bytes are whole gzip members."""
    while data:
        member = zlib.decompressobj(wbits=31)
        try:
            member.decompress(data)
        except zlib.error:
            return False
        if not member.eof:
            return False
        data = member.unused_data
    return True


def _is_frame(data: bytes) -> bool:
    """Whether these bytes are whole zstd frames, or nothing."""
    try:
        if data:
            zstd.decompress(data)
    except zstd.ZstdError:
        return False
    return True
