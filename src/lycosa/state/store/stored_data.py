"""Reads stored data for explain, export and audit: a record by its location, the rows of a journal.

This reads only our own files, where every record is one gzip member at a known offset. For other
WARC files use a WARC library.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.base.model.capture import Location
from lycosa.state.store import journal, layout
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.warc import block_digest

_GZIP = 16 + zlib.MAX_WBITS
_CHUNK = 256 * 1024
_PIECE = 16 * 1024  # where every record is read: most are shorter


class RecordError(Exception):
    """There is no record at the given location."""


class RecordReader(Protocol):
    """The part of ``Segments`` and of views that reads records."""

    def read_record(self, segment: str, offset: int) -> StoredRecord: ...


class StoredRecord(msgspec.Struct, frozen=True):
    """A record.

    It has its WARC fields (first value of each name), the HTTP header block, the body after it, and
    the number of bytes in the WARC file. For a record without an HTTP message ``header_block`` is
    empty and ``body`` is the whole block.
    """

    fields: dict[str, str]
    header_block: bytes
    body: bytes
    length: int = 0


def read_record(folder: Path, location: Location) -> StoredRecord:
    """The record at a location, from a closed or open segment.

    Raises ``RecordError``, or ``FileNotFoundError`` when the segment is missing.
    """
    path = folder / layout.file_name(layout.WARC, layout.stem_of(location.segment))
    with layout.open_segment_file(path) as file:
        file.seek(location.offset)
        packed = file.read(location.length)
    return record_in(packed, location.length, f"{path}, byte {location.offset}")


def record_in(packed: bytes, length: int, place: str) -> StoredRecord:
    """The record whose ``length`` bytes were read; ``place`` is for the error.

    Raises ``RecordError``.
    """
    gzip = zlib.decompressobj(_GZIP)
    try:
        data = gzip.decompress(packed)
    except zlib.error as error:
        raise RecordError(f"{place}: {error}") from error
    if not gzip.eof or not data.startswith(b"WARC/"):
        raise RecordError(f"{place}: no record of {length} bytes there")
    return _record(data, len(packed) - len(gzip.unused_data))


def read_record_at(folder: Path, segment: str, offset: int) -> StoredRecord:
    """The record at an offset, when its length is not known, as in a URL's record.

    Raises like ``read_record``.
    """
    path = folder / layout.file_name(layout.WARC, layout.stem_of(segment))
    with layout.open_segment_file(path) as file:
        file.seek(offset)
        return record_at(iter(lambda: file.read(_CHUNK), b""), f"{path}, byte {offset}")


def record_at(chunks: Iterator[bytes], place: str) -> StoredRecord:
    """The record that these bytes begin with; ``place`` is for the error.

    Raises ``RecordError``.
    """
    gzip, parts, length = zlib.decompressobj(_GZIP), [], 0
    try:
        for packed in chunks:
            parts.append(gzip.decompress(packed))
            length += len(packed)
            if gzip.eof:
                break
    except zlib.error as error:
        raise RecordError(f"{place}: {error}") from error
    data = b"".join(parts)
    if not gzip.eof or not data.startswith(b"WARC/"):
        raise RecordError(f"{place}: no record begins there")
    return _record(data, length - len(gzip.unused_data))


def head_at(packed: bytes, place: str) -> StoredRecord:
    """The WARC fields of the record that these bytes begin with, without its block.

    Raises ``RecordError`` when they are no record, or not all fields are in its first 64 kB.
    """
    try:
        data = zlib.decompressobj(_GZIP).decompress(packed, 64 * 1024)
    except zlib.error as error:
        raise RecordError(f"{place}: {error}") from error
    if not data.startswith(b"WARC/") or b"\r\n\r\n" not in data:
        raise RecordError(f"{place}: no record begins there")
    return StoredRecord(_fields(data.partition(b"\r\n\r\n")[0]), b"", b"")


def check_records(path: Path) -> None:
    """Read a closed WARC file: every record has its checksum and its block the recorded digest.

    Raises ``RecordError`` or ``OSError``.
    """
    with path.open("rb") as file:
        at, size = 0, path.stat().st_size
        while at < size:
            file.seek(at)
            place = f"{path}, byte {at}"
            record = record_at(iter(lambda: file.read(_PIECE), b""), place)
            digest = record.fields.get("WARC-Block-Digest")
            if digest and digest != block_digest(record.header_block, record.body):
                raise RecordError(f"{place}: the block does not have its recorded digest")
            at += record.length


def _record(data: bytes, length: int) -> StoredRecord:
    head, _, rest = data.partition(b"\r\n\r\n")
    fields = _fields(head)
    block = rest[: int(fields.get("Content-Length", "0"))]
    if not fields.get("Content-Type", "").startswith("application/http"):
        return StoredRecord(fields, b"", block, length)
    end = _header_end(block)
    return StoredRecord(fields, block[:end], block[end:], length)


def _fields(head: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in head.decode("utf-8", "replace").split("\r\n")[1:]:
        name, _, value = line.partition(": ")
        fields.setdefault(name, value)
    return fields


def _header_end(block: bytes) -> int:
    """The end of an HTTP header block: after its first empty line, with any kind of line end."""
    at = 0
    while at < len(block):
        line_end = block.find(b"\n", at)
        if line_end < 0:
            break
        if block[at:line_end] in (b"", b"\r"):
            return line_end + 1
        at = line_end + 1
    return len(block)


def location_of(row: JournalRow) -> Location:
    """The location of the response or revisit record of a row."""
    return Location(layout.warc_name(row.segment), row.offset, row.length, row.record_id)


def committed_rows(
    path: Path, lengths: Mapping[str, int], having: bytes = b""
) -> Iterator[JournalRow]:
    """The committed rows of one journal of a running crawl, even if it is closed meanwhile.

    ``lengths`` are the committed lengths of open files, ``having`` is as in ``journal.read_rows``.
    Raises ``JournalError`` or ``OSError``.
    """
    closed = path.with_name(path.name.removesuffix(layout.OPEN))

    def is_closed(closed: Path) -> bool:
        return layout.is_closed(path.parent.parent, layout.JOURNAL, layout.stem_of(closed))

    length = None
    if path != closed:
        length = lengths.get(f"{layout.JOURNAL}/{path.name}")
        if length is None and not is_closed(closed):
            return  # begun after the last commit that was read
    if is_closed(closed):
        path, length = closed, None
    yield from journal.read_rows(path, length, having)


def metadata_behind(
    source: RecordReader, segment: str, offset: int, record: StoredRecord
) -> dict[str, str]:
    """The fields of the metadata record of a capture, whose ``record`` is at ``offset``.

    Fields with the same name are one value, in lines. Raises ``RecordError`` or ``OSError``.
    """
    beside = source.read_record(segment, offset + record.length)
    is_its_own = beside.fields.get("WARC-Concurrent-To") == record.fields.get("WARC-Record-ID")
    found: dict[str, str] = {}
    if is_its_own and beside.fields["WARC-Type"] == "metadata":
        for line in beside.body.decode("utf-8", "replace").split("\r\n"):
            name, colon, value = line.partition(": ")
            if colon:
                found[name] = f"{found[name]}\n{value}" if name in found else value
    return found
