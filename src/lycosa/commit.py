"""The commit log: what one worker has decided, in order, on disk before anyone is told.

A commit is one record {write batches per partition, lengths of the open output files}. ``append`` returns when it is on disk; only then
are the batches applied to the partitions' tables and the outboxes sent. So a table may lag behind the log and is never
ahead of it, and recovery is: cut the output files back to the lengths of the last record, apply to each partition the
batches that it lacks, in order. Applying a batch sets keys to values, so that doing it again changes nothing.

**Order.** Each worker has its own log, numbered from 1 without a gap. Partitions may be dealt to other workers at the start
of a run, never within one; a record therefore carries the run's number (``epoch``), and (epoch, sequence) orders all batches of one
partition whatever logs they are in. Each partition's table holds that pair of the last commit it contains, written in the same batch.

**Files.** ``commit-w000-<sequence of its first record>.log``: a head {magic, salt}, then frames {magic, length, checksum, payload}.
The checksum is seeded with the file's random salt, so that bytes inside a payload can never pass for a frame. The head is synced before
the first frame, and each frame before the next, so a crash can only leave *one* unfinished frame, at the end of the last
file: that one is cut off. A frame that does not verify although a good one follows it, or a missing file, is damage and is
reported, never skipped.
"""

from __future__ import annotations

import errno
import heapq
import mmap
import os
import re
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from lycosa.durable import DiskFull, named, sync_data, sync_folder, write_all
from lycosa.wire import UNREADABLE

FORMAT = 2
"""Format 1 had the writes of a batch as an array of pairs. It is read as well, and never appended to."""
MARK_KEY = b"M:commit"
"""Where a partition's table holds the mark of the last commit it contains."""

_HEAD = struct.Struct(">8sQ")  # magic with the format's version, salt
_HEAD_MAGIC = b"LYCLOG\x00" + bytes([FORMAT])
_HEAD_MAGICS = (_HEAD_MAGIC, b"LYCLOG\x00\x01")
_FRAME = struct.Struct(">4sIQ")  # magic, length of the payload, checksum of it
_FRAME_MAGIC = b"\xc5LyR"
_MARK = struct.Struct(">IQ")
_NAME = re.compile(r"commit-w(\d{3,})-(\d{12,})\.log")

DEFAULT_FILE_BYTES = 64_000_000
MAX_RECORD_BYTES = 1 << 30


class Mark(NamedTuple):
    """Position of a commit among all those of one partition; greater is later. ``(0, 0)`` is before all."""

    epoch: int
    sequence: int

    def pack(self) -> bytes:
        return _MARK.pack(*self)

    @staticmethod
    def unpack(value: bytes | None) -> Mark:
        """The mark that a partition's table holds under ``MARK_KEY``; an absent one is before all."""
        return Mark(0, 0) if value is None else Mark(*_MARK.unpack(value))


class PartitionBatch(msgspec.Struct, array_like=True, gc=False):
    """What one commit writes to one partition: keys with their new value, ``None`` to delete."""

    partition: int
    writes: dict[bytes, bytes | None] | list[tuple[bytes, bytes | None]]


class CommitRecord(msgspec.Struct, array_like=True, kw_only=True):
    """One commit of one worker.

    ``sequence`` counts the worker's commits from 1 without a gap, over all runs; ``epoch`` is the number of the run; ``wall`` is
    seconds since 1970. ``lengths`` gives the committed bytes of each output file that is open (path relative to the crawl's folder).
    """

    epoch: int
    sequence: int
    wall: float
    lengths: dict[str, int] = {}
    batches: list[PartitionBatch] = []

    @property
    def mark(self) -> Mark:
        return Mark(self.epoch, self.sequence)


class LogDamaged(Exception):
    """A log cannot be read although what is unreadable was committed. ``path`` and ``offset`` say where."""

    def __init__(self, path: Path, offset: int, what: str) -> None:
        super().__init__(f"{path}, byte {offset}: {what}; restore the file from a copy, what follows it cannot be applied without it")
        self.path, self.offset = path, offset


