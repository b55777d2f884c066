"""Reads attempt logs back: all of them for the audit, only their ends after a crash.

A line that cannot be read is told to ``on_damage`` and skipped: the last line of a file may be torn
by a kill, and after a power loss a part of the last file may be missing. What follows must not stop
a crawl from starting; the audit counts it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from lycosa.attempts.files import DAMAGED, FORMAT, Attempt, files_of, open_file
from lycosa.model.fetched import FetchKind
from lycosa.reasons import Reason

OnDamage = Callable[[Path, int], None]
"""Gets the file and the number of a line (from 1) that cannot be read."""


class Contact(NamedTuple):
    """The last time that a host was asked for something.

    Times are those of the end, or of the start when it never ended (``is_unfinished``):
    ``monotonic`` on the clock of ``boot``, ``wall`` in seconds since 1970. ``delay_s`` is the
    effective delay that was decided then, 0 when it never ended.
    """

    wall: float
    monotonic: float
    boot: str
    is_unfinished: bool
    delay_s: float


class _Head(NamedTuple):
    """The first line of a file."""

    run: str
    boot: str
    wall: float
    monotonic: float
    session: int  # 0: not known


def _ignore(path: Path, line: int) -> None:
    return None


def read_attempts(folder: Path, on_damage: OnDamage = _ignore) -> Iterator[Attempt]:
    """All attempts that the folder still holds, of all workers, in the order of their ends.

    Within one boot the monotonic clock decides: the wall clock may have been set back meanwhile.
    """
    files = files_of(folder)
    offsets: dict[
        str, float
    ] = {}  # wall minus monotonic time of each boot, when its first run began
    sessions: dict[int, _Head] = {}  # the first start of each
    for paths in files.values():
        for head in map(_head, paths):
            if head is not None and head.boot:
                offsets.setdefault(head.boot, head.wall - head.monotonic)
            if head is not None and head.session:
                sessions[head.session] = min(
                    head, sessions.get(head.session, head), key=lambda each: each.monotonic
                )
    readers = (
        _Reader(worker, on_damage, sessions).attempts(paths) for worker, paths in files.items()
    )
    return heapq.merge(*readers, key=lambda attempt: _line_of_time(attempt, offsets))


def unfinished(folder: Path) -> list[Attempt]:
    """What was in flight when each worker's last run crashed; nothing of a run that ended on
    purpose.
    """
    found: list[Attempt] = []
    for worker, paths in files_of(folder).items():
        reader = _Reader(worker, _ignore)
        for _ in reader.attempts(_last_run(paths)):
            pass
        found += reader.left
    return found


def crashed_attempts(folder: Path, settling: Mapping[int, str]) -> list[Attempt]:
    """What was in flight when each worker's last run crashed, and what had ended in it and was
    being stored.

    ``settling`` is the URL of the latter by worker. Nothing of a run that ended on purpose.
    """
    found: list[Attempt] = []
    for worker, paths in files_of(folder).items():
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
    """A time on both clocks: ``wall`` in seconds since 1970, and ``monotonic`` on the clock of
    ``boot``.

    What is later by either of them counts as later: the wall clock may have been set forward or
    back meanwhile.
    """

    wall: float
    monotonic: float = float("inf")
    boot: str = ""

    def is_before(self, wall: float, monotonic: float, boot: str) -> bool:
        """Whether something that happened then is not older than this."""
        return wall >= self.wall or (
            boot != "" and boot == self.boot and monotonic >= self.monotonic
        )


def last_contacts(folder: Path, since: Since) -> dict[str, Contact]:
    """The last contact of every host that was asked for something since then."""
    contacts: dict[str, Contact] = {}
    for worker, paths in files_of(folder).items():
        for attempt in _Reader(worker, _ignore).attempts(_since(paths, since)):
            contact = _contact(attempt)
            known = contacts.get(attempt.host)
            if since.is_before(contact.wall, contact.monotonic, contact.boot) and (
                known is None or _is_later(contact, known)
            ):
                contacts[attempt.host] = contact
    return contacts


def last_boots(folder: Path) -> set[str]:
    """The boots in which the workers last ran; another one than the present means that the
    machine went down since.
    """
    heads = (_head(paths[-1]) for paths in files_of(folder).values())
    return {head.boot for head in heads if head is not None}


class _Reader:
    """Pairs the lines of one worker's files."""

    def __init__(
        self, worker: int, on_damage: OnDamage, sessions: Mapping[int, _Head] | None = None
    ) -> None:
        self._worker, self._on_damage = worker, on_damage
        self._sessions = sorted((sessions or {}).items())
        self._head = _Head("", "", 0.0, 0.0, 0)
        self._open: dict[int, Attempt] = {}
        self._last = (0.0, 0.0)  # monotonic and wall time of the last line
        self.is_over = False  # the run ended on purpose
        self.left: list[Attempt] = []  # begun and never ended in runs that did not end on purpose

    def attempts(self, paths: Iterable[Path]) -> Iterator[Attempt]:
        """The attempts of consecutive files; unfinished ones when their run is known to be over."""
        for path in paths:
            number = 0
            try:
                with open_file(path) as file:
                    for number, line in enumerate(file, 1):
                        try:
                            yield from self._line(line)
                        except (ValueError, IndexError, OverflowError):
                            self._on_damage(path, number)
            # dropped by its worker since the folder was listed, as those before it
            except FileNotFoundError:
                self._open.clear()
            except DAMAGED:
                for _ in range(2):  # more than the one line that a kill may tear
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

    def _last_moment(self, following: _Head | None) -> tuple[float, float]:
        """Monotonic and wall time until which the run that is over may have gone on: the worker's
        next start, or that of a session without it, whichever came first.
        """
        own = self._head.session
        later = (
            next((first for number, first in self._sessions if number > own), None) if own else None
        )
        head = (
            later
            if following is None or (later is not None and following.session > own)
            else following
        )
        if head is None:
            return self._last
        same_boot = head.boot == self._head.boot and head.boot != ""
        return (head.monotonic if same_boot else self._last[0]), head.wall

    def _begin(self, fields: list[str]) -> None:
        _, number, monotonic, wall, kind, address, host, url = fields
        self._last = started, started_wall = _s(monotonic), _s(wall)
        self._open[int(number)] = Attempt(
            worker=self._worker,
            run=self._head.run,
            boot=self._head.boot,
            number=int(number),
            kind=FetchKind(int(kind)),
            host=host,
            address=address,
            url=url,
            started=started,
            started_wall=started_wall,
            ended=started,
            ended_wall=started_wall,
            is_finished=False,
        )

    def _end(self, fields: list[str]) -> Iterable[Attempt]:
        _, number, monotonic, wall, outcome, status, duration, delay = fields
        self._last = ended, ended_wall = _s(monotonic), _s(wall)
        begun = self._open.pop(int(number), None)
        if begun is None:  # its first line is in a file that is no longer kept
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
            ),
        )

    def _broken_off(self, monotonic: float, wall: float) -> Iterator[Attempt]:
        """What is still open, as attempts that ended at the latest then."""
        self.left = [
            msgspec.structs.replace(begun, ended=monotonic, ended_wall=wall)
            for begun in self._open.values()
        ]
        self._open.clear()
        return iter(self.left)


