"""A worker: one loop that owns partitions and takes their hosts through the pipeline.

The loop starts visits while slots are free and hosts are ready. It wakes hosts that are due, and
has the results committed about every second (``committer``). It ends when no work is left, a limit
is reached or it is stopped; a continuous crawl then sleeps until the next due time instead.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any

from lycosa.base.config.sections import FetchSection, RenderSection
from lycosa.base.model.end import End
from lycosa.base.model.parsed import ParserHealth
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.schedule.fetch_outcome import is_unreached
from lycosa.state.attempts import Suspicion
from lycosa.worker.commit.commit_parts import CommitParts
from lycosa.worker.idle_pause import IDLE_S, STILL_S, IdlePause
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels
from lycosa.worker.owned_shard import OwnedShard
from lycosa.worker.run_signals import RunSignals
from lycosa.worker.visit.visit_in_progress import Visit
from lycosa.worker.visit.visit_parts import VisitParts

_STARTED_AT_ONCE = 32  # visits in one turn of the loop
_WALK_S = 0.02  # between two slices of records under changed policies
_DISK_S = 1.0  # between checks of the disk's free space
_REPARSE_S = 600.0  # until bodies are parsed again for which the machine was too busy


class Worker:
    """Runs until no work is left, a limit is reached or it is stopped."""

    def __init__(
        self,
        owned: OwnedShard,
        visit: VisitParts,
        commit: CommitParts,
        outgoing: OutgoingParcels,
        signals: RunSignals,
        *,
        is_alone: bool,
        has_coordinator: bool,
    ) -> None:
        self._config = owned.job.config
        self.frontier, self._benched = owned.frontier, owned.on_workbench
        self._pipeline, self._lending = visit.pipeline, visit.lending
        self._sender, self._pace = visit.stages.sender, visit.stages.sender.slots.pace
        self.committer, self.reparsing = commit.committer, commit.reparser
        self.archiver = commit.archiver
        self._archiving: asyncio.Task[None] | None = None
        self._files, self._outgoing = commit.files, outgoing
        self._renders = visit.renders
        self._clock = owned.clock
        self._signals, self._news = signals, signals.news
        self._running: set[asyncio.Task[None]] = set()
        self._reparse: asyncio.Task[None] | None = None
        self._reparse_at = math.inf
        self._solo = asyncio.Lock()
        self._solo_waiting = 0
        self._is_paused = False
        self._has_more = False  # more hosts may be ready than were started
        # More seeds may come, so an empty frontier is not the end. The coordinator says when not.
        self.expects_more = has_coordinator or self._config.limits.continuous
        self._is_alone = is_alone  # it ends by itself; of several, the coordinator detects the end
        self.is_idle = False
        self.is_drained = False  # nothing runs, and nothing is ready or due within a minute
        self.turns = 0  # of the loop
        self._idle = IdlePause(self._config.store.commit_s)
        # There is no capture, no server answered, and no waiting host could be reached.
        self.reaches_nobody = False
        self._has_visited = False  # in this run
        # The end of the time in which each request is sent alone, and named in the log before.
        self._careful_until = owned.job.careful_until(self._clock.monotonic())
        # The disk has less than ``store.min_free_bytes``: no visit is started until it has more.
        self.lacks_room = False
        self.free_bytes = 0  # of the disk, at the last look
        self.has_lease = True  # on its shard; without it no visit is started
        self.repaired_waits = 0  # waits that ended because their stored time was impossible
        # by the settings, and by the available memory
        self._slots = self._slots_by_memory = self._config.fetch.slots
        self.open_calls = 0
        """Calls that change something and are not answered yet; with one the worker is not idle."""
        # Those that the last commit names: no visit is started before the coordinator sends them.
        self.lacks_settings = has_coordinator and self.committer.settings > 0
        self._looked_at_disk = -_DISK_S
        self._usual_delay = visit.stages.pacing.delay_of
        self._walk_at = 0.0

    def __repr__(self) -> str:
        return f"<Worker running={len(self._running)} {self.frontier!r}>"

    @property
    def running(self) -> int:
        """Number of visits and reparse runs in progress."""
        return len(self._running)

    @property
    def _visits(self) -> int:
        """Number of visits in progress: a reparse run uses no slot, and no suspect waits for it."""
        return len(self._running) - (self._reparse in self._running)

    @property
    def parser_health(self) -> ParserHealth:
        """The state of the parser."""
        return self._pipeline.parsing.health

    def stop(self, end: End = End.STOPPED) -> None:
        """Start no new visit; finish and commit what is in flight."""
        self._signals.stop(end)

    def pause(self) -> None:
        """Start no new visit until ``resume``; finish what is in flight."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._news.set()

    def fetch_at_most(self, visits: int) -> None:
        """Bound the number of requests in flight by memory; 0 is a pause."""
        self._slots_by_memory = visits
        self._news.set()

    def fetch_pages(self, is_wanted: bool) -> None:
        """Request pages, or leave them to outside fetchers."""
        self._pipeline.fetches_pages = is_wanted
        self._news.set()

    def use_slots(self, slots: int) -> None:
        """Bound the number of requests in flight by the settings, at most to that of the start."""
        self._slots = min(slots, self._config.fetch.slots)
        self._news.set()

    def keep_pace(self, section: FetchSection) -> None:
        """Keep the pace of these settings."""
        self._pace.follow(section)
        self._news.set()

    def queue_renders(self, section: RenderSection) -> None:
        """Choose the pages that are rendered, and how many wait for it, by these settings."""
        if self._renders is not None:
            self._renders.follow(section)

    @property
    def slots(self) -> int:
        """The number of requests in flight that the settings allow."""
        return self._slots

    @property
    def _max_running(self) -> int:
        return min(self._slots, self._slots_by_memory)

    def break_off(self) -> None:
        """Cancel what is in flight at once; its URLs stay queued."""
        self.stop()
        for task in self._running:
            task.cancel()

    def fail(self, error: BaseException) -> None:
        """Make ``run`` raise ``error``, because something that the run depends on has failed."""
        self._signals.fail(error)

    def reparse_now(self) -> None:
        """Parse at once what an operator wants to be parsed again."""
        self.reparsing.allow_more()
        self._reparse_at = -math.inf
        self.wake()

    def wake(self) -> None:
        """Look for work again, because something outside has changed."""
        self._news.set()

    async def next_commit(self, is_called: bool = False) -> None:
        """Wait until what was done so far is in the log.

        ``is_called``: a caller waits, so the commit comes sooner.
        """
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.committer.is_awaited |= is_called
        self.committer.waiters.append(committed)
        self.wake()
        await committed

    @property
    def outage_text(self) -> str:
        """What the worker waits for in an outage of the network of its machine; else empty."""
        return self._pipeline.outage_text(self._clock.monotonic())

    @property
    def closed_text(self) -> str:
        """Until when the crawl waits for its hours; else empty."""
        return self._pace.closed_text(self._clock.monotonic())

    # -- the loop

    async def run(self) -> End:
        """Run until the end. Everything is then committed and the open segment closed.

        Raises the error of a stage or of the disk.
        """
        try:
            if self._files.crashes.has_news:
                # Otherwise a page that kills workers before their first commit would never be
                # found.
                await self.committer.commit()
            self._archiving = asyncio.get_running_loop().create_task(self.archiver.run())
            self._archiving.add_done_callback(self._archiving_ended)
            # The links of these bodies are not in the frontier yet, so an empty frontier would not
            # be the end.
            if self.reparsing.waiting():
                self._reparse = self.begin(self.reparsing.run(self._may_reparse))
            self._reparse_at = self._clock.monotonic() + _REPARSE_S
            while (end := self._step()) is None:
                await self._pause()
            if self._reparse is not None:
                self._reparse.cancel()  # a stop does not wait for it: the next start continues it
            # The timeout is for the parser only: a visit that waits for one has no event that ends
            # the wait.
            while self._running:
                await asyncio.wait(
                    self._running, timeout=IDLE_S, return_when=asyncio.FIRST_COMPLETED
                )
                if self._pipeline.parsing.lacks_parser:
                    # A stop does not wait until the system can start a parser.
                    self._pipeline.parsing.break_off()
            # What it has deleted is in the last commit, and its hashes in the last snapshot.
            await self._end_archiving()
            # A visit may have failed while the others ended; the last commit must not follow an
            # error.
            self._raise_failure()
            await self.committer.finish()
            return end
        finally:
            # After an error visits are still in flight. Their URLs stay queued, as after a crash.
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._end_archiving()
            await self._lending.close()
            await self.committer.close()

    async def _end_archiving(self) -> None:
        if self._archiving is not None:
            self._archiving.cancel()
            await asyncio.wait([self._archiving])

    def _archiving_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._signals.fail(error)

    def _step(self) -> End | None:
        """Start what can start; return the end when it is reached."""
        self._news.clear()
        self.turns += 1
        self._raise_failure()
        # In this order, because a delay between the two clocks then makes a host that waits by
        # crawl time wait longer, not shorter.
        time, now = self._clock.time(), self._clock.monotonic()
        # Read once in a step, so that all decisions of the step agree.
        self.has_lease = self._files.lease.holds(now)
        # A look at the disk is a system call, and this line runs at every turn of the loop.
        if now - self._looked_at_disk >= _DISK_S:
            self._looked_at_disk = now
            self.free_bytes = self._files.free_bytes()
            self.lacks_room = self.free_bytes < self._config.store.min_free_bytes
        self.repaired_waits += self.frontier.repair_impossible_waits(time)
        if self.frontier.next_due() <= time:
            self._wake_due(time)
        # Before visits are started: each of them would delay the stop.
        if self._signals.end is not None:
            return self._signals.end
        self._has_more = self._start_visits(now, time)
        # Also while a suspect waits or is visited: what the others and the reparser did would
        # gather in memory, callers would wait, and the lease on a shard would end.
        self.committer.start_when_due(now)
        self._walk_policies(now, time)
        # A worker that waits for more seeds or for a resource has not finished, although nothing
        # runs.
        wait = self._config.frontier.finish_wait_s
        runs_nothing = self._runs_nothing
        is_quiet = runs_nothing and self._is_finished(now, time, wait)
        if (is_quiet or now >= self._reparse_at) and self._parse_more(now):
            is_quiet = False
        is_free = runs_nothing and self._waits_for_nothing
        # A quiet worker has nothing to gather for a larger parcel, and the receiver may be idle.
        self._outgoing.send_at_once(is_quiet)
        self.is_idle = is_free and is_quiet
        if runs_nothing or self._idle.is_still:
            self._note_rest(now, time)
        self.reaches_nobody = (
            is_free and not self._reaches_a_host() and self._is_finished(now, time, 0.0)
        )
        return End.FINISHED if self._is_alone and (self.is_idle or self.reaches_nobody) else None

    @property
    def _waits_for_nothing(self) -> bool:
        """Whether no resource, no operator and no other program keeps the worker from its end."""
        return (
            self.has_lease
            and self._max_running > 0
            and not (
                self._is_paused
                or self.expects_more
                or self.lacks_room
                or self.lacks_settings
                or self.open_calls
                or self._lending.open_leases
                or (self._renders is not None and self._renders.is_busy)
            )
        )

    def _note_rest(self, now: float, time: float) -> None:
        is_still = self._runs_nothing and self._only_waits(now, time, 0.0)
        self._idle.is_still = is_still
        self.is_drained = is_still and self.frontier.next_event_s(now, time) > STILL_S

    def _wake_due(self, time: float) -> None:
        """Queue what is due.

        Pages are judged by the settings, so not by those of the start while they are older than
        those that the shard's last commit names.
        """
        if not self.lacks_settings:
            self.frontier.wake_due(time)

    def _walk_policies(self, now: float, time: float) -> None:
        """Apply changed refetch policies to some records, in a bounded share of the time.

        Not before the settings that the shard's last commit names have come: the rules of the start
        may be older than those that are applied already.
        """
        may_walk = self.frontier.walks_policies and now >= self._walk_at
        if may_walk and self.has_lease and not (self.lacks_settings or self.committer.is_behind):
            self._walk_at = now + _WALK_S
            self.frontier.step_policies(time, self._usual_delay)

    @property
    def _runs_nothing(self) -> bool:
        return not (self._running or self._solo_waiting)

    def _parse_more(self, now: float) -> bool:
        """Parse bodies again for which the machine was too busy; return whether there are any.

        An idle worker does so before it ends: the crawl itself may have kept the machine busy.
        """
        is_free = self._reparse is None or self._reparse.done()
        if not is_free or not self.has_lease or self._is_paused or self.lacks_room:
            return False
        self._reparse_at = now + _REPARSE_S
        if not self.reparsing.has_more():
            return False
        self._reparse = self.begin(self.reparsing.run_more(self._may_reparse))
        return True

    def _start_visits(self, now: float, time: float) -> bool:
        """Start visits, a limited number in one turn of the loop; return whether there may be more.

        The limit keeps the next turn of the loop short, in which all of them run.
        """
        # With a pace the next visit is started when this one's request is sent: it has to wait.
        for _ in range(1 if self._pace.is_on else _STARTED_AT_ONCE):
            # An acquired host has left the workbench, so it is only acquired when a visit may
            # start.
            host = self.frontier.acquire(now, time) if self._may_start else None
            if self._benched:
                # Before the visit begins, which looks up the name of its host itself.
                self._sender.prefetch_addresses(self._benched)
                self._benched.clear()
            if host is None:
                return False
            self._start(host)
        return True

    @property
    def _may_start(self) -> bool:
        has_slot = self._visits - self._pipeline.parsing.number < self._max_running
        if self.committer.is_behind:
            return False  # commits are slower than fetching; this bounds what waits for them
        return (
            has_slot
            and self.has_lease
            and not (self._solo_waiting or self._is_paused or self.lacks_room)
            and not self.lacks_settings
            and not (self._pace.is_on and self._pace.wait_s(self._clock.monotonic()) > 0)
            and self._pipeline.may_start
        )

    def _is_finished(self, now: float, time: float, wait: float) -> bool:
        """Whether no work is left.

        No host will be ready within ``wait``, and no URL or host will be due within
        ``finish_wait_s``. An outage of ours is no end.
        """
        return self._only_waits(now, time, wait) and (
            self.frontier.next_due() > time + self._config.frontier.finish_wait_s
        )

    def _only_waits(self, now: float, time: float, wait: float) -> bool:
        """Whether there is nothing but due times, and hosts that are not ready within ``wait``."""
        return not (self._pipeline.outage_text(now) or self.frontier.has_work(now, wait))

    def _reaches_a_host(self) -> bool:
        """Whether the run has reached any server, or may still do so.

        False when the crawl has no capture, no server answered in this run and every waiting host
        was unreachable. Then the operator should know at once. A run without a visit so far returns
        true.
        """
        if not self._has_visited or self._pipeline.has_answer:
            return True
        if any(partition.counters.captures for partition in self.frontier.partitions.values()):
            return True
        return not all(
            is_unreached(host.record.last_error) for host in self.frontier.workbench.hosts()
        )

    async def _pause(self) -> None:
        """Wait until something happens or is due."""
        now, time = self._clock.monotonic(), self._clock.time()
        times = [min(IDLE_S, self.committer.longest_s)]
        idle = self._idle
        if idle.is_still and not self._files.lease.is_limited:
            times = [idle.longest_s(now, times[0], self._reparse_at)]
        ready = self.frontier.next_time()
        # Without a free slot a ready host would wake the loop again and again for nothing.
        if ready is not None and self._may_start:
            times.append(ready - now)
        if not self.lacks_settings:
            times.append(self.frontier.next_due() - time)
        if self.frontier.walks_policies:
            times.append(max(self._walk_at - now, _WALK_S))
        if self._pace.is_on:
            times.append(self._pace.wait_s(now) or IDLE_S)
        if self._has_more:
            times.append(0.0)
        # News since the start of the step has set the event, so the wait then ends at once.
        longest_s = max(min(times), 0.0)
        timer = asyncio.get_running_loop().call_later(longest_s, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()
        # Without calls at a busy worker, which pauses several times a page.
        if idle.is_still:
            idle.note_end(now + longest_s, self._clock.monotonic())
        else:
            idle.disturbed_at = now

    # -- visits

    def _start(self, host: VisitState) -> None:
        self._has_visited = True
        self.begin(self._visit(host))

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a visit, or other work, as a task that ends with the worker."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._signals.fail(error)
        self._news.set()

    async def _may_reparse(self) -> bool:
        """Whether to continue parsing stored bodies.

        Waits while the disk or the next commit has no room for the results, and while a suspect is
        visited alone.
        """
        while self._signals.end is None and (
            self.committer.is_behind or self.lacks_room or self._is_paused or self._solo_waiting
        ):
            await self._clock.sleep(IDLE_S)
        return self._signals.end is None

    async def _visit(self, host: VisitState) -> None:
        async with self._pipeline.hold(host) as visit:
            # A cheap check first: finding the next URLs reads the table, and suspects are rare.
            has_suspects = self._files.crashes.has_suspects
            if self._is_careful or (has_suspects and await self._is_suspect(host)):
                await self._visit_alone(visit)
            else:
                await self._pipeline.run(visit)

    @property
    def _is_careful(self) -> bool:
        return self._careful_until > 0 and self._clock.monotonic() < self._careful_until

    async def _is_suspect(self, host: VisitState) -> bool:
        """Whether the host's next URL or its robots.txt was in flight when the worker last died."""
        return any(
            self._files.crashes.suspicion_of(url) is not Suspicion.NONE
            for url in await self._pipeline.next_urls(host)
        )

    async def _visit_alone(self, visit: Visit) -> None:
        """Run a visit with no other in flight, and commit its end.

        If the worker dies meanwhile, the cause is known. In a careful start the URLs are also in
        the log, for the shard's next owner.
        """
        # Counted before the lock is taken, so that no new visit starts while this one waits.
        self._solo_waiting += 1
        try:
            async with self._solo:
                # Suspects that wait for the lock are visits too, so they are not waited for.
                while self._visits > self._solo_waiting:
                    await self._clock.sleep(0.01)
                urls = await self._pipeline.next_urls(visit.host) if self._is_careful else ()
                self._files.crashes.name_urls(urls)
                # If this visit kills the worker, nothing of the visits before it is lost.
                await self.committer.commit()
                try:
                    await self._pipeline.run(visit)
                finally:
                    # Also after an error or a cancellation: a name that stays would accuse the URL
                    # at the next start.
                    self._files.crashes.unname_urls(urls)
                # The next suspect must not be accused of what this visit did.
                await self.committer.commit()
        finally:
            self._solo_waiting -= 1

    def _raise_failure(self) -> None:
        if self._signals.failure is not None:
            raise self._signals.failure
        self.committer.raise_failure()
