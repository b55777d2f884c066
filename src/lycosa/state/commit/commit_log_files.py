"""The files of commit logs, and how they are read.

``commit-w000-<sequence of its first record>.log``: a head {magic, salt}, then frames {magic,
length, checksum, payload}. The checksum is seeded with the file's random salt, so bytes inside a
payload can never be mistaken for a frame. The head is synced before the first frame, and each frame
before the next. So a crash can leave at most *one* unfinished frame, at the end of the last file.
An invalid frame that is followed by a valid one, or a missing file, is damage; it is reported and
never skipped.
"""

from __future__ import annotations

import heapq
import mmap
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec
from xxhash import xxh3_64_intdigest

from lycosa.base.system.frames import UNREADABLE
from lycosa.state.commit.record import Commit, LogDamaged

COMMIT_LOG_FORMAT = 2
"""Format 1 stored the writes of a batch as an array of pairs.

It can be read but is never appended to.
"""

HEAD = struct.Struct(">8sQ")  # magic with the format's version, salt
HEAD_MAGIC = b"LYCLOG\x00" + bytes([COMMIT_LOG_FORMAT])
_HEAD_MAGICS = (HEAD_MAGIC, b"LYCLOG\x00\x01")
FRAME = struct.Struct(">4sIQ")  # magic, length of the payload, checksum of the payload
FRAME_MAGIC = b"\xc5LyR"
_NAME = re.compile(r"commit-w(\d{3,})-(\d{12,})\.log")
_DECODER = msgspec.msgpack.Decoder(Commit)


class ReadableLog(Protocol):
    """A log whose records can be read."""

    worker: int

    def records(self, after: int = 0) -> Iterator[Commit]: ...


class SavedLog:
    """One worker's log on disk, read-only. An unfinished record at its end is left out."""

    def __init__(self, worker: int, files: list[Path]) -> None:
        self.worker, self.files = worker, files

    @property
    def first(self) -> int:
        """The sequence of the first record, from its file name; the file may have no record."""
        return first_of(self.files[0])

    def records(self, after: int = 0) -> Iterator[Commit]:
        """The records with a sequence greater than ``after``, in order. Raises ``LogDamaged``."""
        return records_of(self.files, after)


def saved_logs(folder: Path) -> dict[int, SavedLog]:
    """The logs in the folder, by worker."""
    return {
        worker: SavedLog(worker, files) for worker, files in sorted(log_files_of(folder).items())
    }


def read_logs(folder: Path) -> Iterator[tuple[int, Commit]]:
    """The records of all logs with their worker's number, worker by worker.

    The owners may be writing. Nothing is changed, and an unfinished end is left out. A file that
    its owner deletes meanwhile raises ``FileNotFoundError``: read again. Raises ``LogDamaged``.
    """
    for worker, files in log_files_of(folder).items():
        yield from ((worker, record) for record in records_of(files))


def merged_by_worker(
    logs: Iterable[ReadableLog], after: Callable[[int], int] = lambda worker: 0
) -> Iterator[tuple[int, Commit]]:
    """The records of several logs with their workers, ordered by run and then by sequence.

    That is the order in which each partition received them. ``after`` gives for each worker's log
    the sequence up to which every partition is known to have everything.
    """
    streams = [_with_worker(log.worker, log.records(after(log.worker))) for log in logs]
    return heapq.merge(*streams, key=lambda each: each[1].mark)


def log_file_name(worker: int, sequence: int) -> str:
    """The name of the file that begins with this record of a worker."""
    return f"commit-w{worker:03d}-{sequence:012d}.log"


def is_begun(path: Path) -> bool:
    """Whether a file has a complete head of the present format.

    Every log has one from its worker's first start on.
    """
    with path.open("rb") as file:
        return (
            file.read(HEAD.size)[: len(HEAD_MAGIC)] == HEAD_MAGIC
            and path.stat().st_size >= HEAD.size
        )


def _with_worker(worker: int, records: Iterator[Commit]) -> Iterator[tuple[int, Commit]]:
    for record in records:
        yield worker, record


