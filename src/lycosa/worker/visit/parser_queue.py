"""Bounds the documents that wait for the parser, and handles an unavailable parser.

The host of a document was released before, so a waiting document holds no fetch slot. It uses
memory, and its work would be repeated after a crash, so number and bytes are bounded. When no
parser could be started for some seconds, nothing more is fetched for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from lycosa.base.model.fetched import Fetched
from lycosa.base.model.parsed import Parsed, ParseInput, ParserHealth
from lycosa.base.ports import Clock, Parser
from lycosa.base.reasons import Reason
from lycosa.base.system.meter import Histogram
from lycosa.base.system.metric_catalogue import SECONDS

# One or two seconds of the parser's work. While the parser is the slow part, each document takes
# about 20 kB in addition to its body.
_MAX = 1000
_MAX_AWAY_S = 5.0
_Result = TypeVar("_Result")
_FAILURES = (
    Reason.PARSE_KILLED,
    Reason.PARSE_TIMEOUT,
    Reason.PARSE_STALLED,
    Reason.DECODE_FAILED,
    Reason.DECODE_LIMIT,
    Reason.INTERNAL,
)


class ParserQueue:
    """One per worker. ``number`` documents wait; ``most_bytes`` bounds their bodies in memory."""

    def __init__(self, parser: Parser, most_bytes: int, clock: Clock) -> None:
        self._parser = parser
        self._max_bytes = most_bytes
        self._clock = clock
        self._bytes = 0
        self._waiting: set[asyncio.Task[None]] = set()
        self.number = 0
        self.times = Histogram(SECONDS)
        """Seconds from giving a body to the parser to its result."""
        self.failures = {reason.label: 0 for reason in _FAILURES}
        """Bodies that were not parsed, by reason."""

    def __repr__(self) -> str:
        return f"<ParserQueue number={self.number} bytes={self._bytes} {self.health}>"

    @property
    def may_start(self) -> bool:
        """Whether more may be fetched for the parser."""
        return self.number < _MAX and self._bytes < self._max_bytes and not self.lacks_parser

    @property
    def health(self) -> ParserHealth:
        """The state of the parser."""
        return self._parser.health()

    @property
    def lacks_parser(self) -> bool:
        """Whether the parser has been unavailable for too long to fetch more for it."""
        return self.health.away_s > _MAX_AWAY_S

    @contextmanager
    def counted(self, fetched: Fetched) -> Iterator[None]:
        """Count a body from its fetch to its capture.

        Meanwhile it is parsed and other workers are asked.
        """
        size = len(fetched.body)
        self.number += 1
        self._bytes += size
        try:
            yield
        finally:
            self.number -= 1
            self._bytes -= size

    async def parse_body(self, fetched: Fetched, *, is_sitemap: bool) -> Parsed:
        """Parse a body; wait while the parser is unavailable."""
        is_cut = bool(fetched.truncated)
        document = ParseInput(
            fetched.url,
            fetched.status,
            fetched.headers(),
            fetched.body,
            fetched.spool,
            is_sitemap,
            is_cut,
        )
        # As ``waited_for``, without a further call for each page.
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._waiting.add(task)
        began = self._clock.monotonic()
        try:
            parsed = await self._parser.parse(document)
        finally:
            self._waiting.discard(task)
        self.times.observe(self._clock.monotonic() - began)
        if parsed.reason in _FAILURES:
            self.failures[parsed.reason.label] += 1
        return parsed

    async def waited_for(self, work: Awaitable[_Result]) -> _Result:
        """Await work of another process or thread; ``break_off`` cancels the waiting task."""
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._waiting.add(task)
        try:
            return await work
        finally:
            self._waiting.discard(task)

    def break_off(self) -> None:
        """Cancel the visits that wait for the parser, or for user code.

        Their leases are open, so their URLs stay queued and are fetched by a later run.
        """
        for task in self._waiting:
            task.cancel()
