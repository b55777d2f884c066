"""The supervisor of a crawl: starts workers, feeds them seeds, adds up what they say, restarts one that dies.

It does no crawling: what it knows of the crawl it is told. A worker that is silent for too long is killed and counts as
dead. After a death the folder is recovered and the job given to a new process; the URLs that were in flight are under suspicion then
(``attempts.crashes``), so a page that kills its worker ends as a recorded failure.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from lycosa.folder import status_path
from lycosa.messages import Ended, Failed, Progress, Seeds, SeedsTaken, Start, Stop, decode_to_supervisor, encode
from lycosa.session import Session
from lycosa.wire import FrameStream

_SILENT_S = 60.0  # a worker that says nothing for this long is killed
_MOST_DEATHS = 10  # in a row, without a commit in between
_SEED_BATCH = 1000
_STATUS_S = 1.0


class WorkerFailed(Exception):
    """A worker cannot go on; ``kind`` is the class of its error and ``trace`` its traceback."""

    def __init__(self, kind: str, text: str, trace: str = "") -> None:
        super().__init__(text)
        self.kind, self.trace = kind, trace


class Outcome(msgspec.Struct, frozen=True):
    """How a crawl's run ended: ``end`` as in ``worker.End``, the last counts, refused seeds with reasons, worker deaths, seconds."""

    end: str
    progress: Progress
    refused_seeds: list[tuple[str, str]]
    deaths: int
    duration_s: float


