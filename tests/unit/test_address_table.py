"""The table of addresses: delay and concurrency per address, over processes and their deaths."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import PolitenessSection
from lycosa.stages.politeness.address_table import STRIPE_LOCKS, STRIPES, AddressTable
from lycosa.stages.politeness.byte_locks import ByteLocks
from lycosa.stages.politeness.machine_addresses import MachineAddresses
from lycosa.synthetic import VirtualClock, VirtualLoop, run_virtual

SECTION = PolitenessSection(address_delay_s=0.5, address_slots=2)
UNDELAYED = PolitenessSection(address_delay_s=0, address_slots=2)


@pytest.fixture(params=["private", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "addresses" if request.param == "file" else None


class Other:
    """Another process with the same table, told by lines what to do."""

    PROGRAM = """
import json, sys
from pathlib import Path
from lycosa.base.config.sections import PolitenessSection
from lycosa.stages.politeness.address_table import AddressTable
path, delay_s, slots = sys.argv[1:]
table = AddressTable(Path(path), PolitenessSection(address_delay_s=float(delay_s), address_slots=int(slots)), 1024)
print("open", flush=True)
for line in sys.stdin:
    verb, address, now = json.loads(line)
    print(getattr(table, verb)(address, now), flush=True)
"""

    def __init__(self, path: Path, section: PolitenessSection) -> None:
        command = [
            sys.executable,
            "-c",
            self.PROGRAM,
            str(path),
            str(section.address_delay_s),
            str(section.address_slots),
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._answer() == "open"

    def take_slot(self, address: str, now: float) -> float:
        return float(self._ask("take_slot", address, now))

    def release_slot(self, address: str, now: float) -> None:
        self._ask("release_slot", address, now)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        self.process.communicate()

    def _ask(self, verb: str, address: str, now: float) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([verb, address, now]) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Other]:
    other = Other(tmp_path / "addresses", SECTION)
    yield other
    other.end()


def test_starts_to_one_address_are_a_delay_apart(place: Path | None) -> None:
    table = AddressTable(place, SECTION)
    assert table.take_slot("192.0.2.1", 100.0) == 0
    assert table.take_slot("192.0.2.1", 100.2) == pytest.approx(0.3)
    table.release_slot("192.0.2.1", 100.3)
    # a delay between starts, whatever ended
    assert table.take_slot("192.0.2.1", 100.4) == pytest.approx(0.1)
    assert table.take_slot("192.0.2.1", 100.5) == 0
    table.close()


def test_addresses_do_not_hinder_each_other(place: Path | None) -> None:
    table = AddressTable(place, SECTION)
    assert [table.take_slot(f"192.0.2.{n}", 100.0) for n in range(250)] == [0.0] * 250
    table.close()


def test_no_more_requests_are_open_than_slots(place: Path | None) -> None:
    table = AddressTable(place, UNDELAYED)
    assert [table.take_slot("2001:db8::1", 1.0) > 0 for _ in range(4)] == [False, False, True, True]
    table.release_slot("2001:db8::1", 2.0)
    assert [table.take_slot("2001:db8::1", 2.0) > 0 for _ in range(2)] == [False, True]
    table.close()


def test_many_slots_are_possible(place: Path | None) -> None:
    table = AddressTable(place, PolitenessSection(address_delay_s=0, address_slots=20))
    assert sum(table.take_slot("192.0.2.1", 1.0) == 0 for _ in range(30)) == 20
    table.close()


def test_releasing_what_is_not_held_is_an_error() -> None:
    table = AddressTable(None, SECTION)
    with pytest.raises(KeyError):
        table.release_slot("192.0.2.1", 1.0)
    table.close()


def test_the_snapshot_counts_addresses_and_slots(place: Path | None) -> None:
    table = AddressTable(place, UNDELAYED, 64)
    table.take_slot("192.0.2.1", 1.0)
    table.take_slot("192.0.2.1", 1.0)
    table.take_slot("192.0.2.2", 1.0)
    table.release_slot("192.0.2.2", 1.0)
    assert table.snapshot() == {"addresses": 2, "slots_used": 2, "slots_held": 2}
    assert "2 slots held of 1 addresses" in repr(table)
    table.close()


def test_a_restart_remembers_the_next_start(tmp_path: Path) -> None:
    table = AddressTable(tmp_path / "addresses", SECTION)
    table.take_slot("192.0.2.1", 100.0)
    table.close()
    table = AddressTable(tmp_path / "addresses", SECTION)
    assert table.take_slot("192.0.2.1", 100.1) == pytest.approx(0.4)
    table.close()


def test_closing_gives_back_the_slots(tmp_path: Path) -> None:
    path = tmp_path / "addresses"
    first, second = AddressTable(path, UNDELAYED), AddressTable(path, UNDELAYED)
    assert [first.take_slot("192.0.2.1", 1.0), first.take_slot("192.0.2.1", 1.0)] == [0, 0]
    assert second.take_slot("192.0.2.1", 1.0) > 0
    first.close()
    assert second.take_slot("192.0.2.1", 1.0) == 0
    second.close()


def test_times_from_before_a_reboot_cost_one_delay_at_most(tmp_path: Path) -> None:
    table = AddressTable(tmp_path / "addresses", SECTION)
    table.take_slot("192.0.2.1", 5_000_000.0)
    table.close()
    table = AddressTable(tmp_path / "addresses", SECTION)
    assert table.take_slot("192.0.2.1", 20.0) == pytest.approx(0.5)
    assert table.take_slot("192.0.2.1", 20.5) == 0
    table.close()


def test_processes_share_delay_and_slots(tmp_path: Path, other: Other) -> None:
    table = AddressTable(tmp_path / "addresses", SECTION, 1024)
    assert other.take_slot("192.0.2.1", 100.0) == 0
    assert table.take_slot("192.0.2.1", 100.1) == pytest.approx(0.4)
    assert table.take_slot("192.0.2.1", 100.5) == 0
    assert other.take_slot("192.0.2.1", 101.0) > 0  # both slots are taken
    assert other.take_slot("192.0.2.2", 101.0) == 0
    other.release_slot("192.0.2.1", 101.0)
    assert table.take_slot("192.0.2.1", 101.0) == 0
    table.close()


def test_the_slots_of_a_killed_process_come_back_and_its_delay_stays(
    tmp_path: Path, other: Other
) -> None:
    table = AddressTable(tmp_path / "addresses", SECTION, 1024)
    assert [other.take_slot("192.0.2.1", 100.0), other.take_slot("192.0.2.1", 100.5)] == [0, 0]
    assert table.take_slot("192.0.2.1", 101.0) > 0
    other.kill()
    assert table.take_slot("192.0.2.1", 100.9) == pytest.approx(0.1)
    assert [table.take_slot("192.0.2.1", 101.0), table.take_slot("192.0.2.1", 101.5)] == [0, 0]
    assert table.take_slot("192.0.2.1", 102.0) > 0
    table.close()


def test_a_successor_in_the_same_row_is_not_taken_for_the_dead(tmp_path: Path) -> None:
    path = tmp_path / "addresses"
    first = Other(path, SECTION)
    assert [first.take_slot("192.0.2.1", 100.0), first.take_slot("192.0.2.1", 100.5)] == [0, 0]
    first.kill()
    second = Other(path, SECTION)
    assert second.take_slot("192.0.2.1", 101.0) == 0
    second.end()


def test_slots_of_a_stopped_process_count_until_its_requests_must_have_ended(
    tmp_path: Path, other: Other
) -> None:
    """A request lasts 60 s by default, and its process may be 15 s late."""
    table = AddressTable(tmp_path / "addresses", SECTION, 1024)
    other.take_slot("192.0.2.1", 100.0)
    other.take_slot("192.0.2.1", 100.5)
    other.process.send_signal(signal.SIGSTOP)
    assert table.take_slot("192.0.2.1", 175.4) > 0
    assert table.take_slot("192.0.2.2", 175.4) == 0
    assert table.take_slot("192.0.2.1", 175.5) == 0
    assert table.take_slot("192.0.2.1", 176.0) == 0
    assert table.take_slot("192.0.2.1", 177.0) > 0, "no more than two of the living"
    other.process.send_signal(signal.SIGCONT)
    table.close()


def test_a_process_that_goes_on_takes_no_slot_while_too_many_are_held(
    tmp_path: Path, other: Other
) -> None:
    table = AddressTable(tmp_path / "addresses", SECTION, 1024)
    assert [other.take_slot("192.0.2.1", 100.0), other.take_slot("192.0.2.1", 100.5)] == [0, 0]
    assert [table.take_slot("192.0.2.1", 200.0), table.take_slot("192.0.2.1", 200.5)] == [0, 0]
    assert other.take_slot("192.0.2.1", 202.0) > 0, "two of its own are open, and two of others"
    other.release_slot("192.0.2.1", 202.0)
    other.release_slot("192.0.2.1", 202.0)
    assert other.take_slot("192.0.2.1", 202.0) > 0, "its late releases freed only its own"
    table.release_slot("192.0.2.1", 202.0)
    assert other.take_slot("192.0.2.1", 202.0) == 0
    assert table.take_slot("192.0.2.1", 203.0) > 0, "one of each is open"
    table.close()


def test_a_process_that_renews_its_slots_keeps_them(tmp_path: Path) -> None:
    """A request of another crawl may last longer than ours, or be lent to an outside fetcher."""
    ours, theirs = (AddressTable(tmp_path / "addresses", SECTION, 1024) for _ in range(2))
    assert [theirs.take_slot("192.0.2.1", 100.0), theirs.take_slot("192.0.2.1", 100.5)] == [0, 0]
    for now in range(101, 1000, int(theirs.renew_s)):
        assert theirs.renew(now)
        assert ours.take_slot("192.0.2.1", now) > 0
    theirs.release_slot("192.0.2.1", 1000.0)
    theirs.release_slot("192.0.2.1", 1000.0)
    assert not theirs.renew(1000.0)
    ours.close()
    theirs.close()


def test_the_time_that_slots_count_is_that_of_their_own_process(tmp_path: Path) -> None:
    slow = AddressTable(tmp_path / "addresses", SECTION, 1024, request_s=600.0)
    quick = AddressTable(tmp_path / "addresses", SECTION, 1024, request_s=5.0)
    assert [slow.take_slot("192.0.2.1", 100.0), slow.take_slot("192.0.2.1", 101.0)] == [0, 0]
    assert quick.take_slot("192.0.2.1", 715.9) > 0
    assert quick.take_slot("192.0.2.1", 716.0) == 0
    slow.close()
    quick.close()


def test_a_slot_is_not_given_to_two_when_all_cells_are_those_of_stopped_processes(
    tmp_path: Path,
) -> None:
    section = PolitenessSection(address_delay_s=0, address_slots=8)  # as many as there are cells
    stopped, ours = (AddressTable(tmp_path / "addresses", section, 1024) for _ in range(2))
    assert {stopped.take_slot("192.0.2.1", 100.0) for _ in range(8)} == {0}
    assert ours.take_slot("192.0.2.1", 900.0) > 0
    stopped.release_slot("192.0.2.1", 900.0)
    assert ours.take_slot("192.0.2.1", 900.0) == 0
    ours.close()
    stopped.close()


def test_whoever_does_not_get_the_lock_is_told_to_come_again(tmp_path: Path) -> None:
    table, locks = AddressTable(tmp_path / "addresses", SECTION), ByteLocks(tmp_path / "addresses")
    assert all(locks.acquire(STRIPE_LOCKS + stripe) for stripe in range(STRIPES))
    assert 0 < table.take_slot("192.0.2.1", 1.0) < 0.1
    locks.close()
    assert table.take_slot("192.0.2.1", 1.0) == 0
    table.close()


def test_a_full_bucket_shares_one_entry_instead_of_failing(place: Path | None) -> None:
    table = AddressTable(place, SECTION, 8)  # one bucket
    addresses = [f"192.0.2.{n}" for n in range(10)]
    assert [table.take_slot(address, 100.0) > 0 for address in addresses] == [False] * 9 + [True]
    # The first eight are idle soon, but the ninth's memory is in the shared entry, so the tenth
    # goes on sharing it.
    for address in addresses[:8]:
        table.release_slot(address, 100.1)
    assert table.take_slot(addresses[9], 100.5) == 0
    assert table.take_slot(addresses[8], 100.9) == pytest.approx(0.1)
    assert table.take_slot(addresses[0], 100.9) == 0
    table.release_slot(addresses[8], 101.0)
    table.release_slot(addresses[9], 101.0)
    assert table.take_slot(addresses[9], 101.0) == 0
    assert table.take_slot(addresses[8], 101.0) == 0
    table.close()


def test_other_settings_are_refused_while_the_file_is_open(tmp_path: Path) -> None:
    table = AddressTable(tmp_path / "addresses", SECTION)
    with pytest.raises(ValueError, match="in use with other settings"):
        AddressTable(tmp_path / "addresses", SECTION, 8)
    assert table.take_slot("192.0.2.1", 1.0) == 0
    table.close()


@pytest.mark.parametrize("damage", ["other layout", "garbage", "cut short"])
def test_a_file_that_cannot_be_read_makes_all_addresses_wait_one_delay(
    tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "addresses"
    table = AddressTable(path, SECTION)
    table.take_slot("192.0.2.1", 100.0)
    table.close()
    if damage == "garbage":
        path.write_bytes(b"\xff" * 10_000)
    elif damage == "cut short":
        path.write_bytes(path.read_bytes()[:5000])
    table = AddressTable(path, SECTION, 8 if damage == "other layout" else 65536)
    assert table.take_slot("192.0.2.1", 100.1) == pytest.approx(0.5)
    assert table.take_slot("192.0.2.2", 100.2) == pytest.approx(0.4)
    assert [table.take_slot("192.0.2.1", 100.7), table.take_slot("192.0.2.2", 100.7)] == [0, 0]
    table.close()


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 13), st.floats(0, 0.4)), max_size=80))
def test_no_history_presses_an_address(steps: list[tuple[bool, int, float]]) -> None:
    table, now = AddressTable(None, SECTION, 8), 1.0
    started: dict[str, float] = {}
    open_now: dict[str, int] = defaultdict(int)
    for is_take, number, pause_s in steps:
        address, now = f"192.0.2.{number}", now + pause_s
        if not is_take and open_now[address]:
            table.release_slot(address, now)
            open_now[address] -= 1
        elif is_take and table.take_slot(address, now) == 0:
            assert now - started.get(address, -1.0) >= SECTION.address_delay_s - 1e-9
            started[address] = now
            open_now[address] += 1
            assert open_now[address] <= SECTION.address_slots
    for address, count in open_now.items():
        for _ in range(count):
            table.release_slot(address, now)
    assert all(table.take_slot(f"198.51.100.{n}", now + 1) == 0 for n in range(9))  # nothing leaked
    table.close()


HAMMER = """
import os, select, sys, time
from pathlib import Path
from lycosa.base.config.sections import PolitenessSection
from lycosa.stages.politeness.address_table import AddressTable
folder, name = Path(sys.argv[1]), sys.argv[2]
table = AddressTable(folder / "addresses", PolitenessSection(address_delay_s=0.01, address_slots=2), 1024)
log = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
held = []
print("open", flush=True)
for turn in range(100_000):
    address = f"192.0.2.{turn % 3}"
    now = time.monotonic()
    if table.take_slot(address, now) == 0:
        os.write(log, b"take %s %r\\n" % (address.encode(), now))
        held.append(address)
    if len(held) > 2 or (held and turn % 7 == 0):
        os.write(log, b"release %s %r\\n" % (held[0].encode(), time.monotonic()))
        table.release_slot(held.pop(0), time.monotonic())
    if select.select([sys.stdin], [], [], 0.0005)[0]:
        break
