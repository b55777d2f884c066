"""Parts that are missing in the middle of a segment that was never closed.

What follows a missing part is intact, but a location is an offset in the whole segment. So the
place of the missing part is filled: by one WARC record of the same number of bytes, which says what
it is, and by bytes that readers of a journal skip. The captures behind it keep their places, and
the segment can be closed. What was in the missing part is lost.

A gzip member can have any size: its content is not compressed, and padded. A frame of zstd that is
to be skipped can have any size of at least eight bytes.
"""

from __future__ import annotations

import re
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.sameness import create_or_read
from lycosa.state.store import journal, layout
from lycosa.state.store.journal_rows import SegmentHeader
from lycosa.state.store.stored_parts import StoredPart, parts_in

_BLOCK = 65_535  # most bytes of a block that is not compressed
_GZIP, _BLOCK_HEAD = 18, 5  # bytes around the blocks, and before each
_SKIPPED, _SKIPPED_HEAD = 0x184D2A50, 8
_RECORD_ID = re.compile(rb"WARC-Record-ID: <([^>]{1,200})>")
_DATE = "1970-01-01T00:00:00Z"


class LostPart(msgspec.Struct, frozen=True):
    """The place of one or more missing parts: offsets in the WARC and in the journal."""

    segment: str
    start: int
    end: int
    rows: int
    rows_end: int

    @property
    def name(self) -> str:
        """The last parts of the key under which the place is filled."""
        numbers = f"{self.start:012d}-{self.end - self.start:012d}-{self.rows:012d}"
        return f"{self.segment}/{numbers}"

    def has(self, segment: str, offset: int) -> bool:
        """Whether a location, which names the WARC, is in the place."""
        return layout.stem_of(segment) == self.segment and self.start <= offset < self.end


def find_lost_parts(store: ObjectStore, shard: int) -> list[LostPart]:
    """The missing parts of a shard's segments that are not sealed. Raises ``ObjectError``."""
    prefix = f"parts/{shard:05d}/"
    parts = parts_in(store.list(prefix), prefix)
    return lost_parts(
        {
            name: known
            for name, known in parts.items()
            if store.find(layout.file_name(layout.JOURNAL, name)) is None
        }
    )


def fill_lost_parts(store: ObjectStore, shard: int, lost: Sequence[LostPart]) -> None:
    """Fill the places of missing parts; may be repeated.

    A place that is too small stays, and its segment then ends there. Raises ``ObjectError``.
    """
    for each in lost:
        like = any_header(store) if each.start == 0 else None
        # The place is too small for a record with its header.
        with suppress(ValueError):
            key, content = f"parts/{shard:05d}/{each.name}", filling(each, like)
            # an earlier filling has the same size, and other record IDs
            if len(create_or_read(store, key, content)) != len(content):
                store.put(key, content)


def any_header(store: ObjectStore) -> SegmentHeader | None:
    """The header of any sealed segment; all segments of a crawl have nearly the same."""
    for each in store.list(f"{layout.JOURNAL}/"):
        # Any other segment will do.
        with suppress(journal.JournalError):
            return journal.header_in(store.get(each.key), each.key)
    return None


def lost_parts(parts: Mapping[str, Sequence[StoredPart]]) -> list[LostPart]:
    """The missing parts in front of others, by the parts of each segment."""
    found = []
    for segment, known in parts.items():
        end = rows_end = 0
        for part in known:
            if part.start > end:
                found.append(LostPart(segment, end, part.start, rows_end, part.rows))
            end, rows_end = part.end, part.rows_end
    return found


def filling(lost: LostPart, like: SegmentHeader | None = None) -> bytes:
    """The content that fills the place, WARC and journal.

    The first part of a segment has the header of the journal, which is then made ``like`` that of
    another segment of the crawl. Raises ``ValueError`` if the place is too small, or the header of
    another segment is needed and not given.
    """
    warc = warc_filling(lost)
    return warc + rows_filling(lost, warc, like)


def rows_filling(lost: LostPart, warc: bytes, like: SegmentHeader | None = None) -> bytes:
    """What fills the place in the journal, where the place in the WARC has the bytes ``warc``.

    Raises like ``filling``.
    """
    line = b""
    if lost.start == 0:
        if like is None:
            raise ValueError(f"{lost.segment} has lost its beginning")
        line = journal.encode_header(_header_for(lost.segment, warc, like))
    return _rows_filling(lost.rows_end - lost.rows, line)


def _header_for(segment: str, warc: bytes, like: SegmentHeader) -> SegmentHeader:
    """A header that names the warcinfo record with which a WARC begins."""
    member = zlib.decompressobj(wbits=31)
    try:
        text = member.decompress(warc)
    except zlib.error as error:
        raise ValueError(f"{segment} begins with no record: {error}") from error
    found = _RECORD_ID.search(text)
    return msgspec.structs.replace(
        like,
        segment=segment,
        warcinfo_id=found[1].decode() if found else "",
        warcinfo_length=len(warc) - len(member.unused_data),
        info="",
        # Which columns its items have is not known; `lycosa extract` makes them again.
        extractors=(),
    )


def warc_filling(lost: LostPart) -> bytes:
    """What fills the place in the WARC: one record. Raises ``ValueError`` if it has no room."""
    size = lost.end - lost.start
    blocks = -(-(size - _GZIP) // (_BLOCK + _BLOCK_HEAD))
    length = size - _GZIP - _BLOCK_HEAD * blocks
    content = _record(lost, length)
    packed = [b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"]
    for number in range(blocks):
        piece = content[number * _BLOCK : (number + 1) * _BLOCK]
        is_last = number == blocks - 1
        packed.append(struct.pack("<BHH", is_last, len(piece), len(piece) ^ 0xFFFF) + piece)
    packed.append(struct.pack("<II", zlib.crc32(content), len(content) & 0xFFFFFFFF))
    return b"".join(packed)


def _record(lost: LostPart, length: int) -> bytes:
    """A record of exactly ``length`` bytes. Raises ``ValueError`` if it has no room."""
    kind = "warcinfo" if lost.start == 0 else "metadata"
    note = f"lost: {lost.end - lost.start} bytes of this segment from byte {lost.start} on\r\n"
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{uuid.uuid4()}>\r\n"
        f"WARC-Date: {_DATE}\r\nContent-Type: application/warc-fields\r\n"
        "Content-Length: {:012d}\r\n\r\n"
    )
    block = length - len(head.format(0)) - 4
    if block < len(note):
        raise ValueError(f"{lost.segment}: {lost.end - lost.start} bytes have no room for a record")
    padded = note.encode() + b" " * (block - len(note))
    return head.format(block).encode() + padded + b"\r\n\r\n"


def _rows_filling(size: int, line: bytes) -> bytes:
    frame = journal.encode_journal_frame([line]) if line else b""
    left = size - len(frame)
    if left == 0:
        return frame
    if left < _SKIPPED_HEAD:
        raise ValueError(f"{size} bytes of a journal have no room for {len(frame)} and a head")
    return frame + struct.pack("<II", _SKIPPED, left - _SKIPPED_HEAD) + bytes(left - _SKIPPED_HEAD)
