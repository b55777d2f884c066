"""The workbench: nobody before its time, one visit a host, slots of an address kept, no host
lost.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lycosa.stages.frontier.visit_state import VisitRecord, VisitState
from lycosa.stages.frontier.workbench import Workbench

SLOTS = 2


def visit_of(number: int, address: str = "", next_time: float = 0.0) -> VisitState:
    host = VisitState(0, number.to_bytes(8, "big"), VisitRecord(f"h{number}.example"), 4)
    host.record.address, host.next_time = address, next_time
    return host


def test_hosts_come_in_the_order_of_their_times() -> None:
    bench = Workbench(SLOTS)
    for number, time in enumerate((3.0, 1.0, 2.0)):
        bench.put_host(visit_of(number, f"198.18.0.{number}", time))
    assert bench.acquire(0.5) is None
    assert bench.next_time() == 1.0
    times = [host.next_time for _ in range(3) if (host := bench.acquire(5.0)) is not None]
    assert times == [1.0, 2.0, 3.0]
    assert len(bench) == 0 and bench.next_time() is None


def test_an_address_gives_no_more_visits_than_it_has_slots() -> None:
    bench = Workbench(SLOTS)
    for number in range(4):
        bench.put_host(visit_of(number, "198.18.0.1"))
    held = [bench.acquire(0.0) for _ in range(4)]
    assert [host is not None for host in held] == [True, True, False, False]
    assert bench.next_time() is None
    assert held[0] is not None
    bench.leave_address(held[0])
    assert bench.acquire(0.0) is not None


def test_an_address_at_its_limit_that_is_postponed_comes_back_at_the_later_time() -> None:
    bench = Workbench(1)
    first, second = visit_of(1, "198.18.0.1"), visit_of(2, "198.18.0.1")
    bench.put_host(first)
    bench.put_host(second)
    held = bench.acquire(0.0)
    assert held is first
    bench.postpone_address("198.18.0.1", 5.0)
    assert bench.acquire(10.0) is None
    bench.leave_address(held)
    assert bench.acquire(4.9) is None
    assert bench.acquire(5.0) is second


def test_a_host_whose_address_becomes_known_takes_its_slot_along() -> None:
    bench = Workbench(1)
    known, unknown = visit_of(1, "198.18.0.1"), visit_of(2)
    bench.put_host(known)
    bench.put_host(unknown)
    held = [bench.acquire(0.0), bench.acquire(0.0)]
    assert None not in held
    bench.leave_address(known)
    bench.put_host(known)
    bench.rejoin_address(unknown, "198.18.0.1")
    assert bench.acquire(1.0) is None
    bench.leave_address(unknown)
    assert bench.acquire(1.0) is known


def test_a_forgotten_address_does_not_make_a_later_host_of_it_early() -> None:
    bench = Workbench(SLOTS)
    host, later = (visit_of(n, "198.18.0.1", time) for n, time in ((1, 100.0), (2, 200.0)))
    first = visit_of(3, "198.18.0.2", 60.0)
    bench.put_host(host)
    bench.put_host(first)
    bench.remove_host(host)
    assert bench.acquire(50.0) is None  # forgets the address, which has no host now
    bench.put_host(later)
    assert bench.acquire(60.0) is first
    assert bench.acquire(150.0) is None
    assert bench.acquire(200.0) is later


class WorkbenchMachine(RuleBasedStateMachine):
    """Against a model that knows each host's time and address."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Workbench(SLOTS)
        self.now = 0.0
        self.waiting: list[VisitState] = []
        self.held: list[VisitState] = []
        self.not_before: dict[str, float] = {}
        self.made = 0

    @rule(address=st.integers(0, 3), delay=st.floats(0, 5))
    def put_new(self, address: int, delay: float) -> None:
        host = visit_of(self.made, f"198.18.0.{address}" if address else "", self.now + delay)
        self.made += 1
        self.bench.put_host(host)
        self.waiting.append(host)

    @rule()
    def acquire(self) -> None:
        host = self.bench.acquire(self.now)
        if host is None:
            assert not [each for each in self.waiting if self._is_ready(each)]
            return
        assert self._is_ready(host), "before its time, or beyond the slots"
        assert host in self.waiting
        self.waiting.remove(host)
        self.held.append(host)

    def _is_ready(self, host: VisitState) -> bool:
        free = sum(each.group == host.group for each in self.held) < SLOTS
        return (
            free and host.next_time <= self.now and self.not_before.get(host.group, 0.0) <= self.now
        )

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 9), delay=st.floats(0, 5), again=st.booleans())
    def leave(self, which: int, delay: float, again: bool) -> None:
        host = self.held.pop(which % len(self.held))
        self.bench.leave_address(host)
        if again:
            host.next_time = self.now + delay
            self.bench.put_host(host)
            self.waiting.append(host)
        else:
            host.on_workbench = False

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 9), address=st.integers(1, 3))
    def rejoin(self, which: int, address: int) -> None:
        host = self.held[which % len(self.held)]
        host.record.address = f"198.18.0.{address}"
        self.bench.rejoin_address(host, host.record.address)

    @rule(address=st.integers(1, 3), delay=st.floats(0, 3))
    def postpone(self, address: int, delay: float) -> None:
        key = f"198.18.0.{address}"
        if any(each.group == key for each in (*self.waiting, *self.held)):
            self.bench.postpone_address(key, self.now + delay)
            self.not_before[key] = max(self.not_before.get(key, 0.0), self.now + delay)

    @rule(seconds=st.floats(0, 4))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def holds_exactly_who_waits(self) -> None:
        assert len(self.bench) == len(self.waiting)
        assert {id(each) for each in self.bench.hosts()} == {id(each) for each in self.waiting}
        assert all(not each.in_process and each.on_workbench for each in self.waiting)
        assert all(each.in_process for each in self.held)

    @invariant()
    def says_when_the_next_is_ready(self) -> None:
        free = [
            each for each in self.waiting if sum(h.group == each.group for h in self.held) < SLOTS
        ]
        wanted = min(
            (max(each.next_time, self.not_before.get(each.group, 0.0)) for each in free),
            default=None,
        )
        found = self.bench.next_time()
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:  # what is past is all the same: ready
            assert max(found, self.now) == max(wanted, self.now)


TestWorkbenchMachine = WorkbenchMachine.TestCase
TestWorkbenchMachine.settings = settings(deadline=None, max_examples=150, stateful_step_count=40)
