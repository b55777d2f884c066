"""Reads WARC files of other programs: untrusted bytes, of any age and length.

Formats: WARC 0.17 to 1.1, uncompressed, gzip (a member for each record, or one for the whole file)
and Zstandard with or without a dictionary in its first frame. Source: ISO 28500:2017, and IIPC's
"Use of Zstandard Compression in WARC 1.1". For our own files, ``stored_data`` reads a record by its
place.

**Bounds.** One record's beginning of ``MAX_BLOCK`` bytes is in memory, whatever lengths the file
states. What is longer is skipped, and beyond ``MAX_SKIPPED`` not even unpacked.

**Damage** ends one record and not the file: a ``DamagedPlace`` says where, and reading continues at
the next member (or, without compression, at the next line ``WARC/``) that begins a record.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol, cast

import msgspec
from isal import isal_zlib

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_BLOCK = 64 << 20
"""Bytes of a record's block that are read."""
MAX_SKIPPED = 1 << 30
MAX_HEAD = 64 << 10
"""Bytes of a record's header lines."""

MAX_DAMAGES = 10_000
"""Damaged places after which the rest of a file is left out."""

_RAW = 256 << 10
_FIRST = 8 << 10
_PIECE = 256 << 10
_GZIP, _ZSTD, _SKIPPABLE = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x5d\x2a\x4d\x18"
_BEGINS = b"WARC/"
_NEXT_RECORD, _NEXT_MEMBER = re.compile(rb"\nWARC/"), re.compile(rb"\x1f\x8b\x08|\x28\xb5\x2f\xfd")
_MARK = 6
_MAX_TRIES = 100_000  # of a file: bytes that look like the beginning of a member, behind damage
_MAX_DICTIONARY = 16 << 20
_WINDOW_LOG = 27  # 128 MB, what the zstd program itself accepts
_VERSION = re.compile(rb"WARC/\d{1,3}\.\d{1,3}[ \t]*\r?\n")
_DIGITS = re.compile(r"[0-9]{1,18}")
_FastError = cast("type[Exception]", isal_zlib.IsalError)  # its stub calls it an instance
_ERRORS = (_FastError, zlib.error, zstd.ZstdError, EOFError)


class WarcRecord(msgspec.Struct, frozen=True):
    """A record. ``fields`` have names in lower case and the first value of each.

    ``offset`` is that of its compressed member, or of the record if it does not begin one. Of a
    block that ``is_cut`` the end is missing: it was too long, or the file ends.
    """

    offset: int
    fields: dict[str, str]
    block: bytes
    is_cut: bool = False

    @property
    def kind(self) -> str:
        """The type of the record: ``response``."""
        return self.fields.get("warc-type", "").lower()


class DamagedPlace(msgspec.Struct, frozen=True):
    """What cannot be read at a place of the file, in words for people."""

    offset: int
    what: str


class _Unpacker(Protocol):
    """One member or frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _BrokenError(Exception):
    """The data cannot be unpacked or read as records; ``place`` is that of the record, if known."""

    def __init__(self, what: str, place: int = 0) -> None:
        super().__init__(what)
        self.place = place


class _Raw:
    """The bytes of the file, with a place."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._data, self._used, self._start = file, b"", 0, 0

    @property
    def at(self) -> int:
        """The offset of the next byte."""
        return self._start + self._used

    def peek(self, size: int) -> bytes:
        """The next bytes, which stay; fewer at the end of the file."""
        while len(self._data) - self._used < size and self._fill():
            pass
        return self._data[self._used : self._used + size]

    def take(self, size: int) -> bytes:
        """At most this many bytes; none at the end of the file."""
        if self._used == len(self._data):
            self._fill()
        found = self._data[self._used : self._used + size]
        self._used += len(found)
        return found

    def seek(self, at: int) -> None:
        """Go to this offset."""
        if self._start <= at <= self._start + len(self._data):
            self._used = at - self._start
        else:
            self._file.seek(at)
            self._data, self._used, self._start = b"", 0, at

    def find(self, mark: re.Pattern[bytes]) -> bool:
        """Move to the next match, of at most ``_MARK`` bytes; to the end of the file if there is
        none.
        """
        while True:
            found = mark.search(self._data, self._used)
            if found:
                self._used = found.start()
                return True
            self._used = max(self._used, len(self._data) - _MARK + 1)
            if not self._fill():
                self._used = len(self._data)
                return False

    def _fill(self) -> bool:
        more = self._file.read(_RAW)
        self._data, self._start = self._data[self._used :] + more, self.at
        self._used = 0
        return bool(more)


