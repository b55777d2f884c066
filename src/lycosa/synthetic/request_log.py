"""The server's record of every request, by which a crawler's politeness is judged.

The side that answers keeps it (the socket server or the in-process fetcher), never the crawler, so
that a crawler cannot be its own witness. Times are of a monotonic clock. In the server a request
starts with its first byte and ends when the last byte of the response was passed to the system, so
every gap here is at least as long as the one that the crawler kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TextIO

import msgspec


class LoggedRequest(msgspec.Struct):
    """One request.

    ``host`` and ``path`` are as requested, ``address`` is where it was received, ``status`` is the
    one sent (0 = none). ``start`` and ``end`` are monotonic seconds (``end`` is infinite while it
    lasts); ``wall`` is the wall time of the start.
    """

    host: str
    address: str
    path: str
    start: float
    wall: float
    end: float = float("inf")
    status: int = 0


class RequestLog:
    """Requests in order of their start.

    They are also written to ``file``, one tab-separated line when each ends: start and end
    (microseconds since 1970), host, address, status, path.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.exchanges: list[LoggedRequest] = []
        self._out: TextIO | None = file.open("a", buffering=1, encoding="utf-8") if file else None

    def __len__(self) -> int:
        return len(self.exchanges)

    def begin_request(
        self, host: str, address: str, path: str, start: float, wall: float
    ) -> LoggedRequest:
        """Record that a request has arrived."""
        exchange = LoggedRequest(host.lower(), address, path, start, wall)
        self.exchanges.append(exchange)
        return exchange

    def finish_request(self, exchange: LoggedRequest, end: float) -> None:
        """Record that its response was sent, or that its connection is gone."""
        exchange.end = end
        if self._out:
            start_us = round(exchange.wall * 1e6)
            end_us = start_us + round((end - exchange.start) * 1e6)
            fields = (
                start_us,
                end_us,
                exchange.host,
                exchange.address,
                exchange.status,
                exchange.path,
            )
            self._out.write("\t".join(map(str, fields)) + "\n")

    def close(self) -> None:
        if self._out:
            self._out.close()
            self._out = None

    def of_host(self, host: str) -> list[LoggedRequest]:
        """The requests to one host (without port), including robots.txt."""
        return [exchange for exchange in self.exchanges if exchange.host.partition(":")[0] == host]

    def hosts(self) -> set[str]:
        """Every requested host, without port."""
        return {exchange.host.partition(":")[0] for exchange in self.exchanges}

    def addresses(self) -> set[str]:
        """Every requested address."""
        return {exchange.address for exchange in self.exchanges}

    def urls(self) -> list[str]:
        """The URLs requested, in order, with repetitions."""
        return [f"http://{exchange.host}{exchange.path}" for exchange in self.exchanges]

    def gaps(self, host: str) -> list[float]:
        """Seconds from the end of each request to a host to the start of the next.

        Negative where two overlap.
        """
        return _gaps(self.of_host(host))

    def shortest_gap(self) -> float:
        """The minimum gap over all hosts; infinite when no host was requested twice."""
        return min((gap for host in self.hosts() for gap in self.gaps(host)), default=float("inf"))

    def overlaps(self, host: str) -> int:
        """The number of requests to a host that began before an earlier one had ended."""
        return sum(1 for gap in self.gaps(host) if gap < 0.0)

    def max_parallel(self, address: str) -> int:
        """The maximum number of requests that one address had open at the same time."""
        return _max_parallel(exchange for exchange in self.exchanges if exchange.address == address)

    def start_gaps(self, address: str) -> list[float]:
        """Seconds between the starts of successive requests to one address."""
        starts = [exchange.start for exchange in self.exchanges if exchange.address == address]
        return [later - earlier for earlier, later in pairwise(sorted(starts))]


def _gaps(exchanges: list[LoggedRequest]) -> list[float]:
    gaps, busy_until = [], None
    for exchange in sorted(exchanges, key=lambda each: each.start):
        if busy_until is not None:
            gaps.append(exchange.start - busy_until)
        busy_until = exchange.end if busy_until is None else max(busy_until, exchange.end)
    return gaps


def _max_parallel(exchanges: Iterable[LoggedRequest]) -> int:
    # at the same instant, ends come first
    events = sorted(event for each in exchanges for event in ((each.start, 1), (each.end, -1)))
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def read_log(file: Path) -> RequestLog:
    """A log read from its file, with wall time in place of the monotonic clock."""
    log = RequestLog()
    for line in file.read_text(encoding="utf-8").splitlines():
        start_us, end_us, host, address, status, path = line.split("\t", 5)
        start = int(start_us) / 1e6
        log.exchanges.append(
            LoggedRequest(host, address, path, start, start, int(end_us) / 1e6, int(status))
        )
    log.exchanges.sort(key=lambda each: each.start)
    return log
