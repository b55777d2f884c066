"""Server-sent events: the state of the crawl about once a second.

A listener holds one of a bounded number of places, from the first byte of its answer to the end of
its connection. It is released by the answer itself, because an answer whose client left early may
never be begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lycosa.cluster.coordinator.crawl_metrics import crawl_state
from lycosa.service.api.answers import CoordinatorSilent
from lycosa.service.api.overview_answer import counted_status
from lycosa.service.api.quotas import HeldPlaces
from lycosa.service.api.service import CrawlService

_QUIET_S = 15.0


class EventStream(Response):
    """The events for one listener; it ends after ``most`` of them (0 = with the connection).

    ``place`` holds a place for it.
    """

    def __init__(
        self,
        service: CrawlService,
        place: Callable[[], AbstractContextManager[HeldPlaces]],
        most: int,
    ) -> None:
        super().__init__(
            None,
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._service, self._place, self._most = service, place, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place():
            headers = [line for line in self.raw_headers if line[0] != b"content-length"]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            sending = asyncio.ensure_future(self._send(send))
            leaving = asyncio.ensure_future(_gone(receive))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                for task in (sending, leaving):
                    task.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        state, number = "", 0
        while not self._most or number < self._most:
            text = b": waiting\n\n"
            # No news is no end of the stream: a comment keeps the connection, which proxies close
            # when it is quiet.
            with suppress(TimeoutError, CoordinatorSilent):
                async with asyncio.timeout(_QUIET_S):
                    status = await self._service.watch.next_status()
                number += 1
                now = crawl_state(status)
                kind = "state" if now != state else "stats"
                state = now
                body = msgspec.json.encode(counted_status(status, self._service.rates()))
                text = b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), body)
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
