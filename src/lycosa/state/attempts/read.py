"""Reads attempt logs: all of them for the audit, only their last runs after a crash.

A line that cannot be read is reported to ``on_damage`` and skipped. A kill may tear the last line
of a file, and after a power loss a part of the last file may be missing. Neither may stop a crawl
from starting; the audit counts such lines.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.pool_time import parse_pool_time
from lycosa.base.reasons import Reason
from lycosa.state.attempts.attempt_files import (
    ATTEMPT_LOG_DAMAGE,
    ATTEMPT_LOG_FORMAT,
    Attempt,
    attempt_files_of,
    open_file,
)

OnDamage = Callable[[Path, int], None]
"""Receives the file and the number (from 1) of a line that cannot be read."""


class Contact(NamedTuple):
    """The last request to a host.

    Times are those of its end or, when it never ended (``is_unfinished``), those until which it may
    have been running: ``monotonic`` on the clock of ``boot``, ``wall`` in seconds since 1970.
    ``delay_s`` is the effective delay decided at its end, 0 when it never ended.
    """

    wall: float
    monotonic: float
    boot: str
    is_unfinished: bool
    delay_s: float


class AttemptHead(NamedTuple):
    """The first line of a file.

    ``term`` is 0 when it is unknown. ``place`` names the machine and its table of addresses, in a
    cluster; elsewhere it is empty.
    """

    run: str
    boot: str
    wall: float
    monotonic: float
    term: int
    place: str = ""


def _ignore(path: Path, line: int) -> None:
    return None


def read_attempts(folder: Path, on_damage: OnDamage = _ignore) -> Iterator[Attempt]:
    """All attempts in the folder, of all workers, in the order of their ends.

    Within one boot the monotonic clock decides, because the wall clock may have been set back.
    """
    return read_attempt_files(attempt_files_of(folder), on_damage)


def read_attempt_files(
    files: Mapping[int, Sequence[Path]], on_damage: OnDamage = _ignore
) -> Iterator[Attempt]:
    """The same of given files: those of each worker, oldest first."""
    # wall minus monotonic time of each boot, when its first run began
    offsets: dict[str, float] = {}
    terms: dict[int, AttemptHead] = {}  # the first start of each
    for paths in files.values():
        for head in map(head_of, paths):
            if head is not None and head.boot:
                offsets.setdefault(head.boot, head.wall - head.monotonic)
            if head is not None and head.term:
                terms[head.term] = min(
                    head, terms.get(head.term, head), key=lambda each: each.monotonic
                )
    readers = (_Reader(worker, on_damage, terms).attempts(paths) for worker, paths in files.items())
    return heapq.merge(*readers, key=lambda attempt: _line_of_time(attempt, offsets))


def crashed_attempts(folder: Path, settling: Mapping[int, str]) -> list[Attempt]:
    """The attempts in flight at each worker's last crash, and those whose pages were being stored.

    ``settling`` returns the URL that was being stored, by worker. A run that ended on purpose has
    none of either.
    """
    found: list[Attempt] = []
    for worker, paths in attempt_files_of(folder).items():
        reader, url = _Reader(worker, _ignore), settling.get(worker)
        ended = [
            attempt
            for attempt in reader.attempts(_last_run(paths))
            if attempt.is_finished and attempt.url == url
        ]
        found += reader.left
        found += [] if reader.is_over else ended[-1:]
    return found


class Since(NamedTuple):
    """A time on both clocks.

    ``wall`` is seconds since 1970, ``monotonic`` is on the clock of ``boot``. An event that is
    later by either clock counts as later, because the wall clock may have been set in the meantime.
    """

    wall: float
    monotonic: float = float("inf")
    boot: str = ""

    def is_before(self, wall: float, monotonic: float, boot: str) -> bool:
        """Whether an event at the given times is not older than this time."""
        return wall >= self.wall or (
            boot != "" and boot == self.boot and monotonic >= self.monotonic
        )


def last_contacts(folder: Path, since: Since) -> dict[str, Contact]:
    """The last request to every host that was requested since then."""
    contacts: dict[str, Contact] = {}
    for worker, paths in attempt_files_of(folder).items():
        for attempt in _Reader(worker, _ignore).attempts(_since(paths, since)):
            contact = _contact(attempt)
            known = contacts.get(attempt.host)
            if since.is_before(contact.wall, contact.monotonic, contact.boot) and (
                known is None or _is_later(contact, known)
            ):
                contacts[attempt.host] = contact
    return contacts


class _Reader:
    """Pairs the lines of one worker's files."""

    def __init__(
        self, worker: int, on_damage: OnDamage, terms: Mapping[int, AttemptHead] | None = None
    ) -> None:
        self._worker, self._on_damage = worker, on_damage
        self._terms = sorted((terms or {}).items())
        self._head = AttemptHead("", "", 0.0, 0.0, 0)
        self._open: dict[int, Attempt] = {}
        self._last = (0.0, 0.0)  # monotonic and wall time of the last line
        self.is_over = False  # the run ended on purpose
        self.left: list[Attempt] = []  # unfinished, of runs that did not end on purpose

    def attempts(self, paths: Iterable[Path]) -> Iterator[Attempt]:
        """The attempts of consecutive files; unfinished ones once their run is known to be over."""
        for path in paths:
            number = 0
            try:
                with open_file(path) as file:
                    for number, line in enumerate(file, 1):
                        try:
                            yield from self._line(line)
                        except (ValueError, IndexError, OverflowError):
                            # One line is damaged. The lines after it are whole, because each is
                            # written by one ``write``.
                            self._on_damage(path, number)
            # the worker deleted this file and those before it after the folder was listed
            except FileNotFoundError:
                self._open.clear()
            except ATTEMPT_LOG_DAMAGE:
                for _ in range(2):  # two, because a kill may tear only one line
                    self._on_damage(path, number + 1)
        yield from self._broken_off(*self._last_moment(None))

    def _line(self, line: bytes) -> Iterable[Attempt]:
        if not line.endswith(b"\n"):
            raise ValueError("torn")
        fields = line[:-1].decode().split("\t")
        match fields[0]:
            case "B":
                self._begin(fields)
                return ()
            case "E":
                return self._end(fields)
            case "R":
                return self._start(fields)
            case "S":
                self._last = (_s(fields[1]), _s(fields[2]))
                over = list(self._broken_off(*self._last))
                self.left.clear()
                self.is_over = True
                return over
        raise ValueError(fields[0])

    def _start(self, fields: list[str]) -> Iterable[Attempt]:
        head = _parse_head(fields)
        if head.run == self._head.run:
            return ()
        over = list(self._broken_off(*self._last_moment(head)))
        self._head = head
        self.left.clear()
        self.is_over = False
        return over

    def _last_moment(self, following: AttemptHead | None) -> tuple[float, float]:
        """Monotonic and wall time until which the finished run can have continued.

        That is the worker's next start, or the start of a term without it, whichever came first.
        """
        own = self._head.term
        later = (
            next((first for number, first in self._terms if number > own), None) if own else None
        )
        head = (
            later
            if following is None or (later is not None and following.term > own)
            else following
        )
        if head is None:
            return self._last
        same_boot = head.boot == self._head.boot and head.boot != ""
        return (head.monotonic if same_boot else self._last[0]), head.wall

    def _begin(self, fields: list[str]) -> None:
        _, number, monotonic, wall, kind, address, host, url, *more = fields
        self._last = started, started_wall = _s(monotonic), _s(wall)
        self._open[int(number)] = Attempt(
            worker=self._worker,
            run=self._head.run,
            boot=self._head.boot,
            term=self._head.term,
            place=self._head.place,
            number=int(number),
            kind=FetchKind(int(kind)),
            host=host,
            address=address,
            url=url,
            slot=_checked(more[0]) if more else "",
            at_once=int(more[1]) if len(more) > 1 else 1,
            started=started,
            started_wall=started_wall,
            ended=started,
            ended_wall=started_wall,
            is_finished=False,
        )

    def _end(self, fields: list[str]) -> Iterable[Attempt]:
        _, number, monotonic, wall, outcome, status, duration, delay, *marks = fields
        if marks not in ([], ["own"]):
            raise ValueError("mark")
        self._last = ended, ended_wall = _s(monotonic), _s(wall)
        begun = self._open.pop(int(number), None)
        if begun is None:  # its first line was in a file that is no longer kept
            return ()
        return (
            msgspec.structs.replace(
                begun,
                ended=ended,
                ended_wall=ended_wall,
                is_finished=True,
                outcome=Reason(int(outcome)),
                status=int(status),
                duration_s=_s(duration),
                delay_s=_s(delay),
                is_own=bool(marks),
            ),
        )

    def _broken_off(self, monotonic: float, wall: float) -> Iterator[Attempt]:
        """The attempts that are still open, as ending at the given time."""
        last, _ = self._last
        self.left = [
            msgspec.structs.replace(
                begun, ended=monotonic, ended_wall=wall, duration_s=max(last - begun.started, 0.0)
            )
            for begun in self._open.values()
        ]
        self._open.clear()
        return iter(self.left)


