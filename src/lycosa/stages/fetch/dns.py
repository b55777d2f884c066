"""DNS lookups through a cache that obeys TTLs and also stores failures.

A crawl looks up the same few names again and again, and many that do not exist. So an answer is
cached for its TTL within bounds, "no such name" for a separate time, and any other failure for a
second (so that the next try is a real one). Identical lookups in flight are merged. When the name
servers fail, an expired answer is used again for a bounded time (RFC 8767). Literal addresses,
``localhost`` (RFC 6761 section 6.3) and the operator's pins never reach a name server. The guard
decides which addresses may be connected to, on the address itself.

The cache has no timeout; that belongs to the query.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import chain, zip_longest
from typing import Any, Protocol

from lycosa.base.config.patterns import compile_pattern
from lycosa.base.config.sections import DnsSection
from lycosa.base.ports import Clock, ResolveError
from lycosa.base.reasons import Reason
from lycosa.base.system.meter import Histogram
from lycosa.base.system.metric_catalogue import SECONDS
from lycosa.stages.fetch.silence import MIN_NAMES, Silence

STALE_S = 86_400.0  # RFC 8767 section 5 suggests one to three days
STALE_RETRY_S = 30.0  # and to ask again after 30 seconds
FAILURE_S = 1.0  # the minimum of RFC 9520 section 3.2
_Answer = Sequence[tuple[str, float]]
_WITNESS_S = 10.0  # between two checks whether any name server answers


class Query(Protocol):
    """Queries name servers, without a cache.

    Raises ``ResolveError``, and always ends within a time limit.
    """

    async def query_name(self, name: str) -> Sequence[tuple[str, float]]:
        """The addresses, at least one, each with its time to live in seconds."""
        ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Entry:
    """The cached result for a name: addresses or a reason, and until when it is valid."""

    addresses: tuple[str, ...]
    expires: float
    stale_until: float
    reason: Reason = Reason.NONE
    detail: str = ""
    outage_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ResolverSnapshot:
    """Current entries and lookups in flight, and counts since the start."""

    entries: int
    in_question: int
    hits: int
    questions: int
    failures: int
    stale: int


class CachingResolver:
    """Looks up names in pins, a cache and ``query``, in this order.

    Raises ``ValueError`` with the text of a pin that cannot be parsed.
    """

    def __init__(self, section: DnsSection, clock: Clock, query: Query) -> None:
        self._section, self._clock, self._query = section, clock, query
        self._pins = parse_pins(section.pins)
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._asking: dict[str, asyncio.Task[_Entry]] = {}
        self._turns = asyncio.Semaphore(section.concurrency)
        self._silence = Silence(section.outage_s, MIN_NAMES)
        self._next_look = 0.0
        self._hits = self._questions = self._failures = self._stale = 0
        self.query_times = Histogram(SECONDS)
        """Seconds from a query to its answer or failure."""

    async def resolve(self, name: str) -> Sequence[str]:
        """The addresses of ``name``, IPv4 and IPv6 alternating. Raises ``ResolveError``.

        Cancelling the caller does not cancel the lookup.
        """
        name = _folded(name)
        known = self._without_asking(name)
        if known is not None:
            return known
        entry = self._fresh(name)
        if entry is None:
            entry = await self._asked(name)
        else:
            self._hits += 1
        if entry.reason is not Reason.NONE:
            raise ResolveError(name, entry.reason, entry.detail, entry.outage_s)
        return entry.addresses

    async def close(self) -> None:
        """Cancel the lookups in flight; their callers get ``ResolveError``."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._query.close()

    def snapshot(self) -> ResolverSnapshot:
        return ResolverSnapshot(
            len(self._entries),
            len(self._asking),
            self._hits,
            self._questions,
            self._failures,
            self._stale,
        )

    def __repr__(self) -> str:
        return f"CachingResolver({self.snapshot()})"

    async def _asked(self, name: str) -> _Entry:
        task = self._ask_once(name)
        # unlike awaiting the task itself, this does not cancel it together with the caller
        await asyncio.wait((task,))
        if task.cancelled():
            raise ResolveError(name, Reason.DNS_FAILED, "the resolver was closed")
        return task.result()

    def _without_asking(self, name: str) -> tuple[str, ...] | None:
        pinned = self._pins.find_addresses(name)
        if pinned is not None:
            return pinned
        # RFC 6761 section 6.3: these never go to a name server.
        if name == "localhost" or name.endswith(".localhost"):
            return ("127.0.0.1", "::1") if self._section.ipv6 else ("127.0.0.1",)
        literal = _literal(name)
        return (str(literal),) if literal else None

    def _fresh(self, name: str) -> _Entry | None:
        entry = self._entries.get(name)
        if entry is None or entry.expires <= self._clock.monotonic():
            return None
        self._entries.move_to_end(name)
        return entry

    def _ask_once(self, name: str) -> asyncio.Task[_Entry]:
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.get_running_loop().create_task(self._ask(name))
            task.add_done_callback(lambda _: self._asking.pop(name, None))
        return task

    async def _ask(self, name: str) -> _Entry:
        async with self._turns:
            self._questions += 1
            try:
                answer = await self._timed(self._query.query_name(name))
            except ResolveError as error:
                entry = self._failed(name, error)
                # An answer as well: the name servers work, so no outage of ours.
                if error.reason is Reason.DNS_NO_SUCH_NAME:
                    self._silence.note_answer()
                else:
                    self._silence.note_no_answer(name, self._clock.monotonic())
                    entry.outage_s = await self._outage_s()
            else:
                entry = self._answered(answer)
                self._silence.note_answer(name, entry.expires)
        self._remember(name, entry)
        return entry

    async def _timed(self, query: Awaitable[_Answer]) -> _Answer:
        began = self._clock.monotonic()
        try:
            return await query
        finally:
            self.query_times.observe(self._clock.monotonic() - began)

    async def _outage_s(self) -> float:
        """How long the name servers seem to have answered no query; 0 when they do."""
        silence, now = self._silence, self._clock.monotonic()
        if silence.outage_s(now) and now >= self._next_look:
            self._next_look = now + _WITNESS_S
            for name in silence.witnesses(now):
                try:
                    await self._query.query_name(name)
                except ResolveError as error:
                    # This witness says nothing; the next one may. A name that is gone shows that
                    # the servers answer.
                    if error.reason is not Reason.DNS_NO_SUCH_NAME:
                        continue
                silence.note_answer()
                break
        return silence.outage_s(self._clock.monotonic())

    def _answered(self, answer: Sequence[tuple[str, float]]) -> _Entry:
        section, now = self._section, self._clock.monotonic()
        shortest = min(ttl for _, ttl in answer)
        expires = now + min(max(shortest, section.min_ttl_s), section.max_ttl_s)
        return _Entry(_in_turn([address for address, _ in answer]), expires, expires + STALE_S)

    def _failed(self, name: str, error: ResolveError) -> _Entry:
        self._failures += 1
        now = self._clock.monotonic()
        old = self._entries.get(name)
        # "No such name" is an answer; an old answer is used only when there is none.
        if (
            old
            and old.addresses
            and error.reason is not Reason.DNS_NO_SUCH_NAME
            and now < old.stale_until
        ):
            self._stale += 1
            return _Entry(old.addresses, min(now + STALE_RETRY_S, old.stale_until), old.stale_until)
        kept_s = self._section.negative_ttl_s
        kept_s = kept_s if error.reason is Reason.DNS_NO_SUCH_NAME else min(kept_s, FAILURE_S)
        return _Entry((), now + kept_s, 0.0, error.reason, error.detail)

    def _remember(self, name: str, entry: _Entry) -> None:
        self._entries[name] = entry
        self._entries.move_to_end(name)
        while len(self._entries) > self._section.cache_entries:
            self._entries.popitem(last=False)


