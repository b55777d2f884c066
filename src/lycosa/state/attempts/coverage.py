"""Which times the attempt logs of a shard prove, and which they cannot.

A shard's logs come from all machines that owned it. A log that was read is complete from its first
line to its last. Its worker ended at its last line if it says so, or if its machine says later that
there is no other file. Otherwise the worker may have sent requests after it that no file has. The
file before a later one of the same worker is complete up to the head of that one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import msgspec

from lycosa.state.attempts.attempt_files import ATTEMPT_LOG_DAMAGE, open_file
from lycosa.state.attempts.read import AttemptHead, head_of


class LoggedFile(msgspec.Struct, frozen=True):
    """A closed file of a worker of a shard.

    ``number`` is that of the file on its machine. ``until`` is the wall time of its last line, and
    ``is_last`` says that its worker ended there.
    """

    number: int
    head: AttemptHead
    until: float
    is_last: bool


class UnprovenTime(msgspec.Struct, frozen=True):
    """A time for which no attempt log of a shard exists.

    Wall times by the clocks of the machines; 0 = unknown, before the first or after the last file.
    """

    shard: int
    term: int
    since: float
    until: float
    why: str


def read_logged_file(
    path: Path, number: int, lasts: Container[tuple[int, int]] = ()
) -> LoggedFile | None:
    """What a file covers; ``None`` when its head cannot be read. Raises ``OSError``.

    ``lasts`` are the last files of dead owners, by term and number.
    """
    head = head_of(path)
    if head is None:
        return None
    until, is_last = head.wall, False
    try:
        with open_file(path) as file:
            for line in file:
                kind = line[:2]
                if kind in (b"B\t", b"E\t", b"S\t") and line.endswith(b"\n"):
                    until = max(until, _wall_in(line, kind))
                    is_last = kind == b"S\t"
    except ATTEMPT_LOG_DAMAGE:
        is_last = False  # the reader of attempts reports the damage
    return LoggedFile(number, head, until, is_last or (head.term, number) in lasts)


def unproven_times(
    shard: int, files: Sequence[LoggedFile], newest_term: int, first_term: int = 1
) -> Iterator[UnprovenTime]:
    """The gaps between the files of a shard, ordered by term and number.

    ``newest_term`` is the term of its present or last owner (0 = unknown), ``first_term`` that of
    its first one.
    """
    known = first_term - 1  # the last term that has a file
    since = 0.0
    last: LoggedFile | None = None
    for file in files:
        term = file.head.term
        if term != known:
            yield from _between(shard, last, known, file, since)
        elif last is not None and file.number != last.number + 1:
            yield UnprovenTime(
                shard, term, last.until, file.head.wall, "files between these two are missing"
            )
        known, last, since = term, file, file.until
    if last is None:
        if newest_term >= first_term:
            yield UnprovenTime(shard, newest_term, 0.0, 0.0, _no_file(first_term, newest_term))
        return
    if not last.is_last:
        why = "the last file was not sent: its worker runs, or was killed, or its machine is lost"
        yield UnprovenTime(shard, known, last.until, 0.0, why)
    if newest_term > known:
        yield UnprovenTime(shard, newest_term, last.until, 0.0, _no_file(known + 1, newest_term))


def _between(
    shard: int, last: LoggedFile | None, known: int, file: LoggedFile, since: float
) -> Iterator[UnprovenTime]:
    """The gap in front of the first file of a term."""
    head = file.head
    if last is not None and not last.is_last:
        why = "the last file of this term was not sent: its machine may be lost"
        yield UnprovenTime(shard, known, since, head.wall, why)
    if head.term > known + 1:
        yield UnprovenTime(
            shard, head.term - 1, since, head.wall, _no_file(known + 1, head.term - 1)
        )
    first = _first_number(head)
    if first and file.number != first:
        yield UnprovenTime(
            shard, head.term, since, head.wall, f"files {first} to {file.number - 1} are missing"
        )


def _no_file(first: int, last: int) -> str:
    terms = f"term {first}" if first == last else f"terms {first} to {last}"
    return f"no file of {terms} was sent: the machine was lost, or no request was sent"


def _first_number(head: AttemptHead) -> int:
    """The number of the first file of the same worker process; 0 when it is unknown."""
    number = head.run.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _wall_in(line: bytes, kind: bytes) -> float:
    fields = line.split(b"\t", 4)
    try:
        return int(fields[2 if kind == b"S\t" else 3]) / 1e6
    except (ValueError, IndexError):
        # A line that a crash cut. 0 is before every other time, so nothing is concluded from it.
        return 0.0
