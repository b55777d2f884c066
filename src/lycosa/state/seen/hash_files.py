"""Files of hashes: a header of 64 bytes and a payload, checksummed, replaced as a whole.

Header, little-endian: magic (8 bytes), format version (u32), zero (u32), stamp (i64), count (u64),
two numbers for the format's use (u64 each), XXH3-64 of the payload (u64), XXH3-64 of the 56 bytes
before (u64). The header has a separate checksum so that a new stamp can be written in place: 64
bytes within one disk sector. If that write is torn, the file counts as damaged and is rebuilt.

Such a file can always be rebuilt from the table. So every fault, including an unknown version, is
the same error: damaged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from lycosa.base.system.durable import publish, sync_data

HEADER_BYTES = 64
_LAYOUT = struct.Struct("<8sIIqQQQQ")
_CHECKSUM = struct.Struct("<Q")
_STEP = 1 << 22


class HashFileDamaged(Exception):
    """The file is incomplete, damaged or of another version."""


@dataclass(frozen=True, slots=True)
class Header:
    """The fixed fields of a file. ``first`` and ``second`` are for the format's use."""

    magic: bytes
    version: int
    stamp: int
    count: int
    first: int = 0
    second: int = 0
    digest: int = 0

    def pack(self) -> bytes:
        packed = _LAYOUT.pack(
            self.magic,
            self.version,
            0,
            self.stamp,
            self.count,
            self.first,
            self.second,
            self.digest,
        )
        return packed + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(packed))


class HashFileWriter:
    """Writes a file under a temporary name, which ``commit`` renames over the old file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(path.name + ".tmp")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._temporary.open("wb")
        self._file.write(bytes(HEADER_BYTES))
        self._checksum = xxhash.xxh3_64()

    def write(self, part: NDArray[np.generic]) -> None:
        data = np.ascontiguousarray(part).view(np.uint8).data
        self._checksum.update(data)
        self._file.write(data)

    def commit(self, header: Header) -> None:
        self._file.seek(0)
        self._file.write(replace(header, digest=self._checksum.intdigest()).pack())
        self._file.close()
        publish(self._temporary, self._path)

    def abandon(self) -> None:
        """Close and remove the temporary file; does nothing after ``commit``."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)


def write_hash_file(path: Path, header: Header, parts: Iterable[NDArray[np.generic]]) -> None:
    """Write a complete file and put it in place of the old one, durably."""
    writer = HashFileWriter(path)
    try:
        for part in parts:
            writer.write(part)
        writer.commit(header)
    finally:
        writer.abandon()


def map_hash_file(path: Path, magic: bytes, version: int) -> tuple[Header, NDArray[np.uint8]]:
    """The header and the payload, memory-mapped and verified.

    Raises ``FileNotFoundError`` or ``HashFileDamaged``. Reads the whole file once (0.1 s a GB from
    the page cache).
    """
    size = path.stat().st_size
    if size < HEADER_BYTES:
        raise HashFileDamaged(f"{path} is shorter than its header")
    mapped = np.memmap(path, dtype=np.uint8, mode="r")
    # A plain array: slicing an np.memmap costs a microsecond each time.
    whole = mapped.view(np.ndarray)
    header = _unpack(path, whole[:HEADER_BYTES].tobytes())
    if (header.magic, header.version) != (magic, version):
        raise HashFileDamaged(f"{path} is not a {magic.decode()} file of version {version}")
    payload = whole[HEADER_BYTES:]
    if _digest(payload) != header.digest:
        raise HashFileDamaged(f"the checksum of {path} does not match its content")
    return header, payload


def stamp_in(path: Path) -> int:
    """The stamp in a file's header; -1 when the file is absent or its header is damaged.

    Only the header is read.
    """
    try:
        with path.open("rb") as file:
            return _unpack(path, file.read(HEADER_BYTES)).stamp
    except (FileNotFoundError, HashFileDamaged):
        return -1


def restamp(path: Path, stamp: int) -> None:
    """Change the stamp of a valid file, in place and durably."""
    with path.open("r+b") as file:
        header = _unpack(path, file.read(HEADER_BYTES))
        file.seek(0)
        file.write(replace(header, stamp=stamp).pack())
        file.flush()
        sync_data(file.fileno())


def _unpack(path: Path, packed: bytes) -> Header:
    body, checksum = packed[:-8], packed[-8:]
    if _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body)) != checksum:
        raise HashFileDamaged(f"the checksum of the header of {path} does not match")
    magic, version, _, stamp, count, first, second, digest = _LAYOUT.unpack(body)
    return Header(magic, version, stamp, count, first, second, digest)


def _digest(payload: NDArray[np.uint8]) -> int:
    checksum = xxhash.xxh3_64()
    for start in range(0, len(payload), _STEP):
        checksum.update(payload[start : start + _STEP].data)
    return checksum.intdigest()
