"""The process of the HTTP interface: ``python -m lycosa.service.api.api_process FD``.

The socket ``FD`` is to the process that started this one: a line with the job arrives there, this
process sends a line end a second, and ends when the other end closes. A byte from there means that
tokens and certificate may have changed; a line to there is a session that was ended. Nothing is
stored here, so the process may be killed at any time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from fastapi import FastAPI

from lycosa.base.config.sources import SettingsError
from lycosa.base.logs.log_records import LogLevel
from lycosa.base.logs.log_writer import opened_log
from lycosa.cluster.network.endpoints import split_address
from lycosa.service.api.access_log import AccessLog
from lycosa.service.api.api_job import ApiJob, ApiSettings, decode_api_job
from lycosa.service.api.app import make_app
from lycosa.service.api.gate import GateRules
from lycosa.service.api.places import CoordinatedCrawl, reach_crawl
from lycosa.service.api.process_log import ProcessLog
from lycosa.service.api.service import CrawlService
from lycosa.service.api.slow_clients import (
    BoundedServer,
    http_server,
    raise_file_limit,
    yield_to_crawl,
)
from lycosa.service.api.tokens import Tokens, cookie_name, read_tokens, warning_about

_ALIVE_S = 1.0
_INFO = LogLevel.INFO
_MAX_JOB_BYTES = 100_000


Extend = Callable[[FastAPI], None]
"""Adds routes to the application that are no part of the API, such as the operator's page."""


async def serve_api(
    job: ApiJob,
    place: CoordinatedCrawl,
    tokens: Tokens,
    extend: Extend,
    log: ProcessLog,
    reloads: asyncio.Event | None = None,
) -> None:
    """Serve until this is cancelled; tokens and certificate are read again after ``reloads``."""
    settings = job.settings
    listener = socket.socket(fileno=job.listener)
    address = listener.getsockname()[0]
    # A proxy ends TLS in front of this process; cookies must be marked for its clients.
    is_secure = bool(settings.certificate) or settings.is_behind_proxy
    rules = GateRules(
        host=split_address(settings.address)[0],
        is_loopback=address.startswith("127.") or address == "::1",
        is_behind_proxy=settings.is_behind_proxy,
        limits=settings.limits,
        cookie=cookie_name(place.coordinator.name, is_secure),
    )

    def note_wait(why: str) -> None:
        if why:
            log.tell("waiting", f"the coordinator does not answer: {why}")
        else:
            log.tell("waiting_over", "the coordinator answers again", LogLevel.INFO)

    note_decision = AccessLog(log).note_decision
    service = CrawlService(place, settings.limits, note_wait, note_decision)
    app = make_app(service, rules, tokens, log, is_secure, extend)
    server = http_server(app, settings.limits, settings.certificate, settings.key)
    tasks = [asyncio.create_task(service.watch.run())]
    if reloads is not None:
        reload = partial(_reload, settings, tokens, server, log)
        tasks.append(asyncio.create_task(_reload_whenever(reloads, reload)))
    try:
        await server._serve([listener])  # without its handlers of signals
    finally:
        server.close_all()
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await place.close()


async def _reload_whenever(reloads: asyncio.Event, reload: Callable[[], None]) -> None:
    while True:
        await reloads.wait()
        reloads.clear()
        await asyncio.to_thread(reload)


def _reload(settings: ApiSettings, tokens: Tokens, server: BoundedServer, log: ProcessLog) -> None:
    """Use the present files of tokens and certificate; what cannot be read stays as it was."""
    if settings.token_file:
        try:
            tokens.follow(read_tokens(settings.token_file))
            log.tell("api_reloaded", f"the tokens of {settings.token_file} are read again", _INFO)
        except SettingsError as error:
            log.tell_failure(f"the tokens stay those of the start: {error}")
    if settings.certificate:
        files = f"{settings.certificate} and {settings.key}"
        try:
            server.use_certificate(settings.certificate, settings.key)
            log.tell("api_reloaded", f"new connections get the certificate of {files}", _INFO)
        except (OSError, ssl.SSLError) as error:
            log.tell_failure(f"the certificate stays the one before: {files}: {error}")


async def _run(supervisor: socket.socket, extend: Extend, log: ProcessLog) -> None:
    loop = asyncio.get_running_loop()
    supervisor.setblocking(False)
    line = b""
    while b"\n" not in line:  # what follows is a reload of what is read now
        piece = await loop.sock_recv(supervisor, _MAX_JOB_BYTES)
        if not piece:
            return
        line += piece
    job = decode_api_job(line.partition(b"\n")[0])
    raise_file_limit(job.settings.limits.connections)
    yield_to_crawl()
    place = await asyncio.to_thread(reach_crawl, job, lambda line: log.tell("tls_files", line))
    tokens = read_tokens(job.settings.token_file, job.service, job.ended)
    if warning := warning_about(job.settings.token_file):
        log.tell("note", warning)
    tokens.on_ended = lambda session: _send_line(supervisor, session)
    reloads = asyncio.Event()
    serving = asyncio.create_task(serve_api(job, place, tokens, extend, log, reloads))
    telling = asyncio.create_task(_tell(supervisor))
    await asyncio.wait(
        {serving, telling, asyncio.create_task(_follow(supervisor, reloads))},
        return_when=asyncio.FIRST_COMPLETED,
    )
    if serving.done():
        serving.result()


async def _tell(supervisor: socket.socket) -> None:
    """Say that the loop runs."""
    # The supervisor is gone; ``_follow`` sees that too, and ends the process.
    with suppress(ConnectionError):
        while True:
            _send_line(supervisor, "")
            await asyncio.sleep(_ALIVE_S)


def _send_line(supervisor: socket.socket, line: str) -> None:
    """Send a line at once. Raises ``ConnectionError`` when the other end has closed.

    A full buffer holds thousands of lines: then the supervisor hangs, and needs none.
    """
    with suppress(BlockingIOError):
        supervisor.send(line.encode() + b"\n")


async def _follow(supervisor: socket.socket, reloads: asyncio.Event) -> None:
    """Pass reloads on until the other end closes."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while await loop.sock_recv(supervisor, 100):
            reloads.set()


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
        # The last place that can log it: standard error may be closed.
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
