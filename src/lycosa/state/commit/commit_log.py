"""The commit log: the decisions of one worker, in order, on disk before they take effect.

A commit is one record {write batches per partition, lengths of the open output files}. ``append``
returns when it is on disk. Only then are the batches applied to the partitions' tables and the
outboxes sent. So a table may be behind the log but is never ahead of it. Recovery truncates the
output files to the lengths in the last record and applies to each partition the batches that it
lacks, in order. Applying a batch sets keys to values, so repeating it changes nothing.

Each worker has a separate log, numbered from 1 without a gap. The log exists from the worker's
first start on, before the first commit, and its last record is never dropped. So a log that is
absent, or empty although the worker has committed, was deleted or truncated.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec
from xxhash import xxh3_64_intdigest

from lycosa.base.system.durable import DiskFull, named, sync_data, sync_folder, write_all
from lycosa.state.commit.commit_log_files import (
    FRAME,
    FRAME_MAGIC,
    HEAD,
    HEAD_MAGIC,
    decode_commit,
    first_of,
    is_begun,
    log_file_name,
    log_files_of,
    read_log_frames,
    records_of,
)
from lycosa.state.commit.last_commit import LastCommit
from lycosa.state.commit.record import Commit

DEFAULT_FILE_BYTES = 64_000_000
MAX_RECORD_BYTES = 1 << 30


class LogUnusable(OSError):
    """An earlier write failed and left the content of the disk unknown.

    The worker must be restarted.
    """


_ENCODER = msgspec.msgpack.Encoder()


class CommitLog:
    """The log of one worker in a folder. Calls block; only one thread at a time may call.

    Opening truncates an unfinished record at the end. When a file exceeds ``file_bytes``, the next
    record starts a new one. ``last_commit`` receives the mark of each record once it is on disk.
    Raises ``LogDamaged`` and ``OSError``.
    """

    def __init__(
        self,
        folder: Path,
        worker: int,
        file_bytes: int = DEFAULT_FILE_BYTES,
        last_commit: LastCommit | None = None,
    ) -> None:
        self._folder, self.worker, self._file_bytes, self._last_commit = (
            folder,
            worker,
            file_bytes,
            last_commit,
        )
        folder.mkdir(parents=True, exist_ok=True)
        self._files = log_files_of(folder).get(worker, [])
        self._fd = -1
        self._salt = self._length = 0
        self._broken = False
        self._last = self._open_last()

    @property
    def last(self) -> Commit | None:
        """The last commit, or ``None`` before the first one."""
        return self._last

    @property
    def next_sequence(self) -> int:
        """The required sequence of the next record."""
        return self._last.sequence + 1 if self._last else 1

    def make_first_file(self) -> None:
        """Create the first file when there is none. Raises ``DiskFull`` or ``OSError``."""
        if not self._files:
            self._start_file(1)

    def append(self, record: Commit) -> None:
        """Append a record; returns when it is on disk.

        Raises ``DiskFull`` or ``OSError``; the record is then not in the log. After ``DiskFull``
        the same record may be appended again. After any other failure of the disk the effect of a
        later write is unknown, so every further call raises ``LogUnusable``.
        """
        assert record.sequence == self.next_sequence, (
            f"record {record.sequence} after {self.next_sequence - 1}"
        )
        assert self._last is None or record.term >= self._last.term, "the term never decreases"
        if self._broken:
            raise LogUnusable(errno.EIO, "an earlier write failed", str(self._files[-1]))
        payload = _ENCODER.encode(record)
        assert len(payload) <= MAX_RECORD_BYTES, "a commit exceeds the maximum size of a record"
        if self._fd < 0 or self._length > max(self._file_bytes, HEAD.size):
            self._start_file(record.sequence)
        frame = (
            FRAME.pack(FRAME_MAGIC, len(payload), xxh3_64_intdigest(payload, self._salt)) + payload
        )
        try:
            write_all(self._fd, frame)
            sync_data(self._fd)
        except OSError as error:
            # A part of the frame may be in the file. The next append would follow it, and a reader
            # would take the rest for damage.
            raise self._take_back(error) from error
        self._length += len(frame)
        self._last = record
        if self._last_commit is not None:
            self._last_commit.write_mark(record.mark)

    def records(self, after: int = 0) -> Iterator[Commit]:
        """The records with a sequence greater than ``after``, in order. Raises ``LogDamaged``."""
        return records_of(self._files, after)

    def drop_until(self, sequence: int) -> None:
        """Delete the files that contain only records up to ``sequence``.

        The last record always stays, for its lengths.
        """
        last = self._last.sequence if self._last else 0
        while len(self._files) > 1 and first_of(self._files[1]) <= min(sequence + 1, last):
            self._files[0].unlink()
            # Synced after each one, so that a power loss restores the newest file first and leaves
            # no gap.
            sync_folder(self._folder)
            del self._files[0]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._last_commit is not None:
            self._last_commit.close()

    def __repr__(self) -> str:
        return (
            f"CommitLog(worker={self.worker}, files={len(self._files)},"
            f" last={self._last and self._last.mark}, bytes={self._length})"
        )

    def _open_last(self) -> Commit | None:
        """Open the last file after its last complete record, and return that record."""
        while self._files:
            path = self._files[-1]
            for offset, payload in deque(read_log_frames(path, is_last=True), maxlen=1):
                self._reopen(path, offset + FRAME.size + len(payload))
                return decode_commit(path, offset, payload)
            if len(self._files) == 1 and first_of(path) == 1 and is_begun(path):
                self._reopen(path, HEAD.size)
                return None
            path.unlink()  # started for a record that was never committed
            sync_folder(self._folder)
            self._files.pop()
        return None

    def _reopen(self, path: Path, length: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        magic, self._salt = HEAD.unpack(os.pread(self._fd, HEAD.size, 0))
        if os.fstat(self._fd).st_size != length:
            os.ftruncate(self._fd, length)
        # the crash may have come between the write and its sync; from here on this record counts
        sync_data(self._fd)
        sync_folder(self._folder)
        is_full = magic != HEAD_MAGIC  # a file of format 1
        self._length = self._file_bytes + length if is_full else length

    def _start_file(self, sequence: int) -> None:
        """Create a new file for its first record.

        Raises ``DiskFull`` or ``OSError``; the previous file then stays the last one.
        """
        # Seeds the checksums: bytes of a payload, such as a body that holds a log, are no frame.
        path = self._folder / log_file_name(self.worker, sequence)
        salt = int.from_bytes(os.urandom(8))
        try:
            fd = os.open(
                path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644
            )
            try:
                write_all(fd, HEAD.pack(HEAD_MAGIC, salt))
                sync_data(fd)
                sync_folder(self._folder)
            except OSError:
                # The next try has the same name, and would fail at ``O_EXCL``.
                os.close(fd)
                path.unlink()
                raise
        except OSError as error:
            raise named(error, path) from error
        self.close()
        self._files.append(path)
        self._fd, self._salt, self._length = fd, salt, HEAD.size

    def _take_back(self, error: OSError) -> OSError:
        """Remove the remains of a failed append; returns the error to raise."""
        told = named(error, self._files[-1])
        try:
            os.ftruncate(self._fd, self._length)
            sync_data(self._fd)
        except OSError:
            # What the disk has now is unknown, so nothing may be appended behind it.
            self._broken = True
        # after a failed fsync the kernel may drop the pages and report success next time
        if not isinstance(told, DiskFull):
            self._broken = True
        return told


def all_logs(folder: Path, file_bytes: int = DEFAULT_FILE_BYTES) -> list[CommitLog]:
    """The logs of all workers in the folder, by number, including those of earlier runs."""
    return [CommitLog(folder, worker, file_bytes) for worker in sorted(log_files_of(folder))]