"""


def test_processes_that_hammer_the_table_and_are_killed_never_press_an_address(
    tmp_path: Path,
) -> None:
    def start(name: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", HAMMER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        return process

    # Starting an interpreter takes about a tenth of a second, so each victim dies in the middle of
    # its work.
    steady = [start("steady-1"), start("steady-2")]
    for number in range(4):
        victim = start(f"victim-{number}")
        late = start(f"late-{number}")
        victim.kill()
        victim.communicate()
        steady.append(late)
    for process in steady:
        process.communicate(b"stop")
        assert process.returncode == 0

    starts: dict[str, list[float]] = defaultdict(list)
    for log in tmp_path.glob("*-*"):
        for line in log.read_text().splitlines():
            verb, address, moment = line.split()
            if verb == "take":
                starts[address].append(float(moment))
    assert len(starts) == 3
    for moments in starts.values():
        moments.sort()
        assert len(moments) > 5
        # A process may be held up between reading the clock and taking the lock, and another with a
        # newer reading drops the entry as idle meanwhile: the log then has a start some
        # microseconds before it was. A lost delay would be a gap near zero.
        assert min(later - earlier for earlier, later in pairwise(moments)) >= 0.005
    table = AddressTable(
        tmp_path / "addresses", PolitenessSection(address_delay_s=0, address_slots=2), 1024
    )
    assert [table.take_slot("192.0.2.0", 1e9), table.take_slot("192.0.2.0", 1e9)] == [0, 0]
    table.close()


def test_a_request_that_left_late_holds_back_the_next_one(place: Path | None) -> None:
    table = AddressTable(place, SECTION)
    assert table.take_slot("192.0.2.1", 100.0) == 0
    table.record_start("192.0.2.1", 100.3)
    assert table.take_slot("192.0.2.1", 100.5) == pytest.approx(0.3)
    assert table.take_slot("192.0.2.1", 100.8) == 0
    table.close()


def test_what_a_server_may_have_read_late_is_given_up_to_half_a_delay(place: Path | None) -> None:
    table = AddressTable(place, SECTION)
    assert table.take_slot("192.0.2.1", 100.0) == 0
    table.record_start("192.0.2.1", 100.0, answered=100.01)
    assert table.take_slot("192.0.2.1", 100.5) == pytest.approx(0.01)
    table.record_start("192.0.2.1", 100.0, answered=104.0)
    assert table.take_slot("192.0.2.1", 100.5) == pytest.approx(0.25)
    table.close()


def test_a_start_never_brings_the_next_one_nearer(place: Path | None) -> None:
    table = AddressTable(place, UNDELAYED)
    delayed = AddressTable(None, SECTION)
    for number in range(2):
        assert table.take_slot("192.0.2.1", 100.0 + number) == 0
    table.record_start("192.0.2.1", 99.0)
    table.close()
    assert delayed.take_slot("192.0.2.1", 100.0) == 0
    delayed.record_start("192.0.2.1", 98.0)
    assert delayed.take_slot("192.0.2.1", 100.1) == pytest.approx(0.4)
    delayed.close()


def test_each_address_has_its_own_start_also_in_full_buckets() -> None:
    table = AddressTable(None, SECTION, entries=8)
    names = [f"192.0.2.{number}" for number in range(12)]
    waits = [table.take_slot(name, 100.0) for name in names]
    taken = [name for name, wait in zip(names, waits, strict=True) if not wait]
    for number, name in enumerate(taken):
        table.record_start(name, 100.0 + number / 100)
    for number, name in enumerate(taken[:8]):
        assert table.take_slot(name, 100.0 + number / 100) == pytest.approx(0.5)
    table.close()


def test_a_start_at_the_first_moment_of_the_clock_counts() -> None:
    table = AddressTable(None, SECTION)
    assert table.take_slot("198.18.0.1", 0.0) == 0.0
    table.record_start("198.18.0.1", 0.0)
    assert table.take_slot("198.18.0.1", 0.0) == pytest.approx(SECTION.address_delay_s)
    table.close()


def test_a_table_has_an_identity_of_its_own_that_stays(tmp_path: Path) -> None:
    path, other = tmp_path / "one", tmp_path / "other"
    found = []
    for each in (path, path, other):
        table = AddressTable(each, SECTION, 64)
        found.append(table.identity)
        table.close()
    assert found[0] == found[1] != found[2]
    assert all(found)
    path.unlink()  # as in another container, where a file has the same path
    table = AddressTable(path, SECTION, 64)
    assert table.identity != found[0]
    table.close()


def test_a_table_that_was_made_before_there_were_identities_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "old"
    AddressTable(path, SECTION, 64).close()
    data = bytearray(path.read_bytes())
    data[5 * 8 : 6 * 8] = bytes(8)
    path.write_bytes(data)
    first, second = AddressTable(path, SECTION, 64), AddressTable(path, SECTION, 64)
    assert first.identity == second.identity != 0
    first.close()
    second.close()


def test_a_loop_that_runs_keeps_its_slots_and_one_that_stood_still_does_not(tmp_path: Path) -> None:
    """A slot may be held for hours, as that of a URL which is lent to an outside fetcher."""

    async def hold() -> None:
        path, clock = tmp_path / "addresses", VirtualClock()
        ours, theirs = (MachineAddresses(AddressTable(path, SECTION), clock) for _ in range(2))
        assert await theirs.take_slot("192.0.2.1", 0.0) == 0
        assert await theirs.take_slot("192.0.2.1", 1.0) == 0
        await clock.sleep(7200.0)
        assert await ours.take_slot("192.0.2.1", clock.monotonic()) > 0
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.skip(80.0)
        assert await ours.take_slot("192.0.2.1", clock.monotonic()) == 0
        await clock.sleep(1.0)
        assert await ours.take_slot("192.0.2.1", clock.monotonic()) > 0, "it goes on"
        await theirs.release_slot("192.0.2.1", clock.monotonic())
        await theirs.release_slot("192.0.2.1", clock.monotonic())
        assert await ours.take_slot("192.0.2.1", clock.monotonic()) == 0
        ours.close()
        theirs.close()

    run_virtual(hold())
