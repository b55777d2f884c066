"""The supervisor of a crawl: deals partitions to workers, feeds them seeds, adds up what they say, restarts one that dies.

It does no crawling: what it knows of the crawl it is told. After a worker's death its part of the folder is recovered and the job given
to a new process while the others go on; the URLs that were in flight are under suspicion then (``attempts.crashes``), so a page that
kills its worker ends as a recorded failure. With several workers it also gives permits for captures, passes on what joins
the scope, and finds out when all are done: two rounds of asking in which all are idle and nothing happened in between.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.config.units import show_mb
from lycosa.folder.run_cost import RunCost, append_cost, cpu_s, ended_children_cpu_s
from lycosa.model.end import End
from lycosa.processes.grants import Grants
from lycosa.processes.parser_notes import ParserNotes
from lycosa.processes.session import Session
from lycosa.processes.status_file import StatusFile
from lycosa.processes.worker_handle import WorkerFailed, WorkerHandle, WorkerNotStarted
from lycosa.system.machine import cores
from lycosa.system.memory import held_by
from lycosa.system.memory_plan import MemoryPlan
from lycosa.system.memory_relief import FAR
from lycosa.system.shortage import in_thread, pause_s
from lycosa.worker.messages import (
    Ended,
    Grant,
    Joined,
    JoinScope,
    Memory,
    Probe,
    ProbeAnswer,
    ProcessMemory,
    Progress,
    Seeds,
    SeedsTaken,
    Start,
    Stop,
    ToSupervisor,
    ToWorker,
    WantGrant,
    is_over,
    total,
)
from lycosa.worker.plugins import registered

_MOST_DEATHS = 10  # in a row, without a commit in between
_CAREFUL_DEATHS = 3  # after so many of them the next process starts carefully
_SEED_BATCH = 1000
_LONGEST_PAUSE_S = 30.0  # before a worker that died in vain is started again
_PROBE_S = 0.1
_MEMORY_S = 0.5
_STALLED_S = 60.0  # between lines about parcels that are not taken


class Outcome(msgspec.Struct, frozen=True):
    """How a crawl's run ended: ``end`` as in ``worker.End``, the last counts, captures of this run alone, refused seeds with reasons,
    worker deaths, seconds."""

    end: str
    progress: Progress
    captured: int
    refused_seeds: list[tuple[str, str]]
    deaths: int
    duration_s: float


class SeedFeed(Protocol):
    """Where the supervisor has its seeds from."""

    def take(self, most: int) -> list[str]:
        """The next seeds; fewer than ``most`` only at the end."""
        ...

    def taken(self) -> None:
        """Those that were taken last are committed."""
        ...


class Supervisor:
    """Runs one session to its end. ``on_progress`` gets the workers' reports added up; ``on_note`` a line for the operator."""

    def __init__(
        self,
        session: Session,
        plan: MemoryPlan,
        seeds: SeedFeed,
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._plan = plan
        self._seeds = seeds
        self._on_progress = on_progress
        self._on_note = on_note
        partitions = session.config.frontier.partitions
        count = plan.workers
        self._handles = [
            WorkerHandle(number, tuple(range(number, partitions, count)), session.lock_filenos, self._hear) for number in range(count)
        ]
        self._sockets = Path(tempfile.mkdtemp(prefix="lycosa-")) if count > 1 else None
        self._places = dict.fromkeys(session.recovered.places)
        self._grants = Grants(session.config.limits, session.recovered.captures, count)
        self._plugins = registered()
        self._status = StatusFile(session.folder)
        self._refused: list[tuple[str, str]] = []
        self._batch: list[str] = []  # the seeds given last, and who has not yet acknowledged them
        self._owing: set[int] = set()
        self._all_given = False
        self._stops = 0
        self._end: End | None = None
        self._probe = 0
        self._answers: dict[int, ProbeAnswer] = {}
        self._last_activity = -1
        self._deaths = 0
        self._next_told = 0.0
        self._earlier_cpu_s = ended_children_cpu_s()  # of a program that runs one crawl after the other
        self._start = 0, 0.0  # captures that were first reported, and processor seconds until then
        self._told_relief: set[str] = set()
        self._parser_notes = ParserNotes()
        self._next_stalled = 0.0
        self._said: set[asyncio.Task[None]] = set()

    # -- what the operator can do ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """First call: finish what is in flight. Second: break it off. Third: kill; the crawl can be resumed all the same."""
        self._stops += 1
        if self._stops >= 3:
            for handle in self._handles:
                handle.kill()
        else:
            self._end_all(End.STOPPED, at_once=self._stops == 2)

    def reach_time_limit(self) -> None:
        """``--max-time`` is over."""
        self._end_all(End.LIMIT)

    # -- the run --------------------------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """Until the crawl's end. Raises ``WorkerFailed``, and what recovery raises."""
        began = time.monotonic()
        self._next_seeds()
        tasks = [asyncio.create_task(self._keep(handle)) for handle in self._handles]
        probing = asyncio.create_task(self._probe_idle()) if len(self._handles) > 1 else None
        try:
            ends = await asyncio.gather(*tasks)
        except BaseException:
            self._stops = 3  # nobody is started again
            for handle in self._handles:
                handle.kill()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        finally:
            if probing is not None:
                probing.cancel()
            if self._sockets is not None:
                shutil.rmtree(self._sockets, ignore_errors=True)
        end = self._end or next((End(end) for end in ends if end != End.FINISHED.value), End.FINISHED)
        progress = self._total()
        captured = self._captured(progress)
        self._note_cost(progress, captured, time.monotonic() - began)
        return Outcome(end.value, progress, captured, self._refused, self._deaths, time.monotonic() - began)

    def _note_cost(self, progress: Progress, captured: int, seconds: float) -> None:
        cost = RunCost(
            began=time.time() - seconds,
            seconds=seconds,
            workers=len(self._handles),
            cores=cores(),
            cpu_s=cpu_s() + ended_children_cpu_s() - self._earlier_cpu_s,
            start_cpu_s=self._start[1],
            worker_cpu_s=sum(each.cpu_s for each in progress.memory if each.part.startswith("worker")),
            start_captured=self._start[0],
            captured=captured,
            captures=progress.captures,
            pages=progress.pages,
            requests=progress.requests,
            hosts=progress.hosts,
            body_bytes=progress.body_bytes,
            longest_turn_s=round(progress.longest_turn_s, 4),
        )
        append_cost(self._session.folder, cost)

    async def _keep(self, handle: WorkerHandle) -> str:
        """One worker to its end, however often it dies."""
        fruitless, commits = 0, -1
        while True:
            try:
                ended, how = await self._run_once(handle), ""
            except WorkerFailed as error:
                if not error.is_passing:
                    raise
                ended, how = None, str(error)
            if ended is not None:
                return ended
            if self._stops >= 3:
                return End.STOPPED.value
            self._deaths += 1
            fruitless = fruitless + 1 if handle.progress.commits <= commits else 1
            commits = handle.progress.commits
            if fruitless > _MOST_DEATHS:
                raise WorkerFailed("WorkerDied", f"worker {handle.number} died {fruitless} times in a row without committing anything")
            self._on_note(f"worker {handle.number} died ({how or handle.how_it_died()}); recovering and starting another one")
            handle.is_careful = fruitless >= _CAREFUL_DEATHS
            if fruitless > 1:  # what killed it may pass, as a lack of memory does
                await asyncio.sleep(min(0.5 * 2.0 ** (fruitless - 2), _LONGEST_PAUSE_S))
            recovered = await in_thread(
                lambda: self._session.recover_worker(handle.number, handle.owned),
                lambda: self._on_note(f"worker {handle.number} cannot be started (no thread can be): trying again until it can"),
            )
            if self._stops >= 3:
                return End.STOPPED.value
            handle.last_commit = recovered.last_commit
            self._join([place for place in recovered.places if place not in self._places], handle)
            self._grants.recount(handle.number, recovered.captures)
            self._give_grants()

    async def _run_once(self, handle: WorkerHandle) -> str | None:
        """One process to its end, which is given; ``None`` when it died. Waits while none can be started."""
        attempt = 0
        while True:
            try:
                ended = await handle.run(self._start_of(handle), self._greeting(handle))
            except WorkerNotStarted as error:
                if self._end is not None:
                    return self._end.value
                attempt += 1
                if attempt == 1:
                    self._on_note(f"worker {handle.number} cannot be started ({error}): trying again until it can")
                await asyncio.sleep(pause_s(attempt))
            else:
                return ended.end if ended is not None else None

    def _start_of(self, handle: WorkerHandle) -> Start:
        job = self._session.job(handle.number, handle.owned)
        sockets = tuple(str(self._sockets / f"w{other.number}") for other in self._handles) if self._sockets else ()
        return Start(
            str(job.folder),
            job.config,
            job.manifest,
            job.number,
            tuple(job.owned),
            job.software,
            job.user_agent,
            handle.last_commit or job.last_commit,
            sockets,
            list(self._places),
            self._plan,
            self._session.time_base,
            str(job.machine_table or ""),
            self._plugins,
            handle.is_careful,
        )

    def _greeting(self, handle: WorkerHandle) -> tuple[ToWorker, ...]:
        """What a new process is told after its job: seeds that were not acknowledged, and that the end has come."""
        batch = self._batch if handle.number in self._owing else []
        seeds = Seeds(batch, self._all_given)
        if batch or self._all_given:
            self._owing.add(handle.number)
        greeting: tuple[ToWorker, ...] = (seeds,) if batch or self._all_given else ()
        return (*greeting, Stop(self._end.value, at_once=self._stops >= 2)) if self._end is not None else greeting

    # -- what workers say -----------------------------------------------------------------------------------------

    def _hear(self, handle: WorkerHandle, message: ToSupervisor) -> None:
        if isinstance(message, Progress | Ended):
            progress = self._total()
            if not self._start[0] and (captured := self._captured(progress)) > 0:
                self._start = captured, sum(each.cpu_s for each in progress.memory)
            self._status.write("stopping" if self._end else "crawling", progress, len(self._handles), self._deaths)
            self._on_progress(progress)
            self._tell_memory(progress)
            if note := self._parser_notes.hear(handle.number, handle.progress.parser):
                self._on_note(note)
            self._tell_stalled(progress)
            if self._grants.is_reached(progress.committed, progress.body_bytes):
                self._end_all(End.LIMIT)
        elif isinstance(message, SeedsTaken):
            self._refused += message.refused
            self._owing.discard(handle.number)
            if not self._owing:
                self._seeds.taken()
            if not self._owing and not self._all_given and self._end is None:
                self._next_seeds()
                for each in self._handles:
                    self._say(each, Seeds(self._batch, self._all_given))
        elif isinstance(message, Joined):
            self._join(message.urls, handle)
        elif isinstance(message, WantGrant):
            self._grants.ask(handle.number, message.returned)
            self._give_grants()
        elif isinstance(message, ProbeAnswer) and message.round == self._probe:
            self._answers[handle.number] = message

    def _tell_memory(self, progress: Progress) -> None:
        """Near the bound, and until it is far again: each worker judges by the sum what it has to do."""
        now = time.monotonic()
        if now < self._next_told or not (progress.relief or progress.memory_bytes >= FAR * self._plan.total):
            return
        self._next_told = now + _MEMORY_S
        for handle in self._handles:
            self._say(handle, Memory(progress.memory_bytes))
        if progress.relief and progress.relief not in self._told_relief:
            self._told_relief.add(progress.relief)
            held, bound = show_mb(progress.memory_bytes), show_mb(self._plan.total)
            self._on_note(f"memory is near its bound ({held} of {bound}): a worker {progress.relief}")

    def _tell_stalled(self, progress: Progress) -> None:
        """Workers that wait for each other look like a crawl that has little to do."""
        now = time.monotonic()
        if progress.undelivered and now >= self._next_stalled:
            self._next_stalled = now + _STALLED_S
            self._on_note(f"waiting for {progress.undelivered}")

    def _join(self, urls: list[str], finder: WorkerHandle) -> None:
        """Places that a worker found to belong to the crawl."""
        self._places.update(dict.fromkeys(urls))
        if urls:
            for other in self._handles:
                if other is not finder:
                    self._say(other, JoinScope(urls))

    def _give_grants(self) -> None:
        for number, captures in self._grants.give():
            self._say(self._handles[number], Grant(captures))

    def _next_seeds(self) -> None:
        self._batch = self._seeds.take(_SEED_BATCH)
        self._all_given = len(self._batch) < _SEED_BATCH
        self._owing = {handle.number for handle in self._handles}

    async def _probe_idle(self) -> None:
        """Ends the crawl when nobody has anything to do and nothing is under way between them."""
        while self._end is None:
            await asyncio.sleep(_PROBE_S)
            captures = sum(handle.progress.captures for handle in self._handles)
            if self._owing or not is_over([handle.progress for handle in self._handles], captures):
                self._last_activity = -1
                continue
            self._probe += 1
            self._answers.clear()
            for handle in self._handles:
                self._say(handle, Probe(self._probe))
            await asyncio.sleep(_PROBE_S)
            answers = list(self._answers.values())
            if len(answers) < len(self._handles) or not is_over(answers, captures):
                self._last_activity = -1
                continue
            activity = sum(answer.activity for answer in answers)
            if activity == self._last_activity:
                self._end_all(End.FINISHED)
            self._last_activity = activity

    # -- small things ---------------------------------------------------------------------------------------------

    def _end_all(self, end: End, at_once: bool = False) -> None:
        if self._end is None or at_once:
            self._end = self._end or end
            for handle in self._handles:
                self._say(handle, Stop(self._end.value, at_once=at_once))

    def _say(self, handle: WorkerHandle, message: ToWorker) -> None:
        task = asyncio.get_running_loop().create_task(handle.say(message))
        self._said.add(task)
        task.add_done_callback(self._said.discard)

    def _captured(self, progress: Progress) -> int:
        """Captures of this run; negative while not all workers have said anything."""
        return progress.captures - sum(self._session.recovered.captures.values())

    def _total(self) -> Progress:
        progress = total([handle.progress for handle in self._handles])
        mine = held_by()
        memory = [ProcessMemory("supervisor", *mine, cpu_s())]
        for handle in self._handles:
            which = f" {handle.number}" if len(self._handles) > 1 else ""
            memory += [msgspec.structs.replace(each, part=each.part + which) for each in handle.progress.memory]
        # The program's code is the same pages in all processes.
        held = sum(each.own_bytes for each in memory) + mine.mapped_bytes
        return msgspec.structs.replace(progress, memory=memory, memory_bytes=held, memory_bound=self._plan.total)