class LogUnusable(OSError):
    """An earlier write failed in a way that leaves unknown what is on disk; the worker must be started again."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(CommitRecord)


class CommitLog:
    """The log of one worker in a folder. Calls block, and one thread at a time may make them.

    Opening cuts off an unfinished record at the end. ``file_bytes`` is the size beyond which the next record starts a new file.
    Raises ``LogDamaged`` and ``OSError``.
    """

    def __init__(self, folder: Path, worker: int, file_bytes: int = DEFAULT_FILE_BYTES) -> None:
        self._folder, self.worker, self._file_bytes = folder, worker, file_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._files = _files(folder).get(worker, [])
        self._fd = -1
        self._salt = self._length = 0
        self._broken = False
        self._last = self._open_last()

    @property
    def last(self) -> CommitRecord | None:
        """The last commit, or ``None`` when there was none yet."""
        return self._last

    @property
    def next_sequence(self) -> int:
        """The sequence that the next record must carry."""
        return self._last.sequence + 1 if self._last else 1

    def append(self, record: CommitRecord) -> None:
        """Returns when the record is on disk. Raises ``DiskFull`` or ``OSError``; the record is then not in the log.

        After ``DiskFull`` the same record may be appended again. After any other failure of the disk it is unknown what a later
        write would leave, so every further call raises ``LogUnusable``.
        """
        assert record.sequence == self.next_sequence, f"record {record.sequence} after {self.next_sequence - 1}"
        assert self._last is None or record.epoch >= self._last.epoch, "a run's number never goes back"
        if self._broken:
            raise LogUnusable(errno.EIO, "an earlier write failed", str(self._files[-1]))
        payload = _ENCODER.encode(record)
        assert len(payload) <= MAX_RECORD_BYTES, "a commit this large has no bound on its memory"
        if self._fd < 0 or self._length > self._file_bytes:
            self._start_file(record.sequence)
        frame = _FRAME.pack(_FRAME_MAGIC, len(payload), xxh3_64_intdigest(payload, self._salt)) + payload
        try:
            write_all(self._fd, frame)
            sync_data(self._fd)
        except OSError as error:
            raise self._take_back(error) from error
        self._length += len(frame)
        self._last = record

    def records(self, after: int = 0) -> Iterator[CommitRecord]:
        """The records with a sequence greater than ``after``, in order. Raises ``LogDamaged``."""
        return _records(self._files, after)

    def drop_until(self, sequence: int) -> None:
        """Deletes the files that hold only records up to ``sequence``. The last record always stays, for its lengths."""
        while len(self._files) > 1 and _first(self._files[1]) <= sequence + 1:
            self._files[0].unlink()
            sync_folder(self._folder)  # after each one, so that a power loss brings back the newest dropped file first: no gap
            del self._files[0]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __repr__(self) -> str:
        return f"CommitLog(worker={self.worker}, files={len(self._files)}, last={self._last and self._last.mark}, bytes={self._length})"

    def _open_last(self) -> CommitRecord | None:
        """Opens the last file behind its last whole record and gives that record."""
        while self._files:
            path = self._files[-1]
            for offset, payload in deque(_frames(path, is_last=True), maxlen=1):
                self._reopen(path, offset + _FRAME.size + len(payload))
                return _decode(path, offset, payload)
            path.unlink()  # started for a record that was never committed
            sync_folder(self._folder)
            self._files.pop()
        return None

    def _reopen(self, path: Path, length: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        magic, self._salt = _HEAD.unpack(os.pread(self._fd, _HEAD.size, 0))
        if os.fstat(self._fd).st_size != length:
            os.ftruncate(self._fd, length)
        sync_data(self._fd)  # a crash may have come between the write and its sync; from here on this record counts
        sync_folder(self._folder)
        self._length = length if magic == _HEAD_MAGIC else self._file_bytes + 1  # a file of format 1 is full

    def _start_file(self, sequence: int) -> None:
        """A new file, ready for its first record. Raises ``DiskFull`` or ``OSError``; the file before stays the last one."""
        path = self._folder / f"commit-w{self.worker:03d}-{sequence:012d}.log"
        salt = int.from_bytes(os.urandom(8))
        try:
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                write_all(fd, _HEAD.pack(_HEAD_MAGIC, salt))
                sync_data(fd)
                sync_folder(self._folder)
            except OSError:
                os.close(fd)
                path.unlink()
                raise
        except OSError as error:
            raise named(error, path) from error
        self.close()
        self._files.append(path)
        self._fd, self._salt, self._length = fd, salt, _HEAD.size

    def _take_back(self, error: OSError) -> OSError:
        """Removes what a failed append left, and gives the error to raise."""
        told = named(error, self._files[-1])
        try:
            os.ftruncate(self._fd, self._length)
            sync_data(self._fd)
        except OSError:
            self._broken = True
        if not isinstance(told, DiskFull):  # after a failed fsync the kernel may have forgotten pages and report success next time
            self._broken = True
        return told


def all_logs(folder: Path, file_bytes: int = DEFAULT_FILE_BYTES) -> list[CommitLog]:
    """The logs of all workers that ever committed, by worker number; of earlier runs with more workers too."""
    return [CommitLog(folder, worker, file_bytes) for worker in sorted(_files(folder))]


def read_logs(folder: Path) -> Iterator[tuple[int, CommitRecord]]:
    """The records of all logs with their worker's number, worker by worker, while their owners may be writing.

    Nothing is changed, and an unfinished end is left out. A file that its owner drops meanwhile raises ``FileNotFoundError``: read
    again. Raises ``LogDamaged``.
    """
    for worker, files in _files(folder).items():
        yield from ((worker, record) for record in _records(files))


def merged(logs: Iterable[CommitLog], after: Callable[[int], int] = lambda worker: 0) -> Iterator[CommitRecord]:
    """The records of several logs in the order in which any one partition saw them: by run, then by sequence.

    ``after`` gives, for a worker's log, the sequence up to which every partition is known to have everything.
    """
    return heapq.merge(*(log.records(after(log.worker)) for log in logs), key=lambda record: record.mark)


def missing(records: Iterable[CommitRecord], applied: Callable[[int], Mark]) -> Iterator[tuple[Mark, PartitionBatch]]:
    """The batches that partitions lack, in the order in which each partition must get them.

    ``records`` come from ``merged``. ``applied`` gives the mark in a partition's table; it is asked once per partition.
    """
    marks: dict[int, Mark] = {}
    for record in records:
        for batch in record.batches:
            if batch.partition not in marks:
                marks[batch.partition] = applied(batch.partition)
            if record.mark > marks[batch.partition]:
                marks[batch.partition] = record.mark
                yield record.mark, batch


def check_reaches(logs: Iterable[CommitLog], marks: Mapping[int, Mark]) -> None:
    """Raises ``LogDamaged`` when a partition's table contains a commit that is behind the end of all logs: the log lost its end.

    ``marks`` are those in the partitions' tables before anything is applied.
    """
    ends = [log.last.mark for log in logs if log.last]
    newest = max(ends, default=Mark(0, 0))
    for partition, mark in marks.items():
        if mark > newest:
            what = f"the logs end at commit {newest.sequence} of run {newest.epoch}"
            raise LogDamaged(Path("log"), 0, f"partition {partition} contains commit {mark.sequence} of run {mark.epoch}, but {what}")


def marked(batch: PartitionBatch, mark: Mark) -> dict[bytes, bytes | None]:
    """The writes of a batch with the mark behind them: what is applied to the partition's table, in one go."""
    return {**dict(batch.writes), MARK_KEY: mark.pack()}