class Pins:
    """The operator's addresses for names: exact names first, then patterns in the given order."""

    def __init__(
        self,
        exact: dict[str, tuple[str, ...]],
        patterns: list[tuple[Any, tuple[str, ...]]],
    ) -> None:
        self._exact, self._patterns = exact, patterns

    def find_addresses(self, name: str) -> tuple[str, ...] | None:
        found = self._exact.get(name)
        if found is None and self._patterns:
            data = name.encode("utf-8", "replace")
            found = next(
                (addresses for pattern, addresses in self._patterns if pattern.fullmatch(data)),
                None,
            )
        return found


def parse_pins(pins: Sequence[str]) -> Pins:
    """Parse ``PATTERN=ADDRESS[,ADDRESS...]``; ``*`` in a pattern stands for any characters.

    Raises ``ValueError`` with the pin.
    """
    exact: dict[str, tuple[str, ...]] = {}
    patterns: list[tuple[Any, tuple[str, ...]]] = []
    for pin in pins:
        pattern, equals, value = pin.partition("=")
        pattern = _folded(pattern.strip())
        addresses = [_literal(text.strip()) for text in value.split(",")]
        if not (pattern and equals) or None in addresses:
            raise ValueError(f"not NAME=ADDRESS[,ADDRESS...]: {pin!r}")
        texts = tuple(map(str, addresses))
        if "*" in pattern:
            # pages decide which names are looked up: not ``re``, which tries every division of a
            # name among several stars
            expression = ".*".join(map(re.escape, pattern.split("*")))
            patterns.append((compile_pattern(expression), texts))
        else:
            exact.setdefault(pattern, texts)
    return Pins(exact, patterns)


def _folded(name: str) -> str:
    return name.lower().removesuffix(".")


def _literal(text: str) -> IPv4Address | IPv6Address | None:
    text = text.removeprefix("[").removesuffix("]")
    if not (text[:1].isdigit() or ":" in text):  # quickly excludes nearly every name
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def _in_turn(addresses: Sequence[str]) -> tuple[str, ...]:
    """IPv4 and IPv6 alternating, IPv4 first.

    A broken IPv6 path is the more common fault of a host, and costs a whole connect timeout.
    """
    unique = dict.fromkeys(addresses)
    four = [address for address in unique if ":" not in address]
    six = [address for address in unique if ":" in address]
    return tuple(
        address for address in chain.from_iterable(zip_longest(four, six)) if address is not None
    )