def _line_of_time(attempt: Attempt, offsets: Mapping[str, float]) -> float:
    offset = offsets.get(attempt.boot)
    return attempt.ended_wall if offset is None else attempt.ended + offset


def _is_later(contact: Contact, known: Contact) -> bool:
    # Of equal ones the later one read: a request that never ended comes after those that did.
    if contact.boot and contact.boot == known.boot:
        return contact.monotonic >= known.monotonic
    return contact.wall >= known.wall


def _contact(attempt: Attempt) -> Contact:
    if attempt.is_finished:
        return Contact(attempt.ended_wall, attempt.ended, attempt.boot, False, attempt.delay_s)
    return Contact(attempt.ended_wall, attempt.ended, attempt.boot, True, 0.0)


def _last_run(paths: list[Path]) -> list[Path]:
    """The files of the last run: those at the end whose heads name the same run."""
    taken: list[Path] = []
    run: str | None = None
    for path in reversed(paths):
        head = head_of(path)
        if head is not None and run is not None and head.run != run:
            break
        run = head.run if head is not None else run
        taken.append(path)
    return taken[::-1]


def _since(paths: list[Path], since: Since) -> list[Path]:
    """The files that may contain an attempt that ended after a time.

    The file before them is included, because the attempt may have begun there.
    """
    first = len(paths)
    while first > 0:
        first -= 1
        head = head_of(paths[first])
        if head is not None and not since.is_before(head.wall, head.monotonic, head.boot):
            break
    return paths[max(0, first - 1) :]


def head_of(path: Path) -> AttemptHead | None:
    """The head of a file; ``None`` when a crash came before it was written."""
    try:
        with open_file(path) as file:
            return _parse_head(file.readline().decode().split("\t"))
    except (ValueError, FileNotFoundError, *ATTEMPT_LOG_DAMAGE):
        # Also a file that the worker deleted meanwhile, as one of its oldest.
        return None


def _parse_head(fields: list[str]) -> AttemptHead:
    # the first files of version 1 had no term
    tag, version, boot, run, wall, monotonic, *rest = fields
    if tag != "R" or int(version) != ATTEMPT_LOG_FORMAT or not monotonic:
        raise ValueError("not the head of an attempt log")
    place = rest[1].rstrip("\n") if len(rest) > 1 else ""
    return AttemptHead(run, boot, _s(wall), _s(monotonic), int(rest[0]) if rest else 0, place)


def _checked(slot: str) -> str:
    """The field as it is. Raises ``ValueError`` when it cannot be read."""
    parse_pool_time(slot)
    return slot


def _s(field: str) -> float:
    return int(field) / 1e6