def _files(folder: Path) -> dict[int, list[Path]]:
    """The files of each worker in order."""
    found: dict[int, list[Path]] = {}
    for path in folder.glob("commit-w*.log"):
        if match := _NAME.fullmatch(path.name):
            found.setdefault(int(match[1]), []).append(path)
    return {worker: sorted(paths, key=_first) for worker, paths in found.items()}


def _first(path: Path) -> int:
    """The sequence of the first record of a file, which its name gives."""
    match = _NAME.fullmatch(path.name)
    assert match is not None, path
    return int(match[2])


def _records(files: list[Path], after: int = 0) -> Iterator[CommitRecord]:
    """The records of one worker's files that have a sequence greater than ``after``."""
    expected = 0
    for index, path in enumerate(files):
        if index + 1 < len(files) and _first(files[index + 1]) <= after + 1:
            continue
        for offset, payload in _frames(path, is_last=index + 1 == len(files)):
            record = _decode(path, offset, payload)
            if record.sequence != (expected or _first(path)):
                raise LogDamaged(path, offset, f"record {expected or _first(path)} is missing")
            expected = record.sequence + 1
            if record.sequence > after:
                yield record


def _decode(path: Path, offset: int, payload: bytes) -> CommitRecord:
    try:
        return _DECODER.decode(payload)
    except UNREADABLE as error:
        raise LogDamaged(path, offset, f"the record is not of this format ({error})") from error


