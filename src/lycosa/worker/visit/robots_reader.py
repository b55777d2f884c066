"""Reads a robots.txt answer or a stored record into compiled rules.

Short files are read on the loop, long ones in a thread. A file of 512 kB takes 25 ms to read and
120 ms to compile. An ordinary file takes 0.15 ms, which is less than the way to a thread and back.
It is a thread and not the parse child, because the rules have to be in this process: transferring
them would take more of the loop's time than reading a record from the table. Nothing here can hang,
since decoding, reading and compiling are each bounded by ``robots.max_bytes``.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from lycosa.base.config.sections import RobotsSection
from lycosa.base.model.fetched import Fetched
from lycosa.base.ports import Offload
from lycosa.base.system.content_encoding import decode_content
from lycosa.stages.politeness.robots_cache import RobotsAnswer, RobotsRecord, after_fetch, answer_of
from lycosa.stages.politeness.robots_rules import Matcher
from lycosa.state.kv.table_records import encode_record

SHORT_BYTES = 16_384
"""Maximum size of a body or a stored record that is read on the loop: at most 3 ms."""

_MAX_RATIO = 1000
_DECODER = msgspec.msgpack.Decoder(RobotsRecord)
_TIMES = ("fetched", "expires", "first_failure", "next_try")


def earlier(stored: bytes, seconds: float) -> bytes:
    """A stored record with all times moved back by ``seconds``.

    It is for an owner whose crawl time is behind that of the writer.
    """
    record = _DECODER.decode(stored)
    moved = {name: max(time - seconds, 1.0) for name in _TIMES if (time := getattr(record, name))}
    return encode_record(msgspec.structs.replace(record, **moved))


class Ready(msgspec.Struct, frozen=True):
    """A record with its compiled rules."""

    record: RobotsRecord
    matcher: Matcher


class RobotsReader:
    """One per worker; ``product`` is our product token in robots.txt files."""

    def __init__(self, section: RobotsSection, product: str, offload: Offload) -> None:
        self.section = section
        self._product = product
        self._offload = offload

    async def read_answer(
        self, fetched: Fetched, old: RobotsRecord | None, time: float
    ) -> tuple[Ready, bytes]:
        """What an answer at crawl time ``time`` means after ``old``, and its stored form."""
        if len(fetched.body) > SHORT_BYTES or fetched.spool:
            return await self._offload.run(
                lambda: self._ready(fetched, self._decoded(fetched), old, time)
            )
        body = self._decoded(fetched)
        if len(body) > SHORT_BYTES:
            return await self._offload.run(lambda: self._ready(fetched, body, old, time))
        return self._ready(fetched, body, old, time)

    def judge_failure(self, answer: RobotsAnswer, old: Ready | None, time: float) -> Ready:
        """What an answer without a file means after ``old``."""
        record = after_fetch(old.record if old else None, answer, self._product, self.section, time)
        return Ready(
            record,
            (
                old.matcher
                if old is not None and record.rules is old.record.rules
                else Matcher(record.rules)
            ),
        )

    async def load_record(self, stored: bytes) -> Ready:
        """Read a record of the table."""
        return (
            await self._offload.run(lambda: _load(stored))
            if len(stored) > SHORT_BYTES
            else _load(stored)
        )

    def load_short(self, stored: bytes) -> Ready | None:
        """Read a record of the table at once; ``None`` when that would take too long."""
        return _load(stored) if len(stored) <= SHORT_BYTES else None

    def _decoded(self, fetched: Fetched) -> bytes:
        if not 200 <= fetched.status < 300:
            return b""
        return decode_content(
            whole_body(fetched),
            fetched.header("content-encoding"),
            self.section.max_bytes + 1,
            _MAX_RATIO,
        ).body

    def _ready(
        self, fetched: Fetched, body: bytes, old: RobotsRecord | None, time: float
    ) -> tuple[Ready, bytes]:
        record = after_fetch(old, answer_of(fetched, body), self._product, self.section, time)
        return Ready(record, Matcher(record.rules)), encode_record(record)


def whole_body(fetched: Fetched) -> bytes:
    """The body, from memory or from disk.

    It is on disk if large bodies filled the memory for bodies.
    """
    return Path(fetched.spool).read_bytes() if fetched.spool else fetched.body


def _load(stored: bytes) -> Ready:
    record = _DECODER.decode(stored)
    return Ready(record, Matcher(record.rules))
