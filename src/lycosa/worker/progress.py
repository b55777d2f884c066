"""The progress of a worker: counts, and what it waits for."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence

from lycosa.cluster.worker_messages import HostNote, ProcessMemory, Progress
from lycosa.config.sections import Config
from lycosa.folder.run_cost import cpu_s
from lycosa.frontier.counters import Counters
from lycosa.frontier.crawl_clock import CrawlClock
from lycosa.frontier.due import NEVER_DUE
from lycosa.frontier.visit_state import HostState, VisitState
from lycosa.model.completed import UrlState
from lycosa.politeness.delay import delay_s
from lycosa.reasons import Reason
from lycosa.system.loop_meter import LoopMeter
from lycosa.system.memory import held_by
from lycosa.worker.worker import Worker

_SLOWEST = 5
_SHARE = 0.02  # of the loop's time, for looking through all hosts


class ProgressReport:
    """Makes ``Progress`` values for one worker.

    Finding the slowest hosts is bounded to a share of the time.
    """

    def __init__(
        self,
        worker: Worker,
        config: Config,
        clock: CrawlClock,
        parser_pid: Callable[[], int | None] = lambda: None,
        undelivered: Callable[[], str] = lambda: "",
        meter: LoopMeter | None = None,
        waits: Callable[[], str] = lambda: "",
    ) -> None:
        self._worker = worker
        self._politeness = config.politeness
        self._clock = clock
        self._no_jitter = random.Random(0)
        self._parser_pid = parser_pid
        self._undelivered = undelivered
        self._meter = meter
        self._waits = waits
        self._slowest: list[HostNote] = []
        self._next_look = 0.0

    def make_report(self) -> Progress:
        memory = memory_of(self._parser_pid())
        now = self._clock.monotonic()
        frontier = self._worker.frontier
        snapshot = frontier.snapshot(now)
        if now >= self._next_look:
            self._slowest = self._look(now)
            self._next_look = now + max((self._clock.monotonic() - now) / _SHARE, 0.4)
        totals = [p.counters for p in frontier.partitions.values()]
        states, reasons, refusals = _by_name(totals)
        return Progress(
            discovered=sum(c.discovered for c in totals),
            states=states,
            captures=sum(c.captures for c in totals),
            committed=self._worker.committer.captures,
            pages=sum(c.pages for c in totals),
            requests=sum(c.requests for c in totals),
            body_bytes=sum(c.body_bytes for c in totals),
            reasons=reasons,
            rule_refusals=refusals,
            running=self._worker.running,
            hosts_ready=snapshot.ready,
            hosts_snoozed=snapshot.snoozed,
            hosts_benched=snapshot.benched,
            hosts_front=snapshot.front,
            hosts_parked=sum(c.hosts_parked for c in totals),
            hosts_retired=sum(c.hosts_retired for c in totals),
            hosts_paused=sum(c.hosts_paused for c in totals),
            leased=sum(c.leased for c in totals),
            hosts=sum(c.hosts for c in totals),
            next_in_s=self._next_in_s(now),
            slowest=self._slowest,
            memory_bytes=sum(each.own_bytes for each in memory),
            memory=memory,
            commits=self._worker.committer.commits,
            is_idle=self._worker.is_idle,
            lacks_room=self._worker.lacks_room,
            reaches_nobody=self._worker.reaches_nobody,
            parser=self._worker.parser_health,
            unparsed=self._worker.reparsing.waiting(),
            reparsed=self._worker.reparsing.done.parsed,
            undelivered=self._undelivered(),
            waits_for=self._waits() or self._worker.committer.waits_for,
            longest_turn_s=self._meter.longest_turn_s if self._meter else 0.0,
        )

    def _next_in_s(self, now: float) -> float:
        """Seconds until a host is ready or a retry or a waiting host is due; -1 if none is."""
        frontier, time = self._worker.frontier, self._clock.time()
        times = [
            float(due) - time
            for p in frontier.partitions.values()
            if (due := p.next_due()) < NEVER_DUE
        ]
        ready = frontier.next_time()
        if ready is not None:
            times.append(ready - now)
        return max(min(times), 0.0) if times else -1.0

    def _look(self, now: float) -> list[HostNote]:
        frontier = self._worker.frontier
        hosts = [*frontier.workbench.hosts(), *frontier.in_process.values()]
        return heapq.nlargest(
            _SLOWEST, (self._note(host, now) for host in hosts), key=lambda note: note.need_s
        )

    def _note(self, host: VisitState, now: float) -> HostNote:
        record = host.record
        delay = delay_s(record.pace, self._politeness, self._clock.time(), self._no_jitter).seconds
        reason = (
            record.detail
            if record.reason in (Reason.ROBOTS_UNREACHABLE, Reason.ROBOTS_ELSEWHERE)
            else ""
        ) or record.reason.label
        reason = reason if record.state is HostState.SNOOZED else ""
        return HostNote(
            record.host,
            record.waiting + record.retrying,
            delay,
            max(host.next_time - now, 0.0),
            reason,
        )


def _by_name(totals: Sequence[Counters]) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """States, reasons and refusals of all partitions, by name."""
    states: dict[str, int] = {}
    reasons: dict[str, int] = {}
    refusals: dict[str, int] = {}
    for counters in totals:
        for state, number in counters.states.items():
            count_by_name(states, UrlState(state).label, number)
        for reason, number in counters.reasons.items():
            count_by_name(reasons, Reason(reason).label, number)
        for reason, number in counters.rule_refusals.items():
            count_by_name(refusals, Reason(reason).label, number)
    return states, reasons, refusals


def count_by_name(table: dict[str, int], name: str, number: int) -> None:
    table[name] = table.get(name, 0) + number


def memory_of(parser_pid: int | None) -> list[ProcessMemory]:
    """Memory and CPU time of this worker and its parser."""
    found = [ProcessMemory("worker", *held_by(), cpu_s())]
    return (
        [*found, ProcessMemory("parser", *held_by(parser_pid), cpu_s(parser_pid))]
        if parser_pid
        else found
    )
