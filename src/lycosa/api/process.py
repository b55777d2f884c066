"""The process of the HTTP interface: ``python -m lycosa.api.process FD``.

The socket ``FD`` is to the process that started this one: a line with the job arrives there, this
process sends a byte a second, and ends when the other end closes. Nothing is stored here, so it may
be killed at any time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress

from fastapi import FastAPI

from lycosa.api.app import make_app
from lycosa.api.gate import GateRules
from lycosa.api.places import ReachedCrawl, reach_crawl
from lycosa.api.process_log import ProcessLog
from lycosa.api.service import CrawlService
from lycosa.api.slow_clients import http_server, raise_file_limit, yield_to_crawl
from lycosa.api.tokens import Tokens, read_tokens
from lycosa.config.sources import SettingsError
from lycosa.logs.log import opened_log
from lycosa.logs.records import LogLevel
from lycosa.network import split_address
from lycosa.serve.api_job import ApiJob, decode_api_job

_ALIVE_S = 1.0
_MAX_JOB_BYTES = 100_000


Extend = Callable[[FastAPI], None]
"""Adds routes to the application that are no part of the API, such as the operator's page."""


async def serve_api(
    job: ApiJob, place: ReachedCrawl, tokens: Tokens, extend: Extend, log: ProcessLog
) -> None:
    """Serve until this is cancelled."""
    settings = job.settings
    listener = socket.socket(fileno=job.listener)
    address = listener.getsockname()[0]
    rules = GateRules(
        host=split_address(settings.address)[0],
        is_loopback=address.startswith("127.") or address == "::1",
        is_behind_proxy=settings.is_behind_proxy,
        limits=settings.limits,
    )

    def note_wait(why: str) -> None:
        if why:
            log.tell("waiting", f"the coordinator does not answer: {why}")
        else:
            log.tell("waiting_over", "the coordinator answers again", LogLevel.INFO)

    service = CrawlService(place, settings.limits, note_wait)
    is_secure = bool(settings.certificate) or settings.is_behind_proxy
    app = make_app(service, rules, tokens, log, is_secure, extend)
    server = http_server(app, settings.limits, settings.certificate, settings.key)
    watching = asyncio.create_task(service.watch.run())
    try:
        await server._serve([listener])  # without its handlers of signals
    finally:
        server.close_all()
        listener.close()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await place.close()


async def _run(supervisor: socket.socket, extend: Extend, log: ProcessLog) -> None:
    loop = asyncio.get_running_loop()
    supervisor.setblocking(False)
    line = b""
    while not line.endswith(b"\n"):
        piece = await loop.sock_recv(supervisor, _MAX_JOB_BYTES)
        if not piece:
            return
        line += piece
    job = decode_api_job(line)
    raise_file_limit(job.settings.limits.connections)
    yield_to_crawl()
    place = await asyncio.to_thread(reach_crawl, job, lambda line: log.tell("tls_files", line))
    tokens = read_tokens(job.settings.token_file)
    serving = asyncio.create_task(serve_api(job, place, tokens, extend, log))
    telling = asyncio.create_task(_tell(supervisor))
    await asyncio.wait(
        {serving, telling, asyncio.create_task(_await_end(supervisor))},
        return_when=asyncio.FIRST_COMPLETED,
    )
    if serving.done():
        serving.result()


async def _tell(supervisor: socket.socket) -> None:
    """Say that the loop runs."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while True:
            await loop.sock_sendall(supervisor, b".")
            await asyncio.sleep(_ALIVE_S)


async def _await_end(supervisor: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while await loop.sock_recv(supervisor, 100):
            pass


def run_api(extend: Extend = lambda app: None) -> None:
    """Run the process, with the routes that ``extend`` adds."""
    supervisor = socket.socket(fileno=int(sys.argv[1]))
    log = ProcessLog(opened_log("api"))
    log.take_libraries()
    try:
        asyncio.run(_bounded(supervisor, extend, log))
    except (OSError, ssl.SSLError, SettingsError) as error:
        log.tell_failure(str(error))
    except Exception as error:
        log.tell_failure(f"the process of the API cannot continue: {error!r}", error)
    _exit(log, 1)


async def _bounded(supervisor: socket.socket, extend: Extend, log: ProcessLog) -> None:
    await _run(supervisor, extend, log)
    _exit(log, 0)  # connections that are open end with the process


def _exit(log: ProcessLog, code: int) -> None:
    log.close()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run_api()
