"""Documents on their way through the parser: how many may wait, and what happens when the parser is
away.

The host of a document was released before, so what waits here holds no fetch slot. It holds memory,
and work that a kill would make necessary again, so both are bounded; and when no parser can be
started nothing more is fetched for it after some seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from lycosa.model.fetched import Fetched
from lycosa.model.parsed import Document, Parsed, ParserHealth
from lycosa.ports import Parser

# a second or two of the parser's work; each holds some 20 kB beside its body, as long as the parser
# is what is slow
_MOST = 1000
_MOST_AWAY_S = 5.0


class ParserQueue:
    """One per worker. ``number`` documents are on their way; ``most_bytes`` bounds the bodies
    that they hold in memory.
    """

    def __init__(self, parser: Parser, most_bytes: int) -> None:
        self._parser = parser
        self._most_bytes = most_bytes
        self._bytes = 0
        self._waiting: set[asyncio.Task[None]] = set()
        self.number = 0

    def __repr__(self) -> str:
        return f"<Parsing number={self.number} bytes={self._bytes} {self.health}>"

    @property
    def may_start(self) -> bool:
        """Whether more may be fetched, for the parser to read."""
        return self.number < _MOST and self._bytes < self._most_bytes and not self.lacks_parser

    @property
    def health(self) -> ParserHealth:
        """What the parser says of itself."""
        return self._parser.health()

    @property
    def lacks_parser(self) -> bool:
        """Whether the parser has been away for so long that nothing more is to be fetched for
        it.
        """
        return self.health.away_s > _MOST_AWAY_S

    @contextmanager
    def counted(self, fetched: Fetched) -> Iterator[None]:
        """While a body is on its way from its fetch to its capture, which is the parser's part
        and what other workers are asked.
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
        """What a body says. Waits as long as the parser is away; ``break_off`` cancels the task
        that waits.
        """
        task = cast("asyncio.Task[None]", asyncio.current_task())
        is_cut = bool(fetched.truncated)
        document = Document(
            fetched.url,
            fetched.status,
            fetched.headers(),
            fetched.body,
            fetched.spool,
            is_sitemap,
            is_cut,
        )
        self._waiting.add(task)
        try:
            return await self._parser.parse(document)
        finally:
            self._waiting.discard(task)

    def break_off(self) -> None:
        """Ends the visits that wait for the parser. Their leases are open, so their URLs stay
        queued and are fetched by a later run.
        """
        for task in self._waiting:
            task.cancel()
