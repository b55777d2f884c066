"""The bodies of earlier crawls: an index of their digests, made from CDXJ files at the start.

An earlier crawl is a crawl folder, a CDXJ file, or a folder of CDXJ files; each may be of another
program. Of the lines only those count that can be referred to: a response with status 200, a SHA-1
in base32, and a place in a ``.warc.gz`` file. Of lines with one digest the first capture counts.

An index is one file, sorted by digest, so a lookup is a binary search in a memory map and the
number of bodies is not bounded by memory. Building sorts runs that fit in memory and merges them.
The header has a stamp of the sources' names, sizes and times; an index with the same stamp is used
again.

    payload: prefixes (8 bytes of each digest), places (u64: where the row begins), rows

A row is a MessagePack array of digest, URL, 14-digit time, file, offset, media type as sent.
"""

from __future__ import annotations

import gzip
import hashlib
import heapq
import tempfile
from base64 import b32decode
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, BinaryIO, cast

import msgspec
import xxhash

from lycosa.base.system.durable import publish
from lycosa.state.store.cdxj import CdxjEntry

MAGIC = b"lycoearl"
_HEADER = 64
_RUN = 200_000  # rows
_DIGEST = 32  # characters of a SHA-1 in base32
_WARC = ".warc.gz"
_MAX_LINE = 1 << 20


class EarlierError(Exception):
    """An earlier crawl cannot be read; the message names it."""


