"""The value of a commit: the write batches of all partitions, and the mark that orders commits.

Partitions may move to other workers at the start of a run, never within one. So a record carries
the run's number (``term``), and (term, sequence) orders all batches of one partition, whichever
logs they are in.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import msgspec

MARK_KEY = b"M:commit"
"""The key of a partition's table for the mark of its last commit and the worker that made it."""

_MARK = struct.Struct(">IQ")
_WORKER = struct.Struct(">I")


class Mark(NamedTuple):
    """The position of a commit among all those of one partition; a greater one is later.

    ``(0, 0)`` precedes all commits.
    """

    term: int
    sequence: int

    def pack(self) -> bytes:
        return _MARK.pack(*self)

    @staticmethod
    def unpack(value: bytes | None) -> Mark:
        """The mark under ``MARK_KEY`` in a table; an absent one precedes all commits."""
        return Mark(0, 0) if value is None else Mark(*_MARK.unpack_from(value))


NOTHING = Mark(0, 0)
"""The mark that precedes all commits."""


def maker_of(value: bytes | None) -> int | None:
    """The worker that made the commit under ``MARK_KEY``.

    ``None`` when an earlier version wrote it, which did not store the worker.
    """
    if value is None or len(value) < _MARK.size + _WORKER.size:
        return None
    (worker,) = _WORKER.unpack_from(value, _MARK.size)
    return int(worker)


class PartitionBatch(msgspec.Struct, array_like=True, gc=False):
    """The writes of one commit to one partition: keys with their new values, ``None`` to delete."""

    partition: int
    writes: dict[bytes, bytes | None] | list[tuple[bytes, bytes | None]]


class Commit(msgspec.Struct, array_like=True, kw_only=True):
    """One commit of one worker.

    ``sequence`` counts the worker's commits from 1 without a gap, over all runs; ``term`` is the
    number of the run. ``wall`` is seconds since 1970, ``time`` is crawl time (0 in records of
    programs without crawl time, for which ``wall`` counts). ``lengths`` gives the committed bytes
    of each open output file (path relative to the crawl's folder). ``before`` gives for each
    partition of the worker the last commit before this one; from it a start detects that a log, or
    the beginning of one, is missing.

    Records of earlier versions lack ``before`` and the following fields. ``crawl`` is the UUID of
    the crawl, and ``shard`` the number of the shard or worker that made the commit (-1: unknown).
    ``inbox`` is the position up to which the shard's inbox is taken (0 where parcels come over
    sockets), ``settings`` the version of the live settings under which the commit was made.
    ``is_final`` says that the owner ended with this commit and had nothing in flight. ``sums`` are
    the CRC-32 of the committed bytes of open output files in an object store, by the names in
    ``lengths``. They are of a whole file, not of each part, because the log is trimmed while a
    segment is open, and a sum is continued with each commit. ``price`` is the price of a fetch that
    counted for the commit, and ``price_number`` its number (0 = no price yet). ``ranks`` is the
    digest of the ranks of hosts and pages that were in force, empty without any.
    """

    term: int
    sequence: int
    wall: float
    lengths: dict[str, int] = {}
    batches: list[PartitionBatch] = []
    before: dict[int, Mark] = {}
    time: float = 0.0
    crawl: str = ""
    shard: int = -1
    inbox: int = 0
    settings: int = 0
    is_final: bool = False
    sums: dict[str, int] = {}
    price: float = 0.0
    price_number: int = 0
    ranks: str = ""

    @property
    def mark(self) -> Mark:
        return Mark(self.term, self.sequence)


class LogDamaged(Exception):
    """Committed data in a log cannot be read. ``path`` and ``offset`` say where."""

    def __init__(self, path: Path, offset: int, what: str) -> None:
        super().__init__(
            f"{path}, byte {offset}: {what}; restore the file from a copy, because the records"
            " after it cannot be applied without it"
        )
        self.path, self.offset = path, offset


class LogTrimmed(LogDamaged):
    """The owner of a log trimmed it while it was read: nothing is lost, read it again."""

    def __init__(self, path: Path, offset: int) -> None:
        Exception.__init__(self, f"{path} was trimmed while it was read; it must be read again")
        self.path, self.offset = path, offset


def marked(batch: PartitionBatch, mark: Mark, worker: int) -> dict[bytes, bytes | None]:
    """The writes of a batch and its mark, to be applied to the partition's table at once."""
    return {**dict(batch.writes), MARK_KEY: mark.pack() + _WORKER.pack(worker)}
