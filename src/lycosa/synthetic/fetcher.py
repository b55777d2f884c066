"""The ``Fetcher`` port without sockets, for virtual time.

It plays the server's bytes on the crawl's clock. The bytes come from the same programs that the
socket server plays, and an HTTP reader with the limits of the request reads them. So header block,
body, truncation and reason are those of a real fetch; only connecting takes no time.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from lycosa.base.model.fetched import Fetched, FetchRequest, Limits
from lycosa.base.ports import Clock
from lycosa.base.reasons import Reason
from lycosa.synthetic.bad_wire import steps
from lycosa.synthetic.request_log import RequestLog
from lycosa.synthetic.response_reader import ReplyReader
from lycosa.synthetic.sent_response import Response, WireEnd
from lycosa.synthetic.synthetic_web import Responder

_FOLD = re.compile(rb"\r?\n[ \t]+")  # libcurl joins folded lines


class SyntheticFetcher:
    """Fetches from a web in process.

    ``log`` is the record for judging politeness. Addresses in ``unreachable`` fail with their
    reason (``CONNECT_REFUSED``, ``CONNECT_TIMEOUT``, ``NETWORK_UNREACHABLE``). ``may_send`` is
    called when a request reaches the web; if it returns false, the request ends as
    ``LEASE_EXPIRED``. Bodies over ``Limits.spool_bytes`` go to files in ``spool_dir``; without one
    they stay in memory.
    """

    def __init__(
        self,
        web: Responder,
        clock: Clock,
        log: RequestLog | None = None,
        *,
        unreachable: Mapping[str, Reason] | None = None,
        spool_dir: Path | None = None,
        agent: str = "lycosa",
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        self._web, self._clock = web, clock
        self.log = log if log is not None else RequestLog()
        self._unreachable = unreachable or {}
        self._spool_dir = spool_dir
        self._agent = agent
        self._may_send = may_send

    async def fetch(self, request: FetchRequest) -> Fetched:
        refusal = self._unreachable.get(request.address)
        if refusal:
            return await self._refuse(request, refusal)
        # As in the real fetcher, the lease is checked at the last moment before the request.
        if not self._may_send():
            return Fetched(
                request.url,
                Reason.LEASE_EXPIRED,
                "synthetic",
                address=request.address,
                started=self._clock.wall(),
            )
        parts = urlsplit(request.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fields = self._request_headers(request, parts.netloc)
        start, wall = self._clock.monotonic(), self._clock.wall()
        exchange = self.log.begin_request(parts.netloc, request.address, path, start, wall)
        reader = ReplyReader(request.limits, request.url)
        meter = _Meter(self._clock, request.limits)
        try:
            response = self._web.respond(
                request.url, wall, {name.lower(): value for name, value in fields}
            )
            exchange.status = response.status
            await _play(response, reader, meter)
        finally:
            self.log.finish_request(exchange, self._clock.monotonic())
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", ""]
        spool, body = self._spool(reader, request.limits)
        return Fetched(
            url=request.url,
            reason=reader.reason,
            detail=reader.detail,
            status=reader.status,
            request_block="\r\n".join(lines).encode("latin-1", "replace"),
            header_block=_FOLD.sub(b" ", reader.header_block),
            body=body,
            spool=spool,
            body_bytes=len(reader.body),
            truncated=reader.truncated,
            address=request.address,
            protocol=reader.protocol,
            started=wall,
            first_byte_s=0.0 if meter.first_byte is None else meter.first_byte - start,
            duration_s=self._clock.monotonic() - start,
        )

    async def close(self) -> None:
        """Do nothing: no resources are held."""

    def _request_headers(self, request: FetchRequest, host: str) -> list[tuple[str, str]]:
        fields = [
            ("Host", host),
            ("User-Agent", self._agent),
            ("Accept", request.accept or "text/html,*/*;q=0.8"),
            ("Accept-Encoding", "gzip, br, zstd"),
        ]
        if request.etag:
            fields.append(("If-None-Match", request.etag))
        if request.last_modified:
            fields.append(("If-Modified-Since", request.last_modified))
        if request.referer:
            fields.append(("Referer", request.referer))
        return fields

    async def _refuse(self, request: FetchRequest, reason: Reason) -> Fetched:
        started = self._clock.wall()
        delay_s = request.limits.connect_s if reason is Reason.CONNECT_TIMEOUT else 0.001
        await self._clock.sleep(delay_s)
        return Fetched(
            request.url,
            reason,
            "synthetic",
            address=request.address,
            started=started,
            duration_s=delay_s,
        )

    def _spool(self, reader: ReplyReader, limits: Limits) -> tuple[str, bytes]:
        if self._spool_dir is None or len(reader.body) <= limits.spool_bytes:
            return "", bytes(reader.body)
        with tempfile.NamedTemporaryFile(dir=self._spool_dir, prefix="body-", delete=False) as file:
            file.write(reader.body)
        return file.name, b""


class _Meter:
    """Measures a transfer against its time limits.

    They are first byte, total, and minimum speed over windows that begin with the first byte.
    """

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock, self._limits = clock, limits
        self._start = self._window = clock.monotonic()
        self._in_window = 0
        self.first_byte: float | None = None

    def count(self, size: int, *, has_begun: bool) -> None:
        """Record bytes that have arrived."""
        if self.first_byte is None and has_begun:
            self.first_byte = self._window = self._clock.monotonic()
        self._in_window += size

    async def pause(self, seconds: float) -> Reason:
        """Wait for the server until a limit is exceeded at most.

        Returns the reason of that limit, or ``NONE``.
        """
        until = self._clock.monotonic() + seconds
        while True:
            limit, reason = self._next_limit()
            if until < limit:
                await self._clock.sleep(until - self._clock.monotonic())
                return Reason.NONE
            await self._clock.sleep(limit - self._clock.monotonic())
            if (
                reason is not Reason.TOO_SLOW
                or self._in_window < self._limits.min_bytes_per_s * self._limits.min_speed_window_s
            ):
                return reason
            self._window, self._in_window = limit, 0

    def _next_limit(self) -> tuple[float, Reason]:
        total = (self._start + self._limits.total_s, Reason.TOTAL_TIMEOUT)
        if self.first_byte is None:
            return min(total, (self._start + self._limits.first_byte_s, Reason.FIRST_BYTE_TIMEOUT))
        if not self._limits.min_bytes_per_s:
            return total
        return min(total, (self._window + self._limits.min_speed_window_s, Reason.TOO_SLOW))


async def _play(response: Response, reader: ReplyReader, meter: _Meter) -> None:
    reason = await meter.pause(response.latency_s)
    if reason:
        return reader.fail(reason, reason.meaning)
    for step in steps(response):
        if isinstance(step, bytes):
            is_done = reader.feed(step)
            meter.count(len(step), has_begun=reader.has_begun)
            if is_done:
                return None
        elif isinstance(step, float):
            reason = await meter.pause(step)
            if reason:
                return reader.fail(reason, reason.meaning, "time")
        elif step is WireEnd.HANG:
            reason = await meter.pause(float("inf"))
            return reader.fail(reason, reason.meaning, "time")
        else:
            return reader.close(is_reset=step is WireEnd.RESET)
    return reader.close()