def _frames(path: Path, is_last: bool) -> Iterator[tuple[int, bytes]]:
    """Offset and payload of each record of a file; the end of the last file may be unfinished."""
    length = path.stat().st_size
    if is_last and length <= _HEAD.size:
        return  # the crash came before its first record, maybe before its head
    if length < _HEAD.size:
        raise LogDamaged(path, 0, "the file has no head")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        magic, salt = _HEAD.unpack_from(data)
        if magic not in _HEAD_MAGICS:
            raise LogDamaged(path, 0, _head_fault(magic))
        offset = _HEAD.size
        while (payload := _payload(data, offset, salt)) is not None:
            yield offset, payload
            offset += _FRAME.size + len(payload)
        if offset < length and not is_last:
            raise LogDamaged(path, offset, "the record does not match its checksum")
        _check_unfinished(path, data, offset, salt)


def _head_fault(magic: bytes) -> str:
    if magic[:7] == _HEAD_MAGIC[:7]:
        return f"the file has format {magic[7]}, this program reads {FORMAT}"
    return "not the head of a commit log"


def _payload(data: mmap.mmap, offset: int, salt: int) -> bytes | None:
    """The payload of the record at an offset, or ``None`` when there is no whole one."""
    if offset + _FRAME.size > len(data):
        return None
    magic, length, checksum = _FRAME.unpack_from(data, offset)
    start = offset + _FRAME.size
    if magic != _FRAME_MAGIC or start + length > len(data):
        return None
    payload = data[start : start + length]
    return payload if xxh3_64_intdigest(payload, salt) == checksum else None


def _check_unfinished(path: Path, data: mmap.mmap, offset: int, salt: int) -> None:
    """What is at ``offset`` is an unfinished record only if no other begins at its end, and no good one further on.

    The first tells of a salt that was damaged: with it no record is good, and each but the last is followed by another.
    """
    if offset + _FRAME.size <= len(data):
        magic, length, _ = _FRAME.unpack_from(data, offset)
        end = offset + _FRAME.size + length
        if magic == _FRAME_MAGIC and data[end : end + len(_FRAME_MAGIC)] == _FRAME_MAGIC:
            raise LogDamaged(path, offset, f"the record does not match its checksum, and another follows at byte {end}")
    at = data.find(_FRAME_MAGIC, offset + 1)
    while at >= 0:
        if _payload(data, at, salt) is not None:
            raise LogDamaged(path, offset, f"the record does not match its checksum, and a good one follows at byte {at}")
        at = data.find(_FRAME_MAGIC, at + 1)