class _Plain:
    """The uncompressed bytes of a file, in pieces of bounded size. One is of one member."""

    def __init__(self, raw: _Raw) -> None:
        self._raw = raw
        self._unpacker: _Unpacker | None = None
        self._size, self._tries = _FIRST, 0
        self._dictionary: zstd.ZstdDict | None = None
        self.is_packed = raw.peek(4).startswith((_GZIP, _ZSTD, _SKIPPABLE))
        self.start = 0
        """The offset of the piece that came last; in a packed file that of its member."""
        if raw.peek(4) == _SKIPPABLE:
            self._read_dictionary()

    def piece(self) -> bytes:
        """The next bytes; none at the end of the file. Raises ``_BrokenError``."""
        if not self.is_packed:
            self.start = self._raw.at
            return self._raw.take(_PIECE)
        while self._unpacker is not None or self._begin():
            try:
                found = self._unpack()
            except _ERRORS as error:
                raise _BrokenError(f"cannot be unpacked: {error}") from None
            if found:
                return found
        return b""

    def find_record(self, at: int) -> bool:
        """Go to the next beginning of a record behind offset ``at``; false if there is none."""
        self._unpacker = None
        self._raw.seek(at)
        if not self.is_packed:
            found = self._raw.find(_NEXT_RECORD)
            self._raw.take(1)
            return found
        self._raw.take(1)
        while self._tries < _MAX_TRIES and self._raw.find(_NEXT_MEMBER):
            if self._begins_record():
                return True
            self._tries += 1
            self._raw.take(1)
        return False

    def _begins_record(self) -> bool:
        try:
            unpacker = self._next_unpacker()
            begin = unpacker.decompress(self._raw.peek(1024), len(_BEGINS)) if unpacker else b""
        except _ERRORS:
            return False
        return begin.startswith(_BEGINS)

    def _begin(self) -> bool:
        """Begin the next member; false at the end of the file."""
        head = self._raw.peek(4)
        if head and not head.strip(b"\0"):  # padding of tapes and of files made in advance
            self._raw.find(_NEXT_MEMBER)
        self.start = self._raw.at
        self._unpacker, self._size = self._next_unpacker(), _FIRST
        if self._unpacker is None and self._raw.peek(1):
            raise _BrokenError("no compressed record begins there")
        return self._unpacker is not None

    def _next_unpacker(self) -> _Unpacker | None:
        head = self._raw.peek(4)
        if head.startswith(_GZIP):
            return isal_zlib.decompressobj(16 + isal_zlib.MAX_WBITS)
        if head.startswith(_ZSTD):
            options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
            return zstd.ZstdDecompressor(self._dictionary, options)
        return None

    def _unpack(self) -> bytes:
        unpacker = self._unpacker
        assert unpacker is not None
        data = getattr(unpacker, "unconsumed_tail", b"")  # gzip's; Zstandard keeps its input
        if not data and getattr(unpacker, "needs_input", True):
            # Little at first: what is behind a small member would be copied for each of them.
            data = self._raw.take(self._size)
            self._size = min(4 * self._size, _RAW)
        found = unpacker.decompress(data, _PIECE)
        if unpacker.eof:
            self._raw.seek(self._raw.at - len(unpacker.unused_data))
            self._unpacker = None
        elif not data and not found:
            raise EOFError("the file ends in the middle of a record")
        return found

    def _read_dictionary(self) -> None:
        """The dictionary in a skippable frame at the beginning, itself perhaps compressed."""
        size = int.from_bytes(self._raw.peek(8)[4:], "little")
        if size > _MAX_DICTIONARY:
            return
        self._raw.take(8)
        data = b""
        while len(data) < size and (more := self._raw.take(size - len(data))):
            data += more
        try:
            if data.startswith(_ZSTD):
                data = zstd.ZstdDecompressor().decompress(data, _MAX_DICTIONARY)
            self._dictionary = zstd.ZstdDict(data)
        except (zstd.ZstdError, ValueError):
            self._dictionary = None  # each frame that needs it is then damaged


