"""``lycosa crawl`` on one machine: coordinator, node and the operator's controls in one process.

The coordinator and the node exchange the same messages as on a cluster; here these are calls. This
module does what concerns the operator: seeds from their feed, stops and the time limit, the status
file, the display, the cost of the run. The workers crawl.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from lycosa.base.messages.control_records import Control, PermitSaved, SettingsSaved
from lycosa.base.messages.coordinator_messages import (
    CALLER,
    CONTROL,
    Answered,
    Ask,
    Assignments,
    CallerMessage,
    ClusterStatus,
    Drain,
    Move,
    NodeReport,
    NoMoreAsks,
    OutgoingMessage,
    PauseCrawl,
    Refused,
    Relay,
    Said,
    StopCrawl,
    Superseded,
    ToCoordinator,
)
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.renderer_messages import RendererReport
from lycosa.base.messages.timeouts import ONE_PROCESS
from lycosa.base.messages.worker_messages import Seeds
from lycosa.base.model.end import End
from lycosa.base.model.progress_parts import WebhookNote
from lycosa.base.ports import SeedFeed
from lycosa.base.system.machine import cores
from lycosa.base.system.memory_plan import MemoryPlan
from lycosa.base.system.plugins import Plugins
from lycosa.base.system.process_memory import cpu_s
from lycosa.cluster.coordinator.coordinator import Coordinator
from lycosa.cluster.serve.coordinator_links import PeerLink
from lycosa.processes.local_node import Node
from lycosa.processes.session import Session
from lycosa.processes.status_file import StatusFile
from lycosa.processes.upload_thread import Uploads
from lycosa.state.folder.run_cost import RunCost, append_cost, ended_children_cpu_s

_SEED_BATCH = 1000
_TICK_S = 0.1
_NODE = "this machine"


class CrawlOutcome(msgspec.Struct, frozen=True):
    """How a crawl's run ended.

    ``end`` is as in ``worker.End``. The other fields are the last counts, the captures of this run
    alone, refused seeds with reasons, deaths of workers, and seconds.
    """

    end: str
    progress: Progress
    captured: int
    refused_seeds: list[tuple[str, str]]
    deaths: int
    duration_s: float


KeepRenderer = Callable[[Mapping[str, str]], RendererReport | None]
"""Keeps a renderer process while pages are rendered by the live settings; returns its state."""


class RunRules(msgspec.Struct, frozen=True):
    """How a run is reached by other programs: its private folder of sockets.

    A run that ``is_endless`` waits for more requests when it has nothing to do. ``changed`` are the
    live settings that an earlier run of the same service changed. A run that ``is_paused`` requests
    nothing until it is resumed. ``plugins`` are the rules and sinks of a Python program.
    """

    sockets: Path
    is_endless: bool = False
    changed: dict[str, str] = {}
    is_paused: bool = False
    plugins: Plugins | None = None


class Supervisor:
    """Runs one session to its end.

    ``on_progress`` gets the sum of the workers' reports, ``on_note`` lines for the operator. Other
    programs can call the coordinator (``CalledCoordinator``).
    """

    def __init__(
        self,
        session: Session,
        plan: MemoryPlan,
        seeds: SeedFeed,
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_note: Callable[[str], None] = lambda _: None,
        uploads: Uploads | None = None,
        hosting: RunRules | None = None,
    ) -> None:
        self._session = session
        self._workers = plan.workers
        self._seeds = seeds
        self._on_progress = on_progress
        self._on_note = on_note
        self._uploads = uploads
        self._is_endless = hosting is not None and hosting.is_endless
        self.callers: set[PeerLink] = set()
        self.check_feeds: Callable[[], tuple[str, ...]] = tuple
        """Keeps the feeds of this run going; returns those that do not run, with the reason."""
        self.look_at_webhooks: Callable[[], list[WebhookNote]] = list
        """Gives the webhooks of this run."""
        self.keep_renderer: KeepRenderer = lambda values: None
        # The settings of this start get the version after the last one of the previous run.
        version, rules = session.recovered.settings, hosting or RunRules(Path())
        is_first = not (version or rules.changed or rules.is_paused)
        settings = SettingsSaved(
            0 if is_first else version + 1, rules.changed, rules.is_paused, code=session.code.code
        )
        control = Control(_permits(session, plan.workers), settings)
        number, limits = session.manifest.term, session.config.limits
        self._coordinator = Coordinator(
            number, plan.workers, limits, ONE_PROCESS, time.monotonic(), control
        )
        sockets = hosting.sockets if hosting is not None else None
        self._node = Node(session, plan, self, sockets, rules.plugins)
        # messages, in the order in which they are handled
        self._waiting: deque[OutgoingMessage | ToCoordinator] = deque()
        self._is_handling = False
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._status = StatusFile(session.folder, hosting.sockets if hosting is not None else None)
        self._refused: list[tuple[str, str]] = []
        self._batches = 0
        self._own_calls: set[str] = set()
        self._stops = 0
        # of earlier crawls of the same program
        self._earlier_cpu_s = ended_children_cpu_s()
        # Captures in the first report that has any, and CPU seconds until then.
        self._start = 0, 0.0

    # -- the operator's controls

    def stop(self) -> None:
        """Stop the crawl: the first call finishes what is in flight, the second cancels it.

        The third call kills the workers. The crawl can be resumed in any case. After the crawl's
        end a call stops the upload.
        """
        self._stops += 1
        if self._over.done() and self._uploads is not None:
            self._uploads.stop()
        elif self._stops >= 3:
            self._node.kill()
        else:
            self._carry(StopCrawl(End.STOPPED.value, at_once=self._stops == 2))

    def pause(self, is_paused: bool, by: str = "lycosa.Crawl") -> None:
        """Request nothing until this is called with ``False``."""
        self._carry(PauseCrawl(is_paused, by))

    def reach_limit(self) -> None:
        """Stop because a limit of the run is reached (``RunLimits``)."""
        self._carry(StopCrawl(End.LIMIT.value))

    # -- the run

    async def run(self) -> CrawlOutcome:
        """Run until the crawl's end. Raises ``WorkerFailed``, and the errors of recovery."""
        began = time.monotonic()
        self._next_seeds()
        ticking = asyncio.create_task(self._tick())
        try:
            await self._over
        except BaseException:
            # also Ctrl-C: workers and uploads end before the folder's lock is released
            self._node.kill()
            if self._uploads is not None:
                self._uploads.stop()
            raise
        finally:
            await self._node.close()
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)
        ends = self._coordinator.worker_ends()
        end = self._coordinator.crawl_end or next(
            (End(end) for end in ends if end != End.FINISHED.value), End.FINISHED
        )
        progress = await self._finish_uploads(self._node.workers.total())
        captured = self._captured(progress)
        self._note_cost(progress, captured, time.monotonic() - began)
        return CrawlOutcome(
            end.value,
            progress,
            captured,
            self._refused,
            self._node.plan.deaths,
            time.monotonic() - began,
        )

    async def _finish_uploads(self, progress: Progress) -> Progress:
        """Upload what the workers left; they have ended."""
        if self._uploads is None:
            return progress
        uploads = self._uploads
        self._stops = 0

        def show() -> None:
            shown = msgspec.structs.replace(progress, uploads=uploads.state)
            self._status.write("uploading", shown, self._workers, self._node.plan.deaths)
            self._on_progress(shown)

        return msgspec.structs.replace(progress, uploads=await uploads.finish(show))

    async def _tick(self) -> None:
        try:
            while not self._over.done():
                self._node.tick()
                self._carry(*self._coordinator.tick(time.monotonic(), time.time()))
                await asyncio.sleep(_TICK_S)
        except Exception as error:
            # no other task awaits this one, and without ticks the crawl would never end
            self.fail_run(error)

    def _note_cost(self, progress: Progress, captured: int, seconds: float) -> None:
        cost = RunCost(
            began=time.time() - seconds,
            seconds=seconds,
            workers=self._workers,
            cores=cores(),
            cpu_s=cpu_s() + ended_children_cpu_s() - self._earlier_cpu_s,
            start_cpu_s=self._start[1],
            worker_cpu_s=sum(
                each.cpu_s for each in progress.memory if each.part.startswith("worker")
            ),
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

    # -- messages between coordinator and node

    def _carry(self, *messages: OutgoingMessage | ToCoordinator) -> None:
        """Deliver messages in the order in which they were sent.

        Handling one may cause others.
        """
        self._waiting.extend(messages)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._waiting:
                self._hand_over(self._waiting.popleft())
        finally:
            self._is_handling = False
        if self._coordinator.is_over and not self._over.done():
            self._over.set_result(None)

    def _hand_over(self, message: OutgoingMessage | ToCoordinator) -> None:
        if not isinstance(message, OutgoingMessage):
            sender = _NODE if isinstance(message, NodeReport | Said | Superseded) else CALLER
            self._waiting.extend(
                self._coordinator.handle_message(sender, message, time.monotonic())
            )
        elif isinstance(message.message, Assignments | Relay):
            self._node.handle_message(message.message)
        elif isinstance(message.message, Answered):
            self._answer(message.message)
        elif isinstance(message.message, SettingsSaved):
            if trouble := self._session.keep_steering(message.message):
                self._on_note(trouble)
        else:  # not stored, because the next start counts what is in the folder
            assert message.receiver == CONTROL

    def handle_node_message(self, message: ToCoordinator) -> None:
        """See ``Listener``."""
        self._carry(message)

    def show_note(self, text: str) -> None:
        """See ``Listener``."""
        self._on_note(text)

    def fail_run(self, error: BaseException) -> None:
        """See ``Listener``."""
        if not self._over.done():
            self._over.set_exception(error)
        self._node.kill()

    def show_progress(self) -> None:
        """See ``Listener``."""
        progress = self._progress()
        if not self._start[0] and (captured := self._captured(progress)) > 0:
            self._start = captured, sum(each.cpu_s for each in progress.memory)
        running = "paused" if progress.is_paused else "crawling"
        state = "stopping" if self._coordinator.crawl_end else running
        self._status.write(state, progress, self._workers, self._node.plan.deaths)
        self._on_progress(progress)
        self._node.workers.tell_memory(progress)
        self._node.workers.tell_stalled(progress)

    def _progress(self) -> Progress:
        """The sum of the workers, with what only the supervisor knows."""
        progress = self._node.workers.total().with_numbers({}, self._coordinator.rates)
        is_paused = self._coordinator.settings.is_paused and self._coordinator.crawl_end is None
        progress = msgspec.structs.replace(progress, is_paused=is_paused)
        if self._uploads is not None:
            progress = msgspec.structs.replace(progress, uploads=self._uploads.state)
        return msgspec.structs.replace(
            progress,
            feeds_away=self.check_feeds(),
            webhooks=self.look_at_webhooks(),
            renderer=self.keep_renderer(self._coordinator.settings.values),
        )

    def _captured(self, progress: Progress) -> int:
        """Captures of this run; negative before every worker has reported."""
        return progress.captures - sum(self._session.recovered.captures.values())

    # -- seeds

    def _next_seeds(self) -> None:
        """Send the next batch when the one before is committed.

        Only then can the position in the feed be recorded.
        """
        batch = self._seeds.take_seeds(_SEED_BATCH)
        self._batches += 1
        call = f"seeds {self._batches}"
        self._own_calls.add(call)
        self._carry(Ask(Seeds(call, batch)))
        if len(batch) < _SEED_BATCH:
            self._batches = -1
            self._say_no_more()

    def _answer(self, answered: Answered) -> None:
        if answered.call in self._own_calls:
            self._own_calls.discard(answered.call)
            self._seeds_taken(answered)
            return
        for caller in self.callers:
            if answered.call in caller.calls:
                caller.calls.discard(answered.call)
                caller.send_message(answered)

    def _say_no_more(self) -> None:
        """Let the crawl end when no one has more seeds, unless it is to run without an end."""
        are_given = self._batches < 0 and not any(caller.is_seeding for caller in self.callers)
        if are_given and not self._is_endless:
            self._carry(NoMoreAsks())

    # -- callers of the coordinator

    @property
    def is_over(self) -> bool:
        """See ``CalledCoordinator``."""
        return self._over.done()

    def status(self) -> ClusterStatus:
        """See ``CalledCoordinator``."""
        status = self._coordinator.status(self._session.manifest.crawl, time.monotonic())
        return msgspec.structs.replace(status, progress=self._progress())

    def objection(self, message: CallerMessage) -> Refused | None:
        """See ``CalledCoordinator``: a run that ends takes nothing new."""
        if isinstance(message, Drain | Move):
            return Refused("this crawl runs on one machine, so nothing can be moved")
        if self._coordinator.crawl_end and not isinstance(message, StopCrawl | NoMoreAsks):
            return Refused("the run of the crawl ends now; call again", is_final=False)
        return None

    async def receive(self, sender: str, message: ToCoordinator) -> None:
        """See ``CalledCoordinator``."""
        if isinstance(message, NoMoreAsks):
            self._say_no_more()
        else:
            self._carry(message)

    def _seeds_taken(self, answered: Answered) -> None:
        self._refused += answered.refused
        self._seeds.note_committed()
        if self._batches > 0 and self._coordinator.crawl_end is None:
            self._next_seeds()


def _permits(session: Session, workers: int) -> dict[int, PermitSaved]:
    """The captures of each worker's partitions at the start."""
    captures = dict.fromkeys(range(workers), 0)
    for partition, number in session.recovered.captures.items():
        captures[partition % workers] += number
    return {worker: PermitSaved(worker, 0, 0, number) for worker, number in captures.items()}
