"""A synthetic web on a real socket for what blocks: programs and processes that crawl it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lycosa.synthetic import RequestLog, Responder, SyntheticServer


@contextmanager
def served(web: Responder, pace: float = 0.0, log: RequestLog | None = None) -> Iterator[int]:
    """The web on a loop of its own, because who crawls it blocks; ``pace`` scales its pauses.
    Gives the port.
    """
    with served_with_log(web, pace, log) as (port, _):
        yield port


@contextmanager
def served_with_log(
    web: Responder, pace: float = 0.0, log: RequestLog | None = None
) -> Iterator[tuple[int, RequestLog]]:
    """The same; gives what the server itself saw, too."""
    loop = asyncio.new_event_loop()
    server = SyntheticServer(web, pace=pace, log=log)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(60)
        yield server.port, server.log
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
