"""A request leaves when its slot was taken, or the slot is taken anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from lycosa.base.config.sections import Config, FetchSection, PolitenessSection
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.reasons import Reason
from lycosa.stages.politeness.address_table import AddressTable
from lycosa.stages.politeness.crawl_pace import CrawlPace
from lycosa.stages.politeness.machine_addresses import MachineAddresses
from lycosa.state.attempts import AttemptLog, read_attempts
from lycosa.state.commit import ShardLease, folder_lease
from lycosa.worker.request_slots import RequestSlots
from lycosa.worker.visit.request_sender import RequestSender

ADDRESS, DELAY_S = "192.0.2.1", 0.2
PACE = CrawlPace(FetchSection(), lambda: 1.0, lambda: 0.0)


class Clock:
    """Stands still but for sleeping and what the test adds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + 1e9

    async def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 1e-6)


class Server:
    """Notes when requests come."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.starts: list[float] = []

    async def fetch(self, request: FetchRequest) -> Fetched:
        self.starts.append(self._clock.now)
        return Fetched(request.url, Reason.NONE, status=200, address=request.address)

    async def resolve(self, name: str) -> Sequence[str]:
        return [ADDRESS]

    async def close(self) -> None: ...


def sender_of(
    server: Server,
    table: AddressTable,
    log: AttemptLog,
    clock: Clock,
    lease: ShardLease | None = None,
) -> RequestSender:
    return RequestSender(
        server,
        server,
        RequestSlots(MachineAddresses(table, clock), clock, lease or folder_lease(), PACE),
        log,
        clock,
        Config(),
    )


@pytest.mark.parametrize("held_up_s", [0.0, 0.0005, 0.15, 0.7])
async def test_a_worker_that_was_held_up_does_not_send_just_before_another(
    held_up_s: float, tmp_path: Path
) -> None:
    clock = Clock()
    server, section = (
        Server(clock),
        msgspec.structs.replace(PolitenessSection(), address_delay_s=DELAY_S),
    )
    tables = [AddressTable(tmp_path / "addresses", section) for _ in range(2)]
    logs = [AttemptLog(tmp_path, number, clock.wall(), clock.monotonic()) for number in range(2)]
    ours, other = (
        RequestSender(
            server,
            server,
            RequestSlots(MachineAddresses(table, clock), clock, folder_lease(), PACE),
            log,
            clock,
            Config(),
        )
        for table, log in zip(tables, logs, strict=True)
    )
    clock.now += 10 * DELAY_S  # a new table waits for one delay
    our_slot, other_slot = ours.slot(ADDRESS, "a.test"), other.slot(ADDRESS, "a.test")
    assert await our_slot.take() == 0
    clock.now += held_up_s
    taken = await other_slot.take()
    assert (taken == 0) is (held_up_s > DELAY_S)
    if taken == 0:
        await other.send_request(
            FetchRequest("http://b.test/", ADDRESS), lambda *_: 1.0, other_slot
        )
    await ours.send_request(FetchRequest("http://a.test/", ADDRESS), lambda *_: 1.0, our_slot)
    clock.now += DELAY_S
    while await other_slot.take() > 0:
        clock.now += 0.01
    await other.send_request(FetchRequest("http://b.test/", ADDRESS), lambda *_: 1.0, other_slot)
    assert not our_slot.is_held and not other_slot.is_held
    gaps = [
        later - earlier for earlier, later in zip(server.starts, server.starts[1:], strict=False)
    ]
    assert gaps and min(gaps) >= DELAY_S - 0.001
    assert all(table.snapshot()["slots_used"] == 0 for table in tables)
    for table, log in zip(tables, logs, strict=True):
        table.close()
        log.close(clock.wall(), clock.monotonic())


class EarlyClock(Clock):
    """Wakes sleepers a little early, as event loops do whose timers have a resolution of a
    millisecond.
    """

    async def sleep(self, seconds: float) -> None:
        self.now += max(seconds - 0.0004, 1e-6)


class Closing(Server):
    """Answers the second request only."""

    async def fetch(self, request: FetchRequest) -> Fetched:
        answered = await super().fetch(request)
        return (
            answered
            if len(self.starts) > 1
            else Fetched(request.url, Reason.REQUEST_UNANSWERED, "closed", address=request.address)
        )


async def test_a_second_attempt_is_never_early(tmp_path: Path) -> None:
    clock = EarlyClock()
    server = Closing(clock)
    section = msgspec.structs.replace(PolitenessSection(), address_delay_s=0.0)
    log = AttemptLog(tmp_path, 0, clock.wall(), clock.monotonic())
    sender = sender_of(server, AddressTable(tmp_path / "addresses", section), log, clock)
    slot = sender.slot(ADDRESS, "a.test")
    assert await slot.take() == 0.0
    fetched = await sender.send_request(
        FetchRequest("http://a.example/", ADDRESS), lambda *_: 1.5, slot
    )
    assert fetched.status == 200
    first, second = server.starts
    assert second - first >= 1.5
    log.close(clock.wall(), clock.monotonic())


class Slow(Server):
    """Takes a while to connect, and lets nothing through without the lease."""

    def __init__(self, clock: Clock, lease: ShardLease, connect_s: float) -> None:
        super().__init__(clock)
        self._lease, self._connect_s = lease, connect_s

    async def fetch(self, request: FetchRequest) -> Fetched:
        await self._clock.sleep(self._connect_s)
        if not self._lease.holds(self._clock.now):
            return Fetched(
                request.url,
                Reason.LEASE_EXPIRED,
                address=request.address,
                duration_s=self._connect_s,
            )
        return await super().fetch(request)


class Rests:
    """Notes what the host was asked to rest from."""

    def __init__(self) -> None:
        self.reasons: list[Reason] = []

    def __call__(self, fetched: Fetched, now: float, wall: float, is_robots: bool) -> float:
        self.reasons.append(fetched.reason)
        return 0.0 if fetched.reason is Reason.LEASE_EXPIRED else 1.5


@pytest.mark.parametrize(
    ("left_s", "held_up_s", "connect_s"),
    [(-1.0, 0.0, 0.0), (0.3, 0.5, 0.0), (0.3, 0.0, 0.5), (9.0, 0.5, 0.5)],
)
async def test_nothing_is_sent_without_the_lease(
    left_s: float, held_up_s: float, connect_s: float, tmp_path: Path
) -> None:
    clock, lease, rest = Clock(), ShardLease(10.0), Rests()
    lease.renew(clock.now - 10.0 + left_s)
    server, section = Slow(clock, lease, connect_s), PolitenessSection(address_delay_s=0.0)
    table, log = (
        AddressTable(None, section),
        AttemptLog(tmp_path, 0, clock.wall(), clock.monotonic()),
    )
    sender = sender_of(server, table, log, clock, lease)
    slot = sender.slot(ADDRESS, "a.test")
    taken = await slot.take()
    assert (taken == 0) is (left_s > 0)
    if taken == 0:
        clock.now += held_up_s
        fetched = await sender.send_request(FetchRequest("http://a.test/", ADDRESS), rest, slot)
        assert (fetched.reason is Reason.LEASE_EXPIRED) is (left_s < 1)
        assert rest.reasons == [fetched.reason]
    assert len(server.starts) == (left_s > 1)
    assert table.snapshot()["slots_used"] == 0
    log.close(clock.wall(), clock.monotonic())
    broken_off = [(Reason.LEASE_EXPIRED, True)] if connect_s and left_s < 1 else []
    assert [
        (each.outcome, each.is_finished) for each in read_attempts(tmp_path)
    ] == broken_off or left_s > 1


async def test_a_second_attempt_that_is_broken_off_leaves_the_outcome_of_the_first(
    tmp_path: Path,
) -> None:
    clock, lease, rest = Clock(), ShardLease(10.0), Rests()

    class Unanswered(Slow):
        async def fetch(self, request: FetchRequest) -> Fetched:
            fetched = await super().fetch(request)
            lease.give_up()
            return (
                fetched
                if fetched.reason
                else Fetched(request.url, Reason.REQUEST_UNANSWERED, address=request.address)
            )

    lease.renew(clock.now)
    server, log = (
        Unanswered(clock, lease, 0.0),
        AttemptLog(tmp_path, 0, clock.wall(), clock.monotonic()),
    )
    sender = sender_of(
        server, AddressTable(None, PolitenessSection(address_delay_s=0.0)), log, clock, lease
    )
    slot = sender.slot(ADDRESS, "a.test")
    assert await slot.take() == 0
    fetched = await sender.send_request(FetchRequest("http://a.test/", ADDRESS), rest, slot)
    assert (fetched.reason, len(server.starts)) == (Reason.REQUEST_UNANSWERED, 1)
    log.close(clock.wall(), clock.monotonic())
