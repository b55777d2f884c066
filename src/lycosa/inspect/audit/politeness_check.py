"""Politeness by the attempt log: every pause of every host and every start at every address.

Pauses are checked across restarts too. The log has with each attempt the delay that was required
for its host. The end of an attempt that a crash interrupted is unknown; it counts as running until
the next start of its worker, and from then on the host requires the plain delay of the settings.

**In a cluster** requests of a host come from the owners of its shard, one after the other, so each
shard is judged by itself, its owners in the order of their terms. Between requests of one machine
the monotonic clock decides, between two machines wall clocks do. Each node has its own table of
addresses, so addresses are judged for each of them. Requests that got their slots from Redis are
judged over all nodes as well, by the clock of Redis, which each of them names. Before an import,
requests of a host came from another shard, or from a worker of one machine. These owners are judged
first, so the pause across the import is judged too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.audit_report import Check, HostPace, OnAuditProgress
from lycosa.inspect.audit.own_check import OwnFileAudit
from lycosa.stages.politeness.address_pool import divided
from lycosa.state.attempts import Attempt, Gap, address_use, gaps
from lycosa.state.attempts.coverage import (
    LoggedFile,
    UnprovenTime,
    read_logged_file,
    unproven_times,
)
from lycosa.state.attempts.gaps import WrongAttempt, overlaps
from lycosa.state.attempts.read import read_attempt_files
from lycosa.state.attempts.shipping import parse_shipped_key

_TICK_S = 2e-6  # times in the log are truncated to microseconds, both of them
# Between taking an address's slot and writing the log line, a busy loop may lose some time, for one
# request more than for the next.
_ADDRESS_TOLERANCE_S = 0.005
_NO_CONNECTION = frozenset(
    {Reason.CONNECT_REFUSED, Reason.CONNECT_TIMEOUT, Reason.NETWORK_UNREACHABLE}
)
_STEP = 20_000


class OwnersLogs(msgspec.Struct, frozen=True):
    """The attempt logs of the workers of one machine, or of all shards of a cluster.

    ``files`` are those of each worker or shard, oldest first. Of shards: ``terms`` are the newest
    terms (none after an import), ``first_term`` is that of the first owners, and ``lasts`` as in
    ``read_logged_file``.
    """

    files: Mapping[int, Sequence[Path]]
    is_machine: bool = True
    terms: Mapping[int, int] = {}
    first_term: int = 1
    lasts: Mapping[int, Container[tuple[int, int]]] = {}

    def attempts(self, on_damage: Callable[[Path, int], None]) -> Iterator[Attempt]:
        """All attempts, those of each host in the order of their ends."""
        if self.is_machine:  # any worker may have requested any host, in different runs
            yield from read_attempt_files(self.files, on_damage)
            return
        for shard, paths in sorted(self.files.items()):
            yield from read_attempt_files({shard: paths}, on_damage)

    def unproven(self) -> Iterator[UnprovenTime]:
        """The times of shards for which no log exists."""
        for shard, paths in [] if self.is_machine else sorted(self.files.items()):
            found = (read_logged_file(path, _number(path), self.lasts[shard]) for path in paths)
            logged: list[LoggedFile] = [each for each in found if each is not None]
            yield from unproven_times(shard, logged, self.terms.get(shard, 0), self.first_term)


class AttemptLogs(msgspec.Struct, frozen=True):
    """All attempt logs of a crawl, and how they are compared: see ``PolitenessChecks``.

    ``read`` gives those of earlier owners first. It may take long.
    """

    read: Callable[[OnAuditProgress], Iterable[OwnersLogs]]
    until: float | None = None
    nodes: int = 1
    clock_tolerance_s: float = 0.0


class PolitenessChecks:
    """The checks of the attempt logs; ``check_logs`` reads them once.

    Memory is 16 bytes an attempt, and one attempt a host; of an own host with several requests at
    once, those of about an hour. For a running crawl, ``until`` limits the
    checks to requests that began before that wall time (seconds). The logs of its workers are read
    one after the other, so a request that is open in one may have ended before the last request of
    another began. ``nodes`` is the number of nodes that divide the limits of addresses, apart from
    slots that the address pool gave. ``clock_tolerance_s`` says by how much the clocks of two
    machines may differ. ``own`` has read the files that prove own hosts.
    """

    def __init__(
        self,
        section: PolitenessSection,
        want_hosts: bool,
        progress: OnAuditProgress,
        until: float | None = None,
        nodes: int = 1,
        clock_tolerance_s: float = 0.0,
        own: OwnFileAudit | None = None,
    ) -> None:
        self._own = own
        self.hosts = Check(
            "host pauses",
            "pauses between two requests to one host, against the required delay",
        )
        self.addresses = Check(
            "addresses",
            "addresses: time between two starts and simultaneous requests, against the settings",
        )
        self.paces: dict[str, HostPace] = {}
        self._section, self._whole = divided(section, nodes), section
        self._want_hosts = want_hosts
        self._progress, self._until = progress, until
        self._read = self._pooled = 0
        self._second_addresses = 0
        self._damaged: dict[str, int] = {}
        self._last: dict[str, Attempt] = {}
        self._at_once: dict[str, list[Attempt]] = {}
        self._clock_tolerance_s = clock_tolerance_s

    def all_checks(self) -> list[Check]:
        has_own = self._own is not None and (self._own.check.checked or self._own.check.notes)
        own = [self._own.check] if self._own is not None and has_own else []
        return [self.hosts, self.addresses, *own]

    def check_logs(self, groups: Iterable[OwnersLogs]) -> list[UnprovenTime]:
        """Check all logs, earlier owners first; returns the times without a log."""
        unproven: list[UnprovenTime] = []
        for logs in groups:
            attempts: Iterable[Attempt] = logs.attempts(self._note_damage)
            if (until := self._until) is not None:
                attempts = (attempt for attempt in attempts if attempt.started_wall < until)
            # the workers of one machine share one table of addresses
            self._check_attempts(attempts, self._whole if logs.is_machine else self._section)
            unproven += logs.unproven()
        for host in list(self._at_once):
            self._judge_at_once(host)
        self._add_notes()
        return unproven

    def _check_attempts(self, attempts: Iterable[Attempt], own: PolitenessSection) -> None:
        """Check pauses and addresses; ``own`` are the limits of a table of addresses."""
        for use in address_use(self._each(attempts)):
            place = f" from {use.place}" if use.place else ""
            if use.server:
                place = f" from all machines, by Redis {use.server}"
                self._pooled += use.requests
            told = f"{use.address}, {use.requests} requests{place}"
            section = self._whole if use.is_shared else own
            delay, slots = section.address_delay_s, section.address_slots
            self.addresses.expect(
                use.min_gap_s >= delay - _ADDRESS_TOLERANCE_S,
                f"{told}: two starts {use.min_gap_s:.6f} s apart; the setting is {delay:g} s",
            )
            self.addresses.expect(
                use.most_at_once <= slots,
                f"{told}: {use.most_at_once} at once; the setting is {slots}",
            )

    def _add_notes(self) -> None:
        """Add notes about what could not be judged."""
        if self._pooled:
            self.addresses.add_note(
                f"{self._pooled} requests got their slots from Redis, and are compared over all"
                " machines by its clock"
            )
        if self._second_addresses:
            self.hosts.add_note(
                f"{self._second_addresses} requests went to a second address of a host without a"
                " pause, because the first gave no connection"
            )
        for name, lines in self._damaged.items():
            self.hosts.add_note(
                f"{name}: {lines} lines cannot be read (a kill may tear the last one)"
            )
            if lines > 1:
                self.hosts.add_breach(
                    f"{name}: {lines} lines cannot be read, so pauses there are not proven"
                )
        if self._clock_tolerance_s:
            self.hosts.add_note(
                "between requests of two machines the clocks may differ by"
                f" {self._clock_tolerance_s:g} s"
            )

    def _each(self, attempts: Iterable[Attempt]) -> Iterator[Attempt]:
        """Yield the attempts, and check the pauses between them."""
        passed: list[Attempt] = []

        def tapped() -> Iterator[Attempt]:
            for attempt in attempts:
                self._read += 1
                if self._read % _STEP == 0:
                    self._progress("attempts", self._read, 0)
                passed.append(attempt)
                if attempt.is_own or attempt.at_once > 1:
                    self._check_own(attempt)
                if not self._is_at_once(attempt):
                    yield attempt

        for gap in gaps(tapped(), self._last):
            self._judge(gap)
            yield from passed
            passed.clear()
        yield from passed

    def _is_at_once(self, attempt: Attempt) -> bool:
        """Whether an attempt is judged with others of its host that may have been open with it.

        These are all from the last one before the first marked one to the next one that is not
        marked, as robots.txt and the file of an own host, so they stay few.
        """
        host = attempt.host
        gathered = self._at_once.get(host)
        if attempt.at_once > 1:
            if gathered is None:
                last = self._last.get(host)
                gathered = self._at_once[host] = [] if last is None else [last]
            gathered.append(attempt)
        elif gathered is not None:
            gathered.append(attempt)
            self._judge_at_once(host)
            self._last[host] = attempt
        return gathered is not None

    def _judge_at_once(self, host: str) -> None:
        gathered = self._at_once.pop(host)
        is_one_clock = len({each.boot for each in gathered}) == 1 and gathered[0].boot != ""
        tolerance_s = _TICK_S if is_one_clock else max(self._clock_tolerance_s, _TICK_S)
        self.hosts.checked += len(gathered) - 1
        for each in overlaps(gathered, self._due_s, tolerance_s):
            self.hosts.add_breach(_message_of_overlap(each))

    def _check_own(self, attempt: Attempt) -> None:
        if self._own is not None:
            self._own.check_attempt(attempt)
        else:
            self.hosts.add_note("attempts at own hosts: the files that prove them were not read")

    def _judge(self, gap: Gap) -> None:
        previous, following = gap.previous, gap.following
        if _is_second_address(previous, following):
            self._second_addresses += 1
            return
        due_s = self._due_s(previous)
        is_one_clock = previous.boot == following.boot and previous.boot != ""
        tolerance_s = _TICK_S if is_one_clock else max(self._clock_tolerance_s, _TICK_S)
        self.hosts.expect(gap.gap_s >= due_s - tolerance_s, _message_of(gap, due_s))
        if self._want_hosts:
            self._pace(gap, due_s)

    def _due_s(self, previous: Attempt) -> float:
        if previous.is_finished and not _is_cancelled(previous):
            return previous.delay_s
        # The delay of the settings, unless the line has a shorter one, as an operator may decide.
        return min(self._section.delay_s, previous.delay_s or self._section.delay_s)

    def _pace(self, gap: Gap, due_s: float) -> None:
        known, margin = self.paces.get(gap.host), gap.gap_s - due_s
        if known is None:
            self.paces[gap.host] = HostPace(gap.host, 2, gap.gap_s, due_s, margin)
        elif margin < known.margin_s:
            self.paces[gap.host] = HostPace(gap.host, known.requests + 1, gap.gap_s, due_s, margin)
        else:
            self.paces[gap.host] = HostPace(
                gap.host, known.requests + 1, known.shortest_s, known.due_s, known.margin_s
            )

    def _note_damage(self, path: Path, line: int) -> None:
        """Count a line that cannot be read."""
        self._damaged[path.name] = self._damaged.get(path.name, 0) + 1


def _number(path: Path) -> int:
    found = parse_shipped_key("/".join(path.parts[-3:]))
    return found.number if found else 0


def _is_second_address(previous: Attempt, following: Attempt) -> bool:
    """Whether the same URL was tried at another address after no connection, so without load."""
    return (
        previous.outcome in _NO_CONNECTION
        and previous.url == following.url
        and previous.address != following.address
    )


def _is_cancelled(attempt: Attempt) -> bool:
    """Whether the crawler cancelled the request. In older logs its line has no delay."""
    return attempt.outcome is Reason.INTERNAL and not attempt.status


def _message_of_overlap(found: WrongAttempt) -> str:
    attempt, previous = found.attempt, found.previous
    who = f"(worker {attempt.worker}, run {attempt.run})"
    if previous is not None:
        return (
            f"{attempt.host}: {attempt.url} began {found.early_s:.6f} s too early after"
            f" {previous.url} {who}"
        )
    return (
        f"{attempt.host}: {found.number} requests were open when {attempt.url} began;"
        f" {found.most} may be {who}"
    )


def _message_of(gap: Gap, due_s: float) -> str:
    what = (
        f"{gap.host}: {gap.following.url} began {gap.gap_s:.6f} s after the end of"
        f" {gap.previous.url}"
    )
    if gap.gap_s < 0:
        what = (
            f"{gap.host}: {gap.following.url} began {-gap.gap_s:.6f} s before the end of"
            f" {gap.previous.url}"
        )
    return (
        f"{what}; {due_s:.6f} s were due (worker {gap.following.worker}, run {gap.following.run})"
    )
