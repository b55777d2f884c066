"""A worker as a process of its own: ``python -m lycosa.worker_process FD``, a child of the supervisor.

It talks over the socket FD, and ends when that closes: a supervisor that was killed leaves nobody behind. Ctrl-C is the supervisor's
to handle, so it is ignored here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import uvloop

from lycosa.assembly import Assembled, Job, assemble
from lycosa.messages import Ended, Failed, Seeds, SeedsTaken, Start, Stop, decode_to_worker, encode
from lycosa.progress import ProgressReport
from lycosa.real_ports import real_ports
from lycosa.wire import FrameError, FrameStream
from lycosa.worker import End

_PROGRESS_S = 0.5


def plugged_in(group: str) -> tuple[Any, ...]:
    """What installed packages registered for an extension point, in the order of their names."""
    return tuple(point.load() for point in sorted(entry_points(group=group), key=lambda point: point.name))


class WorkerProcess:
    """Runs one job and reports on it."""

    def __init__(self, stream: FrameStream) -> None:
        self._stream = stream

    async def run(self) -> None:
        """Until the job is over, or the supervisor is gone."""
        first = await self._stream.receive()
        if first is None:
            return
        start = decode_to_worker(first)
        assert isinstance(start, Start)
        try:
            await self._work(start)
        except (ConnectionError, FrameError):
            return  # the supervisor is gone; the next start recovers
        except Exception as error:
            failed = Failed(type(error).__name__, str(error) or repr(error), traceback.format_exc())
            with suppress(ConnectionError):
                await self._stream.send(encode(failed))

    async def _work(self, start: Start) -> None:
        folder = Path(start.folder)
        job = Job(
            folder,
            start.config,
            start.manifest,
            start.number,
            start.owned,
            start.software,
            start.user_agent,
            start.last_commit,
            rules=plugged_in("lycosa.scope_rules"),
            sinks=plugged_in("lycosa.page_sinks"),
        )
        ports = real_ports(folder, start.config, start.user_agent)
        assembled = assemble(job, ports)
        report = ProgressReport(assembled.worker, start.config, ports.clock)
        assembled.worker.expects_more = True
        listening = asyncio.create_task(self._listen(assembled))
        reporting = asyncio.create_task(self._report(report))
        running = asyncio.create_task(assembled.worker.run())
        try:
            done, _ = await asyncio.wait({listening, reporting, running}, return_when=asyncio.FIRST_COMPLETED)
            end: End = await running if running in done or listening not in done else self._abandon(listening)
            reporting.cancel()
            await ports.parser.close()
            await assembled.sender.close()
            assembled.close()
            await self._stream.send(encode(Ended(end.value, report.make())))
        finally:
            for task in (listening, reporting, running):
                task.cancel()
            await asyncio.gather(listening, reporting, running, return_exceptions=True)

    @staticmethod
    def _abandon(listening: asyncio.Task[None]) -> End:
        """The supervisor is gone."""
        listening.result()
        raise ConnectionResetError("the supervisor closed")

    async def _report(self, report: ProgressReport) -> None:
        while True:
            await self._stream.send(encode(report.make()))
            await asyncio.sleep(_PROGRESS_S)

    async def _listen(self, assembled: Assembled) -> None:
        while (frame := await self._stream.receive()) is not None:
            message = decode_to_worker(frame)
            if isinstance(message, Seeds):
                await self._take_seeds(assembled, message)
            elif isinstance(message, Stop):
                if message.at_once:
                    assembled.worker.break_off()
                else:
                    assembled.worker.stop(End.LIMIT if message.is_limit else End.STOPPED)

    async def _take_seeds(self, assembled: Assembled, seeds: Seeds) -> None:
        refused = assembled.intake.seeds(seeds.raw)
        await assembled.worker.commit()
        if seeds.is_last:
            assembled.worker.expects_more = False
        assembled.worker.wake()
        await self._stream.send(encode(SeedsTaken(len(seeds.raw) - len(refused), refused)))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=int(sys.argv[1]))
    uvloop.run(WorkerProcess(FrameStream(sock)).run())
    # What native libraries would still tidy up is of no use to anyone, and takes a second.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