class Supervisor:
    """Runs one session to its end. ``on_progress`` is called with each worker report; ``on_note`` with a line for the operator."""

    def __init__(
        self,
        session: Session,
        seeds: Iterable[str],
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._seeds = iter(seeds)
        self._on_progress = on_progress
        self._on_note = on_note
        self._stops = 0
        self._is_limit = False
        self._stream: FrameStream | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._progress = Progress()
        self._refused: list[tuple[str, str]] = []
        self._heard = 0.0
        self._batch: list[str] | None = None  # seeds that were given and not acknowledged
        self._all_given = False
        self._began = time.monotonic()
        self._pages_before: list[tuple[float, int]] = []
        self.deaths = 0

    # -- what the operator can do ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """First call: finish what is in flight. Second: break it off. Third: kill; the crawl can be resumed all the same."""
        self._stops += 1
        if self._stops >= 3 and self._process is not None:
            self._process.kill()
        elif self._stream is not None:
            asyncio.get_running_loop().create_task(self._say(Stop(at_once=self._stops == 2)))

    def reach_time_limit(self) -> None:
        """``--max-time`` is over."""
        self._is_limit = True
        if self._stream is not None:
            asyncio.get_running_loop().create_task(self._say(Stop(is_limit=True)))

    # -- the run --------------------------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """Until the crawl's end. Raises ``WorkerFailed``, and what recovery raises."""
        fruitless, commits = 0, -1
        while True:
            ended = await self._run_worker()
            if ended is not None:
                duration = time.monotonic() - self._began
                return Outcome(ended.end, ended.progress, self._refused, self.deaths, duration)
            if self._stops >= 3:
                return Outcome("stopped", self._progress, self._refused, self.deaths, time.monotonic() - self._began)
            self.deaths += 1
            fruitless = fruitless + 1 if self._progress.commits <= commits else 1
            commits = self._progress.commits
            if fruitless > _MOST_DEATHS:
                raise WorkerFailed("WorkerDied", f"the worker died {fruitless} times in a row without committing anything")
            self._on_note(f"the worker died ({self._how_it_died()}); recovering and starting another one")
            await asyncio.to_thread(self._session.recover)

    async def _run_worker(self) -> Ended | None:
        """One worker process from start to end; ``None`` when it died."""
        ours, theirs = socket.socketpair()
        # The lock goes with it: while a worker lives, even one whose supervisor was killed, nobody else gets the folder.
        process = subprocess.Popen(  # noqa: ASYNC220 (a fork and exec, milliseconds, and the worker needs the socket's number)
            [sys.executable, "-m", "lycosa.worker_process", str(theirs.fileno())],
            pass_fds=[theirs.fileno(), self._session.lock_fileno],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._process, self._stream = process, FrameStream(ours)
        self._heard = time.monotonic()
        watch = asyncio.create_task(self._watch(process))
        try:
            await self._say(self._start())
            if self._stops or self._is_limit:
                await self._say(Stop(at_once=self._stops >= 2, is_limit=self._is_limit))
            await self._give_seeds()
            return await self._listen()
        except ConnectionError:
            return None
        finally:
            watch.cancel()
            self._stream.close()
            await asyncio.to_thread(_reap, process)

    def _start(self) -> Start:
        session = self._session
        job = session.job(0, tuple(range(session.config.frontier.partitions)))
        return Start(str(job.folder), job.config, job.manifest, job.number, tuple(job.owned), job.software, job.user_agent, job.last_commit)

    async def _listen(self) -> Ended | None:
        assert self._stream is not None
        while (frame := await self._stream.receive()) is not None:
            self._heard = time.monotonic()
            message = decode_to_supervisor(frame)
            if isinstance(message, Progress):
                self._progress = message
                self._publish("stopping" if self._stops else "crawling")
                self._on_progress(message)
            elif isinstance(message, SeedsTaken):
                self._refused += message.refused
                self._batch = None
                await self._give_seeds()
            elif isinstance(message, Ended):
                self._progress = message.progress
                self._on_progress(message.progress)
                return message
            elif isinstance(message, Failed):
                raise WorkerFailed(message.kind, message.text, message.trace)
        return None

    async def _give_seeds(self) -> None:
        """The next batch, or after a worker's death the one that was not acknowledged."""
        if self._batch is None:
            if self._all_given:
                return
            self._batch = list(islice(self._seeds, _SEED_BATCH))
            self._all_given = len(self._batch) < _SEED_BATCH
        await self._say(Seeds(self._batch, self._all_given))

    async def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Kills a worker that hangs: it reports twice a second as long as its loop turns."""
        while True:
            await asyncio.sleep(1.0)
            if time.monotonic() - self._heard > _SILENT_S:
                self._on_note(f"the worker said nothing for {_SILENT_S:.0f} s; killing it")
                process.kill()
                return

    async def _say(self, message: Start | Seeds | Stop) -> None:
        assert self._stream is not None
        with suppress(ConnectionError):  # it died; whoever listens finds out
            await self._stream.send(encode(message))

    def _how_it_died(self) -> str:
        code = self._process.returncode if self._process else 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    # -- status ---------------------------------------------------------------------------------------------------

    def _publish(self, state: str) -> None:
        """Writes ``status.json`` about once a second, for ``lycosa status`` and whoever else looks."""
        now = time.monotonic()
        if self._pages_before and now - self._pages_before[-1][0] < _STATUS_S:
            return
        self._pages_before.append((now, self._progress.captures))
        self._pages_before = self._pages_before[-60:]
        then, captures = self._pages_before[0]
        rate = (self._progress.captures - captures) / (now - then) if now > then else 0.0
        status = {
            "state": state,
            "updated": time.time(),
            "pid": os.getpid(),
            "workers": 1,
            "deaths": self.deaths,
            "pages_per_s": round(rate, 2),
            "running": self._progress.running,
            "hosts": {
                "ready": self._progress.hosts_ready,
                "snoozed": self._progress.hosts_snoozed,
                "parked": self._progress.hosts_parked,
                "retired": self._progress.hosts_retired,
                "front": self._progress.hosts_front,
            },
            "waiting_for": waiting_for(self._progress),
            "progress": msgspec.to_builtins(self._progress),
        }
        path: Path = status_path(self._session.folder)
        path.with_suffix(".tmp").write_text(json.dumps(status))
        path.with_suffix(".tmp").replace(path)


def waiting_for(progress: Progress) -> str:
    """One line on what keeps the crawl from going on."""
    if progress.running:
        return f"{progress.running} requests in flight"
    if progress.next_in_s >= 0 and progress.slowest:
        note = min(progress.slowest, key=lambda note: note.next_in_s)
        why = f" ({note.reason})" if note.reason else ""
        return f"{note.host}, ready in {note.next_in_s:.0f} s{why}"
    if progress.hosts_front:
        return f"{progress.hosts_front} hosts in front queues"
    return "nothing"


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Waits for the process a while, then ends it."""
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
