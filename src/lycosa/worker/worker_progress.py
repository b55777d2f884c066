"""The progress of a worker: the snapshot of its meter, and what it waits for."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Mapping

from lycosa.base.config.sections import Config
from lycosa.base.messages.progress import (
    MAX_SLOWEST_HOSTS,
    MAX_UNREAD,
    HostNote,
    ProcessMemory,
    Progress,
    UnreadSeed,
)
from lycosa.base.reasons import Reason
from lycosa.base.system.loop_meter import LoopMeter
from lycosa.base.system.process_memory import cpu_s, held_by
from lycosa.cluster.coordinator.forecast import need_bucket
from lycosa.stages.frontier.due import NEVER_DUE
from lycosa.stages.frontier.visit_state import HostState, VisitState
from lycosa.stages.politeness.delay import delay_s
from lycosa.worker.assemble import Assembled

_SHARE = 0.02  # of the loop's time, for looking through all hosts


class ProgressReport:
    """Makes ``Progress`` values for one worker.

    Finding the slowest hosts is bounded to a share of the time.
    """

    def __init__(
        self,
        assembled: Assembled,
        config: Config,
        children: Callable[[], Mapping[str, int | None]] = dict,
        loop: LoopMeter | None = None,
        waits: Callable[[], str] = lambda: "",
    ) -> None:
        self._worker, self._meter = assembled.worker, assembled.meter
        self._undelivered, self._failures = assembled.outgoing.stalled, assembled.failures
        self._slots = assembled.sender.slots
        self._clock = assembled.clock
        self._pacing, self._host_pages = assembled.pacing, config.budgets.host_pages
        self._max_captures = config.limits.max_pages
        self._needed_bytes = config.store.min_free_bytes
        self._no_jitter = random.Random(0)
        self._children = children
        self._loop = loop
        self._waits, self._renders = waits, assembled.renders
        self._slowest: list[HostNote] = []
        self._needs: dict[int, int] = {}
        self._next_look = 0.0
        self._reported_at, self._waited_s = assembled.clock.monotonic(), 0.0

    @property
    def damaged(self) -> Mapping[str, str]:
        """Closed segments that are damaged, and what is wrong with them."""
        return self._worker.committer.damaged

    def make_report(self) -> Progress:
        memory = memory_of(self._children())
        now = self._clock.monotonic()
        if now >= self._next_look:
            self._look(now)
            self._next_look = now + max((self._clock.monotonic() - now) / _SHARE, 0.4)
        worker = self._worker
        held_by = self._waits() or worker.committer.waits_for or worker.outage_text
        held_by = held_by or worker.closed_text
        self._waited_s += now - self._reported_at if held_by else 0.0
        # Without the store of cold files the crawl continues, with larger tables.
        waits_for = held_by or worker.archiver.waits_for
        self._reported_at = now
        meter = self._meter
        meter.set("lycosa_wait_seconds_total", self._waited_s)
        meter.set("lycosa_memory_held_bytes", sum(each.own_bytes for each in memory))
        meter.set("lycosa_captures_limit", self._max_captures)
        meter.set("lycosa_disk_needed_bytes", self._needed_bytes)
        if self._loop is not None:
            meter.set("lycosa_loop_turn_seconds_max", self._loop.longest_turn_s)
        return Progress(
            meter=meter.snapshot(),
            next_in_s=self._next_in_s(now),
            slowest=self._slowest,
            needs=self._needs,
            memory=memory,
            is_idle=self._worker.is_idle,
            lacks_room=self._worker.lacks_room,
            reaches_nobody=self._worker.reaches_nobody,
            parser=self._worker.parser_health,
            undelivered=self._undelivered(),
            waits_for=waits_for,
            unread_seeds=[
                UnreadSeed(url, reason.label)
                for url, reason in self._worker.reparsing.unread_seeds(MAX_UNREAD)
            ],
            promises=self._worker.frontier.broken_promises(),
            failures=self._failures.notes(),
            renderers=self._renders.renderers() if self._renders is not None else [],
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

    def _look(self, now: float) -> None:
        """Find the hosts that need most time, and how many need how much."""
        frontier = self._worker.frontier
        hosts = [*frontier.workbench.hosts(), *frontier.in_process.values()]
        notes = [self._note(host, now) for host in hosts]
        self._slowest = heapq.nlargest(MAX_SLOWEST_HOSTS, notes, key=lambda note: note.need_s)
        self._needs = dict(Counter(need_bucket(note.need_s) for note in notes))

    def _note(self, host: VisitState, now: float) -> HostNote:
        record = host.record
        delay = delay_s(
            record.pace, self._pacing.section, self._clock.time(), self._no_jitter
        ).seconds
        reason = (
            record.detail
            if record.reason in (Reason.ROBOTS_UNREACHABLE, Reason.ROBOTS_ELSEWHERE)
            else ""
        ) or record.reason.label
        if record.state is not HostState.SNOOZED:
            slots = self._slots
            reason = slots.trouble(record.address, now) or slots.trouble(record.host, now)
        waiting = record.waiting + record.retrying
        if self._host_pages:  # the others will be parked
            waiting = min(waiting, max(self._host_pages - record.usage.captures, 0))
        return HostNote(
            record.host,
            waiting,
            delay,
            max(host.next_time - now, 0.0),
            reason,
        )


def memory_of(children: Mapping[str, int | None]) -> list[ProcessMemory]:
    """Memory and CPU time of this worker and of its child processes, by what they are for."""
    pids = {"worker": None, **{part: pid for part, pid in children.items() if pid}}
    return [ProcessMemory(part, *held_by(pid), cpu_s(pid)) for part, pid in pids.items()]