def _line_of_time(attempt: Attempt, offsets: Mapping[str, float]) -> float:
    offset = offsets.get(attempt.boot)
    return attempt.ended_wall if offset is None else attempt.ended + offset


def _is_later(contact: Contact, known: Contact) -> bool:
    if contact.boot and contact.boot == known.boot:
        return contact.monotonic > known.monotonic
    return contact.wall > known.wall


def _contact(attempt: Attempt) -> Contact:
    if attempt.is_finished:
        return Contact(attempt.ended_wall, attempt.ended, attempt.boot, False, attempt.delay_s)
    return Contact(attempt.started_wall, attempt.started, attempt.boot, True, 0.0)


def _last_run(paths: list[Path]) -> list[Path]:
    """The files of the last run: those at the end whose heads name the same one."""
    taken: list[Path] = []
    run: str | None = None
    for path in reversed(paths):
        head = _head(path)
        if head is not None and run is not None and head.run != run:
            break
        run = head.run if head is not None else run
        taken.append(path)
    return taken[::-1]


def _since(paths: list[Path], since: Since) -> list[Path]:
    """The files that may hold an attempt that ended after a time, and the one before them, where
    it may have begun.
    """
    first = len(paths)
    while first > 0:
        first -= 1
        head = _head(paths[first])
        if head is not None and not since.is_before(head.wall, head.monotonic, head.boot):
            break
    return paths[max(0, first - 1) :]


def _head(path: Path) -> _Head | None:
    """The head of a file; ``None`` when a crash came before it was written."""
    try:
        with open_file(path) as file:
            return _parse_head(file.readline().decode().split("\t"))
    except (ValueError, FileNotFoundError, *DAMAGED):
        return None


def _parse_head(fields: list[str]) -> _Head:
    tag, version, boot, run, wall, monotonic, *session = (
        fields  # version 1 had no sessions at first
    )
    if tag != "R" or int(version) != FORMAT or not monotonic:
        raise ValueError("not the head of an attempt log")
    return _Head(run, boot, _s(wall), _s(monotonic), int(session[0]) if session else 0)


def _s(field: str) -> float:
    return int(field) / 1e6