def log_files_of(folder: Path) -> dict[int, list[Path]]:
    """The files of each worker in order."""
    found: dict[int, list[Path]] = {}
    for path in folder.glob("commit-w*.log"):
        if match := _NAME.fullmatch(path.name):
            found.setdefault(int(match[1]), []).append(path)
    return {worker: sorted(paths, key=first_of) for worker, paths in found.items()}


def first_of(path: Path) -> int:
    """The sequence of the first record of a file, from its name."""
    match = _NAME.fullmatch(path.name)
    assert match is not None, path
    return int(match[2])


def records_of(files: list[Path], after: int = 0) -> Iterator[Commit]:
    """The records of one worker's files with a sequence greater than ``after``."""
    expected = 0
    for index, path in enumerate(files):
        if index + 1 < len(files) and first_of(files[index + 1]) <= after + 1:
            continue
        for offset, payload in read_log_frames(path, is_last=index + 1 == len(files)):
            record = decode_commit(path, offset, payload)
            if record.sequence != (expected or first_of(path)):
                raise LogDamaged(path, offset, f"record {expected or first_of(path)} is missing")
            expected = record.sequence + 1
            if record.sequence > after:
                yield record


def decode_commit(path: Path, offset: int, payload: bytes) -> Commit:
    """The record in a frame. Raises ``LogDamaged``."""
    try:
        return _DECODER.decode(payload)
    except UNREADABLE as error:
        raise LogDamaged(path, offset, f"the record is not of this format ({error})") from error


def read_log_frames(
    path: Path, is_last: bool, start: int = HEAD.size
) -> Iterator[tuple[int, bytes]]:
    """Offset and payload of each record of a file from the one at ``start`` on.

    The end of the last file may be unfinished.
    """
    length = path.stat().st_size
    if is_last and length <= HEAD.size:
        return  # the crash came before its first record, perhaps before its head
    if length < HEAD.size:
        raise LogDamaged(path, 0, "the file has no head")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        magic, salt = HEAD.unpack_from(data)
        if magic not in _HEAD_MAGICS:
            raise LogDamaged(path, 0, _head_fault(magic))
        offset = start
        while (payload := _payload(data, offset, salt)) is not None:
            yield offset, payload
            offset += FRAME.size + len(payload)
        if offset < length and not is_last:
            raise LogDamaged(path, offset, "the record does not match its checksum")
        _check_unfinished(path, data, offset, salt)


def _head_fault(magic: bytes) -> str:
    if magic[:7] == HEAD_MAGIC[:7]:
        return f"the file has format {magic[7]}, this program reads {COMMIT_LOG_FORMAT}"
    return "not the head of a commit log"


def _payload(data: mmap.mmap, offset: int, salt: int) -> bytes | None:
    """The payload of the record at an offset, or ``None`` when there is no complete one."""
    if offset + FRAME.size > len(data):
        return None
    magic, length, checksum = FRAME.unpack_from(data, offset)
    start = offset + FRAME.size
    if magic != FRAME_MAGIC or start + length > len(data):
        return None
    payload = data[start : start + length]
    return payload if xxh3_64_intdigest(payload, salt) == checksum else None


def _check_unfinished(path: Path, data: mmap.mmap, offset: int, salt: int) -> None:
    """Raise ``LogDamaged`` unless the bytes at ``offset`` can be an unfinished record.

    They cannot if another record begins where they end, or if a valid record follows anywhere. The
    first check detects a damaged salt: then no record is valid, and each but the last is followed
    by another.
    """
    if offset + FRAME.size <= len(data):
        magic, length, _ = FRAME.unpack_from(data, offset)
        end = offset + FRAME.size + length
        if magic == FRAME_MAGIC and data[end : end + len(FRAME_MAGIC)] == FRAME_MAGIC:
            raise LogDamaged(
                path,
                offset,
                f"the record does not match its checksum, and another follows at byte {end}",
            )
    at = data.find(FRAME_MAGIC, offset + 1)
    while at >= 0:
        if _payload(data, at, salt) is not None:
            raise LogDamaged(
                path,
                offset,
                f"the record does not match its checksum, and a good one follows at byte {at}",
            )
        at = data.find(FRAME_MAGIC, at + 1)