class _Stream:
    """Lines and blocks of the uncompressed bytes."""

    def __init__(self, plain: _Plain) -> None:
        self._plain, self._data, self._used, self._start = plain, b"", 0, 0

    @property
    def place(self) -> int:
        """Where the next byte is, as an offset of the file; in a packed file that of its member."""
        return self._start if self._plain.is_packed else self._start + self._used

    def drop(self) -> None:
        """Drop what was unpacked and not read."""
        self._data, self._used = b"", 0

    def line(self, most: int) -> tuple[int, bytes]:
        """The place of the next line, and the line with its end, of at most this many bytes; it is
        empty at the end of the file.
        """
        while True:
            end = self._data.find(b"\n", self._used) + 1
            if end or len(self._data) - self._used >= most or not self._more():
                end = min(end or len(self._data), self._used + most)
                place, found = self.place, self._data[self._used : end]
                self._used = end
                return place, found

    def take(self, size: int) -> bytes:
        """The next bytes, fewer only at the end of the file."""
        parts, left = [], size
        while left and (self._used < len(self._data) or self._more()):
            part = self._data[self._used : self._used + left]
            parts.append(part)
            self._used += len(part)
            left -= len(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Pass over these bytes, or to the end of the file."""
        while size and (part := self.take(min(size, _PIECE))):
            size -= len(part)

    def _more(self) -> bool:
        rest, piece = self._data[self._used :], self._plain.piece()
        if not rest:
            self._start = self._plain.start
        elif not self._plain.is_packed:
            self._start += self._used
        self._data, self._used = rest + piece, 0
        return bool(piece)


def warc_records(
    file: BinaryIO, kinds: frozenset[str], max_block: int = MAX_BLOCK
) -> Iterator[WarcRecord | DamagedPlace]:
    """The records of these types in a WARC file that can seek, and what is damaged in it.

    Raises ``OSError``.
    """
    plain = _Plain(_Raw(file))
    stream = _Stream(plain)
    for _ in range(MAX_DAMAGES):
        try:
            while (head := _head(stream)) is not None:
                yield from _record(stream, *head, kinds, max_block)
            return
        except _BrokenError as error:
            # Behind the beginning of the member that was read last, or of the record: each time
            # further on in the file.
            place = plain.start if plain.is_packed else error.place
            yield DamagedPlace(place, str(error))
            stream.drop()
            if not plain.find_record(place):
                return
    yield DamagedPlace(place, f"more than {MAX_DAMAGES:,} damaged places; the rest is left out")


def _record(
    stream: _Stream, place: int, fields: dict[str, str], kinds: frozenset[str], max_block: int
) -> Iterator[WarcRecord | DamagedPlace]:
    """The record whose head was read, if it is wanted; the stream is behind it then."""
    text = fields.get("content-length", "").strip()
    if not _DIGITS.fullmatch(text):
        raise _BrokenError("the record has no valid Content-Length", place)
    length, block = int(text), b""
    if fields.get("warc-type", "").lower() in kinds:
        wanted = min(length, max_block)
        block = stream.take(wanted)
        yield WarcRecord(place, fields, block, len(block) < length)
        if len(block) < wanted:
            yield DamagedPlace(place, "the file ends in the middle of a record")
            return
    if length - len(block) > MAX_SKIPPED:
        raise _BrokenError(f"the record states {length:,} bytes, which are not skipped", place)
    stream.skip(length - len(block))


def _head(stream: _Stream) -> tuple[int, dict[str, str]] | None:
    """The place and the fields of the next record; ``None`` at the end of the file."""
    place, line = stream.line(MAX_HEAD)
    while line and not line.strip(b"\r\n \t\0"):
        place, line = stream.line(MAX_HEAD)
    if not line:
        return None
    if not _VERSION.fullmatch(line):
        raise _BrokenError("no record begins there", place)
    left, fields, name = MAX_HEAD, dict[str, str](), ""
    while True:
        _, line = stream.line(left)
        left -= len(line)
        # Another record's beginning: the search for the next record finds it again.
        if not line.endswith(b"\n") or line.startswith(_BEGINS):
            raise _BrokenError("the header of the record has no end, or is too long", place)
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            return place, fields
        if text[0] in " \t" and name:
            fields[name] = f"{fields[name]} {text.strip()}"
        else:
            name, colon, value = text.partition(":")
            name = name.strip().lower() if colon else ""
            if name and name not in fields:
                fields[name] = value.strip()
            else:
                name = ""  # the first value counts, with the lines that continue it
