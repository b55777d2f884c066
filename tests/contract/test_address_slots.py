"""What any implementation of the ``Addresses`` port promises: delay and concurrency per address,
over all workers that share it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.ports import Addresses
from lycosa.base.system.clock import SystemClock
from lycosa.stages.politeness.address_table import AddressTable
from lycosa.stages.politeness.machine_addresses import MachineAddresses
from lycosa.stages.politeness.node_addresses import NodeAddresses

SECTION = PolitenessSection(address_delay_s=0.5, address_slots=2)
UNDELAYED = PolitenessSection(address_delay_s=0, address_slots=2)
A, B = "192.0.2.1", "2001:db8::1"
TIME = {"now": 0.0}
Join = Callable[[PolitenessSection], Addresses]


@pytest.fixture(params=["machine", "node"])
def join(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Join]:
    """Gives each worker its slots of one machine; all are closed at the end."""
    node, joined = NodeAddresses(), list[Addresses]()

    def make(section: PolitenessSection = SECTION) -> Addresses:
        is_machine = request.param == "machine"
        table = (
            MachineAddresses(AddressTable(tmp_path / "addresses", section, 1024), SystemClock())
            if is_machine
            else node.join(section)
        )
        joined.append(table)
        return table

    yield make
    for each in joined:
        try:
            each.close()
        except ValueError:  # a machine's table that was closed by the test
            assert request.param == "machine"


async def test_starts_to_one_address_are_a_delay_apart(join: Join) -> None:
    worker = join(SECTION)
    assert await worker.take_slot(A, 100.0) == 0
    assert await worker.take_slot(A, 100.2) == pytest.approx(0.3)
    await worker.release_slot(A, 100.3)
    assert await worker.take_slot(A, 100.4) == pytest.approx(0.1)
    assert await worker.take_slot(A, 100.5) == 0


async def test_addresses_do_not_hinder_each_other(join: Join) -> None:
    worker = join(SECTION)
    assert [await worker.take_slot(address, 100.0) for address in (A, B)] == [0, 0]


async def test_no_more_requests_are_open_than_slots(join: Join) -> None:
    worker = join(UNDELAYED)
    assert [await worker.take_slot(A, 1.0) > 0 for _ in range(3)] == [False, False, True]
    await worker.release_slot(A, 2.0)
    assert [await worker.take_slot(A, 2.0) > 0 for _ in range(2)] == [False, True]


async def test_workers_share_delay_and_slots(join: Join) -> None:
    one, other = join(SECTION), join(SECTION)
    assert await one.take_slot(A, 100.0) == 0
    assert await other.take_slot(A, 100.1) == pytest.approx(0.4)
    assert await other.take_slot(A, 100.5) == 0
    assert await one.take_slot(A, 101.0) > 0
    assert await other.take_slot(A, 101.0) > 0
    await one.release_slot(A, 101.0)
    assert await other.take_slot(A, 101.0) == 0


async def test_each_worker_holds_its_own_settings_against_what_all_did(join: Join) -> None:
    slow, quick = (
        join(PolitenessSection(address_delay_s=2.0, address_slots=1)),
        join(PolitenessSection(address_delay_s=0.1, address_slots=3)),
    )
    assert await quick.take_slot(A, 100.0) == 0
    assert await slow.take_slot(A, 101.0) == pytest.approx(1.0)
    assert await slow.take_slot(A, 102.0) > 0  # one request of the other is open
    assert await quick.take_slot(A, 102.0) == 0


async def test_closing_gives_back_all_slots_and_keeps_the_delay(join: Join) -> None:
    one, other = join(SECTION), join(SECTION)
    assert [
        await one.take_slot(A, 100.0),
        await one.take_slot(A, 100.5),
        await one.take_slot(B, 100.5),
    ] == [
        0,
        0,
        0,
    ]
    one.close()
    assert await other.take_slot(A, 100.9) == pytest.approx(0.1)
    assert [await other.take_slot(A, 101.0), await other.take_slot(A, 101.5)] == [0, 0]


async def test_what_is_not_held_can_neither_start_nor_end(join: Join) -> None:
    one, other = join(SECTION), join(SECTION)
    assert await one.take_slot(A, 100.0) == 0
    with pytest.raises(KeyError):
        await other.release_slot(A, 101.0)
    with pytest.raises(KeyError):
        await other.record_start(A, 101.0)
    await one.release_slot(A, 101.0)
    with pytest.raises(KeyError):
        await one.release_slot(A, 101.0)


async def test_a_request_that_left_late_holds_back_the_next_one(join: Join) -> None:
    worker = join(SECTION)
    assert await worker.take_slot(A, 100.0) == 0
    await worker.record_start(A, 100.3)
    assert await worker.take_slot(A, 100.5) == pytest.approx(0.3)
    await worker.record_start(A, 99.0)
    assert await worker.take_slot(A, 100.8) == 0


async def test_a_server_that_may_have_read_late_is_given_up_to_half_a_delay(join: Join) -> None:
    worker = join(SECTION)
    assert await worker.take_slot(A, 100.0) == 0
    await worker.record_start(A, 100.0, answered=100.01)
    assert await worker.take_slot(A, 100.5) == pytest.approx(0.01)
    await worker.record_start(A, 100.0, answered=104.0)
    assert await worker.take_slot(A, 100.5) == pytest.approx(0.25)


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 5), st.floats(0, 0.4)),
        max_size=60,
    )
)
async def test_no_history_of_two_workers_presses_an_address(
    join: Join, steps: list[tuple[bool, int, int, float]]
) -> None:
    workers = join(SECTION), join(SECTION)
    base = now = TIME["now"] + 10.0  # the machine's table is one over all examples
    started: dict[str, float] = {}
    open_now: dict[tuple[int, str], int] = defaultdict(int)
    for is_take, who, number, pause_s in steps:
        address, now = f"192.0.2.{number}", now + pause_s
        if not is_take and open_now[who, address]:
            await workers[who].release_slot(address, now)
            open_now[who, address] -= 1
        elif is_take and await workers[who].take_slot(address, now) == 0:
            assert now - started.get(address, base - 1.0) >= SECTION.address_delay_s - 1e-9
            started[address] = now
            open_now[who, address] += 1
            assert sum(open_now[each, address] for each in (0, 1)) <= SECTION.address_slots
    for each in workers:
        each.close()
    third = join(SECTION)
    assert [await third.take_slot(f"192.0.2.{number}", now + 1) for number in range(6)] == [0] * 6
    third.close()
    TIME["now"] = now + 1