class EarlierCapture(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A capture of an earlier crawl: payload digest, URL, time (14 digits), place, media type."""

    digest: bytes
    url: str
    time: str
    file: str
    offset: int
    mime: str


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The header of an index: magic, stamp of the sources, number of rows, XXH3-64 of the payload.

    ``left_out`` is the number of lines that are not responses with a usable digest and place.
    """

    magic: bytes
    stamp: bytes
    rows: int
    left_out: int
    checksum: int


_encode, _decode_line = msgspec.msgpack.Encoder().encode, msgspec.json.Decoder(CdxjEntry).decode
_decode_row = msgspec.msgpack.Decoder(EarlierCapture).decode
_decode_head = msgspec.msgpack.Decoder(_Head).decode


class EarlierIndex:
    """An index, memory-mapped. Raises ``EarlierError`` when the file is missing or damaged."""

    def __init__(self, path: Path) -> None:
        import mmap

        try:
            with path.open("rb") as file:
                self._head = _read_head(file)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise EarlierError(f"{path}: {error}") from error
        data, rows = memoryview(self._map), self._head.rows
        if xxhash.xxh3_64_intdigest(data[_HEADER:]) != self._head.checksum:
            raise EarlierError(f"{path}: the checksum does not match")
        end = _HEADER + 8 * rows
        self._prefixes = data[_HEADER:end].cast("Q")
        self._places = data[end : end + 8 * (rows + 1)].cast("Q")
        self._rows = data[end + 8 * (rows + 1) :]

    def __len__(self) -> int:
        return self._head.rows

    @property
    def left_out(self) -> int:
        """The number of lines that cannot be referred to."""
        return self._head.left_out

    def find(self, digest: bytes) -> EarlierCapture | None:
        """The first capture with this payload digest (20 bytes), or ``None``."""
        prefix = int.from_bytes(digest[:8], "big")
        at = bisect_left(self._prefixes, prefix)
        while at < len(self._prefixes) and self._prefixes[at] == prefix:
            row = _decode_row(self._rows[self._places[at] : self._places[at + 1]])
            if row.digest == digest:
                return row
            at += 1
        return None


def build_index(path: Path, source: Path) -> None:
    """Make the index of an earlier crawl, unless there is one of its present files. Blocks.

    Raises ``EarlierError`` with the file and the line for what is no CDXJ, and ``OSError``.
    """
    files = index_files(source)
    stamp = _stamp(files)
    if _has_stamp(path, stamp):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        count = [0]
        runs = list(_sorted_runs(_captures(files, count), path.parent, stack))
        _write(path, stamp, count, heapq.merge(*map(_rows_of, runs)))


def index_files(source: Path) -> list[Path]:
    """The CDXJ files of an earlier crawl. Raises ``EarlierError`` when there is none."""
    if source.is_file():
        return [source]
    found = sorted(
        path
        for folder in (source / "cdxj", source / "indexes", source)
        for suffix in ("cdxj", "cdxj.gz", "cdx.gz")
        for path in folder.glob(f"[!.]*.{suffix}")
    )
    if not found:
        what = "no CDXJ file" if source.is_dir() else "no file or folder"
        raise EarlierError(f"{source}: {what} there; give a crawl folder or a CDXJ file")
    return found


def _stamp(files: Sequence[Path]) -> bytes:
    digest = hashlib.sha256()
    for path in files:
        status = path.stat()
        digest.update(f"{path.absolute()} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.digest()[:16]


def _has_stamp(path: Path, stamp: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return _read_head(file).stamp == stamp
    except (OSError, ValueError, msgspec.MsgspecError):
        return False  # it is made again


def _read_head(file: BinaryIO) -> _Head:
    head = _decode_head(file.read(_HEADER).rstrip(b"\xc1"))  # the byte that MessagePack never uses
    if head.magic != MAGIC:
        raise ValueError("not an index of an earlier crawl, or one of another version")
    return head


def _captures(files: Sequence[Path], count: list[int]) -> Iterator[EarlierCapture]:
    """The captures of which a body can be referred to; the others are counted in ``count``."""
    for path in files:
        opened = gzip.open if path.suffix == ".gz" else open
        with cast("BinaryIO", opened(path, "rb")) as lines:
            for number, line in enumerate(iter(lambda: lines.readline(_MAX_LINE), b""), 1):
                if line[:1] in (b"!", b" ", b"\n"):  # the header of some programs
                    continue
                found = _capture(path, number, line)
                if found is None:
                    count[0] += 1
                else:
                    yield found


def _capture(path: Path, number: int, line: bytes) -> EarlierCapture | None:
    _, time, data = (*line.split(b" ", 2), b"", b"")[:3]
    try:
        entry = _decode_line(data)
    except msgspec.MsgspecError as error:
        raise EarlierError(f"{path}, line {number} is not CDXJ: {error}") from error
    digest = entry.digest.removeprefix("sha1:")
    is_usable = (
        entry.status == "200"
        and entry.mime != "warc/revisit"
        and not entry.truncated
        and len(digest) == _DIGEST
        and len(time) == 14
        and entry.filename.endswith(_WARC)
        and entry.offset.isdigit()
        and int(entry.offset) > 0  # 0 is no place in our records
    )
    if not is_usable:
        return None
    try:
        raw = b32decode(digest)
    except ValueError:
        return None  # a digest of another kind with as many characters
    return EarlierCapture(
        raw, entry.url, time.decode(), entry.filename, int(entry.offset), entry.mime
    )


def _sorted_runs(
    captures: Iterable[EarlierCapture], folder: Path, stack: ExitStack
) -> Iterator[IO[bytes]]:
    """Files of rows that are sorted by digest and time, of which each fitted in memory."""
    run: list[EarlierCapture] = []

    def saved() -> IO[bytes]:
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed by ``stack``)
        stack.enter_context(file)
        run.sort(key=_order)
        for each in run:
            row = _encode(each)
            file.write(len(row).to_bytes(4, "big") + row)
        run.clear()
        file.seek(0)
        return file

    for each in captures:
        run.append(each)
        if len(run) >= _RUN:
            yield saved()
    yield saved()


def _order(capture: EarlierCapture) -> tuple[bytes, str]:
    return capture.digest, capture.time


def _rows_of(run: IO[bytes]) -> Iterator[tuple[bytes, str, bytes]]:
    while head := run.read(4):
        row = run.read(int.from_bytes(head, "big"))
        yield (*_order(_decode_row(row)), row)


def _write(
    path: Path, stamp: bytes, count: Sequence[int], rows: Iterable[tuple[bytes, str, bytes]]
) -> None:
    from array import array

    prefixes, places, last, at = array("Q"), array("Q", [0]), b"", 0
    temporary = path.with_name(f".{path.name}.tmp")
    with tempfile.TemporaryFile(dir=path.parent) as data, temporary.open("wb") as file:
        for digest, _, row in rows:
            if digest != last:  # the first capture of each body
                prefixes.append(int.from_bytes(digest[:8], "big"))
                at += data.write(row)
                places.append(at)
                last = digest
        checksum = xxhash.xxh3_64()
        file.write(bytes(_HEADER))
        data.seek(0)
        for part in (prefixes.tobytes(), places.tobytes(), *iter(lambda: data.read(1 << 20), b"")):
            checksum.update(part)
            file.write(part)
        file.seek(0)
        head = _Head(MAGIC, stamp, len(prefixes), count[0], checksum.intdigest())
        file.write(_encode(head).ljust(_HEADER, b"\xc1"))
    publish(temporary, path)
