"""The resolver's cache, pins and failures, with a query that answers from a table and a clock
that jumps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from lycosa.base.config.sections import DnsSection
from lycosa.base.ports import ResolveError
from lycosa.base.reasons import Reason
from lycosa.stages.fetch.dns import FAILURE_S, STALE_RETRY_S, STALE_S, CachingResolver

Outcome = Sequence[tuple[str, float]] | Reason


class JumpingClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    async def sleep(self, delay_s: float) -> None:
        self.now += delay_s


class TableQuery:
    """Answers from a table; waits at the gate when it is shut."""

    def __init__(self, table: dict[str, Outcome]) -> None:
        self.table = table
        self.asked: list[str] = []
        self.open_now = self.most_open = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_closed = False

    async def query_name(self, name: str) -> Sequence[tuple[str, float]]:
        self.asked.append(name)
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        try:
            await self.gate.wait()
        finally:
            self.open_now -= 1
        outcome = self.table.get(name, Reason.DNS_NO_SUCH_NAME)
        if isinstance(outcome, Reason):
            raise ResolveError(name, outcome, "from the table")
        return outcome

    async def close(self) -> None:
        self.is_closed = True


def make(
    table: dict[str, Outcome] | None = None, **settings: object
) -> tuple[CachingResolver, TableQuery, JumpingClock]:
    clock, query = JumpingClock(), TableQuery(table or {})
    return CachingResolver(DnsSection(**settings), clock, query), query, clock  # type: ignore[arg-type]


async def reason_of(resolver: CachingResolver, name: str) -> Reason:
    with pytest.raises(ResolveError) as raised:
        await resolver.resolve(name)
    return raised.value.reason


async def test_an_answer_is_kept_for_its_ttl() -> None:
    resolver, query, clock = make({"a.org": [("1.1.1.1", 300.0)]})
    assert await resolver.resolve("a.org") == ("1.1.1.1",)
    clock.now += 299
    assert await resolver.resolve("A.ORG.") == ("1.1.1.1",)
    assert query.asked == ["a.org"]
    clock.now += 2
    await resolver.resolve("a.org")
    assert query.asked == ["a.org", "a.org"]


@pytest.mark.parametrize(("ttl", "kept_s"), [(0.0, 60.0), (1e9, 86400.0)])
async def test_the_ttl_is_kept_within_bounds(ttl: float, kept_s: float) -> None:
    resolver, query, clock = make({"a.org": [("1.1.1.1", ttl)]})
    await resolver.resolve("a.org")
    clock.now += kept_s - 1
    await resolver.resolve("a.org")
    assert len(query.asked) == 1
    clock.now += 1
    await resolver.resolve("a.org")
    assert len(query.asked) == 2


async def test_the_shortest_ttl_of_several_addresses_counts() -> None:
    resolver, query, clock = make({"a.org": [("1.1.1.1", 5000.0), ("2.2.2.2", 100.0)]})
    await resolver.resolve("a.org")
    clock.now += 101
    await resolver.resolve("a.org")
    assert len(query.asked) == 2


@pytest.mark.parametrize(
    ("reason", "kept_s"),
    [
        (Reason.DNS_NO_SUCH_NAME, 300),
        (Reason.DNS_FAILED, FAILURE_S),
        (Reason.DNS_TIMEOUT, FAILURE_S),
    ],
)
async def test_each_kind_of_failure_is_told_and_remembered(reason: Reason, kept_s: float) -> None:
    resolver, query, clock = make({"a.org": reason})
    assert await reason_of(resolver, "a.org") is reason
    clock.now += kept_s - 0.5
    assert await reason_of(resolver, "a.org") is reason
    assert len(query.asked) == 1
    clock.now += 1
    assert await reason_of(resolver, "a.org") is reason
    assert len(query.asked) == 2


async def outage_of(
    resolver: CachingResolver, clock: JumpingClock, names: Sequence[str]
) -> list[bool]:
    """Of names that do not resolve, asked for a second and a half apart: whether each failure is
    said to be nobody's.
    """
    told = []
    for name in names:
        with pytest.raises(ResolveError) as raised:
            await resolver.resolve(name)
        told.append(raised.value.outage_s > 0)
        clock.now += 1.5
    return told


DEAD: dict[str, Outcome] = {f"{number}.dead.org": Reason.DNS_TIMEOUT for number in range(40)}


async def test_when_nobody_is_answered_no_name_is_to_blame() -> None:
    resolver, _, clock = make({**DEAD, "a.org": [("1.1.1.1", 60.0)]})
    assert await outage_of(resolver, clock, list(DEAD)[:20]) == [False] * 9 + [True] * 11
    await resolver.resolve("a.org")
    assert await outage_of(resolver, clock, list(DEAD)[20:25]) == [False] * 5


async def test_one_name_alone_proves_no_outage_however_often_it_is_asked_for() -> None:
    resolver, _, clock = make(DEAD)
    assert await outage_of(resolver, clock, ["1.dead.org", "2.dead.org"] * 20) == [False] * 40


async def test_that_there_is_no_such_name_is_an_answer() -> None:
    resolver, _, clock = make(DEAD)
    names = [name for number, dead in enumerate(DEAD) for name in (dead, f"{number}.none.org")]
    assert await outage_of(resolver, clock, names) == [False] * 80


async def test_a_name_that_was_answered_before_tells_dead_names_from_an_outage() -> None:
    resolver, query, clock = make({**DEAD, "a.org": [("1.1.1.1", 60.0)]})
    await resolver.resolve("a.org")
    clock.now += 61
    assert await outage_of(resolver, clock, list(DEAD)) == [False] * 40
    assert 2 <= query.asked.count("a.org") <= 1 + 40 * 1.5 / 10


async def test_a_name_whose_answer_a_cache_may_still_hold_tells_nothing() -> None:
    resolver, query, clock = make({**DEAD, "a.org": [("1.1.1.1", 3600.0)]})
    await resolver.resolve("a.org")
    assert any(await outage_of(resolver, clock, list(DEAD)))
    assert query.asked.count("a.org") == 1


async def test_after_some_minutes_it_tells_that_somebody_answers() -> None:
    resolver, query, clock = make({**DEAD, "a.org": [("1.1.1.1", 3600.0)]})
    await resolver.resolve("a.org")
    told = await outage_of(resolver, clock, list(DEAD) * 6)
    assert any(told[:200]) and not any(told[210:]) and query.asked.count("a.org") >= 2


async def test_where_no_name_was_ever_answered_an_outage_is_believed_in_for_some_minutes() -> None:
    resolver, _, clock = make(DEAD)
    told = await outage_of(resolver, clock, list(DEAD) * 6)
    assert told == [False] * 9 + [True] * 191 + [False] * 40


async def test_an_outage_is_believed_in_for_a_bounded_time() -> None:
    resolver, _, clock = make(DEAD, outage_s=30.0)
    assert await outage_of(resolver, clock, list(DEAD)) == [False] * 9 + [True] * 11 + [False] * 20


async def test_ipv4_and_ipv6_come_in_turn() -> None:
    resolver, _, _ = make(
        {
            "a.org": [
                ("::2", 60.0),
                ("::3", 60.0),
                ("1.1.1.1", 60.0),
                ("::4", 60.0),
                ("2.2.2.2", 60.0),
                ("::2", 60.0),
            ]
        }
    )
    assert await resolver.resolve("a.org") == ("1.1.1.1", "::2", "2.2.2.2", "::3", "::4")


async def test_identical_questions_in_flight_are_one() -> None:
    resolver, query, _ = make({"a.org": [("1.1.1.1", 60.0)]})
    query.gate.clear()
    waiting = [asyncio.ensure_future(resolver.resolve("a.org")) for _ in range(10)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    query.gate.set()
    assert await asyncio.gather(*waiting) == [("1.1.1.1",)] * 10
    assert query.asked == ["a.org"]


async def test_a_caller_that_gives_up_does_not_stop_the_question() -> None:
    resolver, query, _ = make({"a.org": [("1.1.1.1", 60.0)]})
    query.gate.clear()
    first, second = (asyncio.ensure_future(resolver.resolve("a.org")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    query.gate.set()
    assert await second == ("1.1.1.1",)
    assert first.cancelled()


async def test_questions_at_once_are_bounded() -> None:
    names = [f"h{number}.org" for number in range(50)]
    resolver, query, _ = make({name: [("1.1.1.1", 60.0)] for name in names}, concurrency=7)
    query.gate.clear()
    waiting = [asyncio.ensure_future(resolver.resolve(name)) for name in names]
    for _ in range(5):
        await asyncio.sleep(0)
    query.gate.set()
    await asyncio.gather(*waiting)
    assert query.most_open == 7


async def test_the_cache_is_bounded_and_forgets_what_was_used_least_recently() -> None:
    table: dict[str, Outcome] = {f"h{number}.org": [("1.1.1.1", 600.0)] for number in range(11)}
    resolver, query, _ = make(table, cache_entries=10)
    for number in range(10):
        await resolver.resolve(f"h{number}.org")
    await resolver.resolve("h0.org")
    await resolver.resolve("h10.org")
    assert resolver.snapshot().entries == 10
    query.asked.clear()
    await resolver.resolve("h0.org")
    assert query.asked == []
    await resolver.resolve("h1.org")
    assert query.asked == ["h1.org"]


async def test_an_old_answer_bridges_an_outage_for_a_bounded_time() -> None:
    resolver, query, clock = make({"a.org": [("1.1.1.1", 60.0)]})
    await resolver.resolve("a.org")
    query.table["a.org"] = Reason.DNS_TIMEOUT
    clock.now += 61
    assert await resolver.resolve("a.org") == ("1.1.1.1",)
    assert resolver.snapshot().stale == 1
    clock.now += STALE_RETRY_S + 1
    assert await resolver.resolve("a.org") == ("1.1.1.1",)
    assert len(query.asked) == 3
    clock.now += STALE_S
    assert await reason_of(resolver, "a.org") is Reason.DNS_TIMEOUT


async def test_a_name_that_is_gone_is_not_bridged() -> None:
    resolver, query, clock = make({"a.org": [("1.1.1.1", 60.0)]})
    await resolver.resolve("a.org")
    query.table["a.org"] = Reason.DNS_NO_SUCH_NAME
    clock.now += 61
    assert await reason_of(resolver, "a.org") is Reason.DNS_NO_SUCH_NAME


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("93.184.216.34", "93.184.216.34"),
        ("[2606:4700::1]", "2606:4700::1"),
        ("2606:4700::1", "2606:4700::1"),
        ("[::FFFF]", "::ffff"),
    ],
)
async def test_a_literal_address_is_its_own_answer(name: str, address: str) -> None:
    resolver, query, _ = make()
    assert await resolver.resolve(name) == (address,)
    assert query.asked == []


async def test_a_name_that_begins_with_a_digit_is_a_name() -> None:
    resolver, _, _ = make({"1.2.3.example": [("1.1.1.1", 60.0)]})
    assert await resolver.resolve("1.2.3.example") == ("1.1.1.1",)


@pytest.mark.parametrize("name", ["localhost", "a.localhost", "LOCALHOST."])
async def test_localhost_is_never_asked(name: str) -> None:
    resolver, query, _ = make()
    assert await resolver.resolve(name) == ("127.0.0.1", "::1")
    assert await make(ipv6=False)[0].resolve(name) == ("127.0.0.1",)
    assert query.asked == []


async def test_pins_answer_before_the_name_servers() -> None:
    pins = (
        "a.org=10.0.0.1",
        "*.b.org=10.0.0.2,::1",
        "www.*.net = [::2]",
        "*=10.9.9.9",
        "a.org=10.0.0.3",
        "1.2.3.4=10.0.0.5",
    )
    resolver, query, _ = make(pins=pins)
    assert await resolver.resolve("A.org.") == ("10.0.0.1",)
    assert await resolver.resolve("x.y.b.org") == ("10.0.0.2", "::1")
    assert await resolver.resolve("www.c.net") == ("::2",)
    assert await resolver.resolve("1.2.3.4") == ("10.0.0.5",)
    assert await resolver.resolve("b.org") == ("10.9.9.9",)
    assert query.asked == []


async def test_a_star_is_the_only_wildcard() -> None:
    resolver, query, _ = make(
        {"axorg": [("1.1.1.1", 60.0)]}, pins=("a.o[r]g=10.0.0.1", "*.a.org=10.0.0.2")
    )
    assert await resolver.resolve("axorg") == ("1.1.1.1",)
    assert await reason_of(resolver, "a.org") is Reason.DNS_NO_SUCH_NAME
    assert query.asked == ["axorg", "a.org"]


async def test_stars_of_a_pin_do_not_multiply_the_time_for_a_name() -> None:
    """An engine that backtracks tries every division of the name: 10**11 of them."""
    resolver, query, _ = make(pins=("*a*a*a*a*a*b=10.0.0.1",))
    name = ".".join(["a" * 60] * 4)
    assert await reason_of(resolver, name) is Reason.DNS_NO_SUCH_NAME
    assert query.asked == [name]


@pytest.mark.parametrize(
    "pin", ["", "a.org", "=1.1.1.1", "a.org=", "a.org=b.org", "a.org=1.1.1.1,", "a.org=1.1.1.999"]
)
async def test_a_bad_pin_is_named(pin: str) -> None:
    with pytest.raises(ValueError, match="NAME=ADDRESS") as raised:
        make(pins=("ok.org=1.1.1.1", pin))
    assert repr(pin) in str(raised.value)


async def test_closing_ends_questions_in_flight() -> None:
    resolver, query, _ = make({"a.org": [("1.1.1.1", 60.0)]})
    query.gate.clear()
    waiting = asyncio.ensure_future(resolver.resolve("a.org"))
    await asyncio.sleep(0)
    await resolver.close()
    with pytest.raises(ResolveError) as raised:
        await waiting
    assert raised.value.reason is Reason.DNS_FAILED
    assert query.is_closed
    assert "in_question=0" in repr(resolver)
