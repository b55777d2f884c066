"""What a commit is: a value with the write batches of all partitions, and the mark by which commits
are ordered.

Partitions may be dealt to other workers at the start of a run, never within one. A record therefore
carries the run's number (``term``), and (term, sequence) orders all batches of one partition,
whatever logs they are in.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import msgspec

MARK_KEY = b"M:commit"
"""Where a partition's table holds the mark of the last commit it contains, and the worker that
made it.
"""

_MARK = struct.Struct(">IQ")
_WORKER = struct.Struct(">I")


class Mark(NamedTuple):
    """Position of a commit among all those of one partition; greater is later. ``(0, 0)`` is
    before all.
    """

    term: int
    sequence: int

    def pack(self) -> bytes:
        return _MARK.pack(*self)

    @staticmethod
    def unpack(value: bytes | None) -> Mark:
        """The mark that a partition's table holds under ``MARK_KEY``; an absent one is before
        all.
        """
        return Mark(0, 0) if value is None else Mark(*_MARK.unpack_from(value))


NOTHING = Mark(0, 0)
"""Before all commits."""


def maker_of(value: bytes | None) -> int | None:
    """The worker that made the commit under ``MARK_KEY``; ``None`` when an earlier version wrote
    it, which did not say.
    """
    if value is None or len(value) < _MARK.size + _WORKER.size:
        return None
    (worker,) = _WORKER.unpack_from(value, _MARK.size)
    return int(worker)


class PartitionBatch(msgspec.Struct, array_like=True, gc=False):
    """What one commit writes to one partition: keys with their new value, ``None`` to delete."""

    partition: int
    writes: dict[bytes, bytes | None] | list[tuple[bytes, bytes | None]]


class Commit(msgspec.Struct, array_like=True, kw_only=True):
    """One commit of one worker.

    ``sequence`` counts the worker's commits from 1 without a gap, over all runs; ``term`` is the
    number of the run; ``wall`` is seconds since 1970, ``time`` crawl time (0: a program that had
    none wrote it, and it was ``wall``). ``lengths`` gives the committed bytes of each output file
    that is open (path relative to the crawl's folder). ``before`` gives, for each partition that
    the worker owns, the last commit before this one: by it a start sees that a log, or the front of
    one, is missing. Records of earlier versions have none, and neither the next five: ``crawl`` is
    the UUID of the crawl, ``shard`` the number of the shard or worker that made the commit (-1: not
    said), ``inbox`` the position up to which the shard's inbox is taken (0 where parcels come over
    sockets), ``settings`` the version of the live settings that it was made under. ``is_final``
    says that the owner ended with this commit and had nothing under way.
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

    @property
    def mark(self) -> Mark:
        return Mark(self.term, self.sequence)


class LogDamaged(Exception):
    """A log cannot be read although what is unreadable was committed. ``path`` and ``offset``
    say where.
    """

    def __init__(self, path: Path, offset: int, what: str) -> None:
        super().__init__(
            f"{path}, byte {offset}: {what}; restore the file from a copy, what follows it cannot"
            " be applied without it"
        )
        self.path, self.offset = path, offset


def marked(batch: PartitionBatch, mark: Mark, worker: int) -> dict[bytes, bytes | None]:
    """The writes of a batch with the mark behind them: what is applied to the partition's table,
    in one go.
    """
    return {**dict(batch.writes), MARK_KEY: mark.pack() + _WORKER.pack(worker)}
