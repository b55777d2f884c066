"""A worker as a separate process: ``python -m lycosa.processes.worker_process FD``.

It is a child of the supervisor. It communicates over the socket FD and ends when that closes, so no
worker outlives a supervisor that was killed. Ctrl-C is handled by the supervisor, so it is ignored
here. With ``LYCOSA_TEST_HOOKS=1`` in its environment it kills itself when it stores a page whose
URL contains ``/hook-kill-worker``, and allocates 25 MB for some seconds at ``/hook-hoard``, so that
tests can show that crawls survive it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import msgspec
import uvloop

from lycosa.base.logs.log_records import LogLevel
from lycosa.base.logs.log_writer import EventLog, opened_log, traced_share
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.worker_messages import (
    AllowedCode,
    Ended,
    Failed,
    FromWorker,
    Memory,
    Stop,
    ToWorker,
    decode_to_worker,
    encode_worker_message,
)
from lycosa.base.model.code_failure import PRINTED, CodeFailure
from lycosa.base.model.end import End
from lycosa.base.model.parsed import ParserHealth
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import FrameError
from lycosa.base.system.loop_meter import LoopMeter
from lycosa.base.system.plugins import loaded
from lycosa.base.system.process_memory import give_back, use_few_arenas
from lycosa.inspect.queries.question_thread import StateReader, measure_reader
from lycosa.processes.failures import failure_of
from lycosa.processes.folder_place import FolderPlace, WorkerPlace
from lycosa.processes.page_socket import PageCaller
from lycosa.processes.user_code import prepared_extensions
from lycosa.processes.worker_views import views_of_worker
from lycosa.stages.parse.page import Page
from lycosa.state.kv.rocks import SharedCache, opener_within
from lycosa.state.shard.live_view import viewable
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.commit.folder_shard import open_folder_shard
from lycosa.worker.coordinator_link import CoordinatorLink
from lycosa.worker.extensions import AttemptListener, Extensions
from lycosa.worker.job import WorkerJob, decode_job
from lycosa.worker.memory_reliever import MemoryReliever
from lycosa.worker.real_ports import (
    cache_of,
    child_parser,
    measure_ports,
    real_ports,
)
from lycosa.worker.visit.fetch_log import FetchLog
from lycosa.worker.worker_ports import Ports
from lycosa.worker.worker_progress import ProgressReport

_PROGRESS_S = 0.5
# Reports to a supervisor that is suspended: the rest of what the kernel keeps (some 200 kB) is for
# the last words of this process, which does not wait for a reader.
_MAX_UNREAD_BYTES = 100_000
_TRIM_REPORTS = 20  # reports after which free memory is returned to the system
_HOOKS_VARIABLE = "LYCOSA_TEST_HOOKS"
_HOARD_BYTES, _HOARD_S = 25_000_000, 10.0


class WorkerProcess:
    """Runs one job and reports on it."""

    def __init__(self, stream: FrameStream) -> None:
        self._stream = stream
        self._sending: set[asyncio.Task[None]] = set()
        self._log = EventLog(None, "worker")
        self._damaged = set[str]()  # segments of which the log says that they are damaged
        self._at_end = ExitStack()  # log and traces, which block for a moment

    async def run(self) -> None:
        """Run until the job is done or the supervisor is gone."""
        first = await self._stream.receive()
        if first is None:
            return
        job = decode_job(first)
        self._log = opened_log(f"{'worker' if job.cluster is None else 'shard'} {job.number}")
        self._at_end.callback(self._log.close)
        self._log.note(LogLevel.INFO, "worker_started", values={"pid": os.getpid()})
        try:
            await self._work(job)
            self._log.note(LogLevel.INFO, "worker_ended")
        except (ConnectionError, FrameError):
            return  # the supervisor is gone; the next start recovers
        except Exception as error:
            failed = failure_of(error, is_on_cluster=job.cluster is not None)
            self._log.note(LogLevel.ERROR, "worker_failed", failed.text, values=_trace(failed))
            # the supervisor is gone; the log has the reason
            with suppress(ConnectionError):
                await self._stream.send(encode_worker_message(failed))
        finally:
            self._at_end.close()

    async def _work(self, job: WorkerJob) -> None:
        assert job.plan is not None, "a worker process needs a memory plan"
        cache = cache_of(job.plan)
        if job.cluster is None:
            place: WorkerPlace = FolderPlace(job, real_ports(job, opener_within(cache)))
        else:
            # an optional extra
            from lycosa.processes.cluster.cluster_place import open_place

            found = await open_place(job, opener_within(cache), self._stream, self._note_line)
            if found is None:  # it was stopped before the shard was open
                await self._stream.send(encode_worker_message(Ended(End.STOPPED.value, Progress())))
                return
            place = found
        await self._run_place(place, cache)

    def _note_line(self, event: str, line: str) -> None:
        self._log.note(LogLevel.WARNING, event, line)

    async def _run_place(self, place: WorkerPlace, cache: SharedCache) -> None:
        """Run the worker over its open shard to its end."""
        job, ports = place.job, place.ports
        assert job.plan is not None
        self._ports, self._pool_use = ports, place.pool_use

        shard = viewable(place.shard or open_folder_shard(job, ports.open_table))
        extensions = _extensions(job, self._listeners(), self._log)
        assembled = assemble(job, ports, shard, extensions, has_coordinator=True)
        self._reader = StateReader(views_of_worker(job, shard, assembled))
        measure_reader(assembled.meter, self._reader)
        duties = CoordinatorLink(assembled, place.term, self._tell, place.peers)
        await place.open(assembled, self._reader.answer)
        parser, meter = child_parser(ports), LoopMeter()
        self._reliever = MemoryReliever(
            job.plan, job.config.fetch.slots, assembled, parser, cache, ports
        )
        report = ProgressReport(
            assembled,
            job.config,
            lambda: {"parser": parser.pid, "text parser": self._reader.parser_pid},
            meter,
            place.waits_for,
        )
        measure_ports(assembled.meter, ports)
        assembled.meter.watch(
            lambda: assembled.meter.set("lycosa_log_records_suppressed_total", self._log.suppressed)
        )
        meter.start()
        try:
            end = await self._run_to_end(assembled, duties, report, place.early)
            ended = Ended(end.value, report.make_report())  # needs open tables
            self._log_damage(report.damaged)
            await self._end(assembled, ports, place)
            await self._stream.send(encode_worker_message(ended))
        finally:
            meter.stop()

    def _listeners(self) -> list[AttemptListener]:
        """What logs each attempt, if there is a log, and traces those of some hosts."""
        log, listeners = self._log, list[AttemptListener]()
        if log.writes(LogLevel.WARNING):
            listeners.append(FetchLog(log).note_attempt)
        if share := traced_share(os.environ):
            # an optional extra
            from lycosa.worker.visit.traces import FetchTraces

            traces = FetchTraces(share, log)
            self._at_end.callback(traces.close)
            listeners.append(traces.note_attempt)
        return listeners

    async def _run_to_end(
        self,
        assembled: Assembled,
        duties: CoordinatorLink,
        report: ProgressReport,
        early: Sequence[ToWorker],
    ) -> End:
        """Run the worker, handle its messages and report on it. ``early`` messages came before.

        Raises ``ConnectionError`` when the supervisor is gone, and the errors of the worker.
        """
        listening = asyncio.create_task(self._listen(assembled, duties, early))
        reporting = asyncio.create_task(self._report(report, duties))
        asking = asyncio.create_task(duties.send_news())
        running = asyncio.create_task(assembled.worker.run())
        try:
            done, _ = await asyncio.wait(
                {listening, reporting, asking, running}, return_when=asyncio.FIRST_COMPLETED
            )
            if running not in done:
                next(iter(done)).result()
                raise ConnectionResetError("the supervisor closed")
            return running.result()
        finally:
            tasks = (listening, reporting, asking, running)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self, assembled: Assembled, ports: Ports, place: WorkerPlace) -> None:
        """Close the parts, users before the parts that they use."""
        await self._reader.close()
        await ports.parser.close()
        await assembled.sender.close()
        await assembled.incoming.close()
        await assembled.outgoing.close()
        await place.close()
        assembled.close()

    async def _report(self, report: ProgressReport, duties: CoordinatorLink) -> None:
        waited_for, deaths = "", 0
        for number in count(1):
            status = duties.report()
            progress = msgspec.structs.replace(
                report.make_report(),
                relief=self._reliever.relief.meaning,
                pool=self._pool_use(),
            )
            waited_for = self._log_waits(waited_for, progress.waits_for)
            deaths = self._log_parser(deaths, progress.parser)
            self._log_damage(report.damaged)
            if self._stream.unread_bytes <= _MAX_UNREAD_BYTES:  # the next report says the same
                for each in (*status, progress):
                    await self._stream.send(encode_worker_message(each))
            if number % _TRIM_REPORTS == 0:
                await self._ports.offload.run(give_back)
            await asyncio.sleep(_PROGRESS_S)

    def _log_waits(self, before: str, now: str) -> str:
        """Log when a wait for something outside begins or ends; returns ``now``."""
        if bool(before) is not bool(now):
            self._log.note(
                LogLevel.WARNING if now else LogLevel.INFO,
                "waiting" if now else "waiting_over",
                now or before,
            )
        return now

    def _log_damage(self, damaged: Mapping[str, str]) -> None:
        """Log each segment that is damaged once."""
        for name in damaged.keys() - self._damaged:
            text = damaged[name] or f"segment {name} was damaged when an earlier owner sealed it"
            self._log.note(LogLevel.ERROR, "segment_damaged", text)
        self._damaged |= damaged.keys()

    def _log_parser(self, before: int, health: ParserHealth) -> int:
        """Log deaths of parse children; returns how many there were."""
        if health.deaths > before:
            died = f"{health.deaths - before} died; the document is tried again alone"
            self._log.note(LogLevel.WARNING, "parser_died", died)
        return health.deaths

    async def _listen(
        self, assembled: Assembled, duties: CoordinatorLink, early: Sequence[ToWorker]
    ) -> None:
        for message in early:
            await self._handle(assembled, duties, message)
        while (frame := await self._stream.receive()) is not None:
            await self._handle(assembled, duties, decode_to_worker(frame))

    async def _handle(
        self, assembled: Assembled, duties: CoordinatorLink, message: ToWorker
    ) -> None:
        if isinstance(message, Stop):
            if message.at_once:
                assembled.worker.break_off()
            else:
                assembled.worker.stop(End(message.end))
        elif isinstance(message, Memory):
            await self._reliever.relieve(message.total_bytes)
        elif isinstance(message, AllowedCode):
            assembled.live.code.allow(message.digests)
        else:
            await duties.handle_message(message)
        assembled.worker.wake()

    def _tell(self, message: FromWorker) -> None:
        task = asyncio.get_running_loop().create_task(
            self._stream.send(encode_worker_message(message))
        )
        self._sending.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        # ``_listen`` ends the process when the supervisor is gone.
        with suppress(asyncio.CancelledError, ConnectionError):
            task.result()


def _trace(failed: Failed) -> dict[str, str]:
    return {"kind": failed.kind, "trace": failed.trace}


def _extensions(job: WorkerJob, listeners: Sequence[AttemptListener], log: EventLog) -> Extensions:
    """The rules and sinks of the job, the hooks of a test, and ``listeners``.

    Raises ``ImportError``, ``AttributeError``, and what a module of the user raises.
    """
    plugins = job.plugins
    sys.path += [each for each in plugins.path if each not in sys.path]

    def tell(failure: CodeFailure, number: int) -> None:
        if failure.kind == PRINTED:
            log.note(LogLevel.INFO, "extension_output", failure.headline)
            return
        values = {"trace": failure.trace, "since_last": number}
        log.note(LogLevel.ERROR, "extension_failed", failure.headline, values=values)

    return prepared_extensions(
        job.config.extensions,
        loaded(plugins.rules),
        loaded(plugins.sinks),
        tell,
        elsewhere=PageCaller(Path(plugins.pages)) if plugins.pages else None,
        listeners=listeners,
        hooks=(_misbehave_at_hook,) if os.environ.get(_HOOKS_VARIABLE) == "1" else (),
    )


def _misbehave_at_hook(page: Page) -> None:
    if "/hook-kill-worker" in page.url:
        os.kill(os.getpid(), signal.SIGKILL)
    if "/hook-hoard" in page.url:
        hoard = [b"x" * _HOARD_BYTES]
        asyncio.get_running_loop().call_later(_HOARD_S, hoard.clear)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=int(sys.argv[1]))
    # Imported objects live until the end, and pages leave few reference cycles. Collecting them
    # less often saves 1 % of the time.
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    use_few_arenas()
    uvloop.run(WorkerProcess(FrameStream(sock)).run())
    # Skip the cleanup of native libraries, which takes a second and has no effect.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
