"""Two crawls on one machine, each a program of its own, that meet at one address."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lycosa.base.config.sections import PolitenessSection
from lycosa.stages.politeness.machine_addresses import MachineAddresses
from lycosa.synthetic import RequestLog, SyntheticWeb, VirtualClock, WebPlan, run_virtual
from lycosa.worker.machine_table import (
    MACHINE_TABLE_NAME,
    NoMachineTable,
    machine_folder,
    machine_table,
    open_host_table,
    open_machine_table,
)
from lycosa.worker.request_slots import CommonHostSlots
from serving import served_with_log

DELAY_S, STARTS = 0.6, 6
WEB = SyntheticWeb(WebPlan(hosts=2, pages=8, distribution="fixed", cross_links=0.0, page_bytes=300))


def crawl(folder: Path, host: int, port: int, *more: str) -> subprocess.Popen[bytes]:
    options = [
        *(
            "--delay",
            "0s",
            "--set",
            "politeness.adaptive_factor=0",
            "--set",
            f"politeness.address_delay_s={DELAY_S}",
        ),
        *(
            "--resolve",
            "*=127.0.0.1",
            "--allow-address",
            "127.0.0.0/8",
            "--contact",
            "test@example.org",
        ),
        *("--set", "frontier.partitions=1", "--set", "parse.language=false", "--max-pages", "6"),
    ]
    command = [
        sys.executable,
        "-m",
        "lycosa",
        "crawl",
        WEB.seed_url(host, port=port),
        "--dir",
        str(folder),
        *options,
        *more,
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def both(tmp_path: Path, *more: str) -> RequestLog:
    with served_with_log(WEB) as (port, log):
        running = [crawl(tmp_path / f"c{number}", number, port, *more) for number in range(2)]
        assert [each.wait(120) for each in running] == [3, 3]
    assert len(log.hosts()) == 2 and len(log) >= 12
    return log


def shortest_time(log: RequestLog) -> float:
    """Seconds from the first to the last of ``STARTS`` successive requests."""
    starts = sorted(each.start for each in log.exchanges)
    return min(last - first for first, last in zip(starts, starts[STARTS - 1 :], strict=False))


def test_two_crawls_share_the_delay_of_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYCOSA_RUNTIME_DIR", str(tmp_path / "machine"))
    log = both(tmp_path)
    # A busy server reads a request later than it was sent: a single gap may look shorter, by as much
    # as it is late, and less so the time of several requests.
    assert shortest_time(log) >= (STARTS - 2) * DELAY_S
    assert min(log.start_gaps("127.0.0.1")) >= DELAY_S / 4


def of_one_host(tmp_path: Path, *more: str) -> RequestLog:
    """Two crawls of one host, whose answers take a while, without any delay."""
    slow = SyntheticWeb(
        WebPlan(hosts=1, pages=8, distribution="fixed", page_bytes=300, latency_s=0.3)
    )
    quick = ("--set", "politeness.address_delay_s=0", *more)
    with served_with_log(slow, pace=1.0) as (port, log):
        running = [crawl(tmp_path / f"c{number}", 0, port, *quick) for number in range(2)]
        assert [each.wait(120) for each in running] == [3, 3]
    assert len(log.hosts()) == 1 and len(log) >= 12
    return log


def test_two_crawls_request_a_host_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYCOSA_RUNTIME_DIR", str(tmp_path / "machine"))
    assert of_one_host(tmp_path).shortest_gap() >= 0.0


def test_crawls_that_share_nothing_request_it_at_once(tmp_path: Path) -> None:
    own = of_one_host(tmp_path, "--set", "politeness.address_table=crawl")
    assert own.shortest_gap() < 0


def test_several_requests_of_one_crawl_hold_the_host_until_the_last_ends(tmp_path: Path) -> None:
    """For a minute: then they have to end, and the other crawl has its turn."""

    async def take_turns() -> None:
        section, clock = PolitenessSection(), VirtualClock()
        slots, other = (
            MachineAddresses(open_host_table(tmp_path / MACHINE_TABLE_NAME, section), clock)
            for _ in range(2)
        )
        ours = CommonHostSlots(slots)
        assert [await ours.take_slot("a.test", at) for at in (10.0, 10.1)] == [0, 0]
        assert await other.take_slot("a.test", 10.2) > 0
        await ours.release_slot("a.test", 11.0)
        assert await ours.take_slot("a.test", 69.0) == 0
        assert await ours.take_slot("a.test", 71.0) > 0
        await ours.release_slot("a.test", 71.0)
        assert await other.take_slot("a.test", 71.1) > 0
        await ours.release_slot("a.test", 72.0)
        assert await other.take_slot("a.test", 72.0) == 0
        assert await ours.take_slot("a.test", 72.1) > 0
        ours.close()
        other.close()

    run_virtual(take_turns())


def test_each_crawl_holds_its_own_settings_against_what_all_did(tmp_path: Path) -> None:
    slow, quick = (
        PolitenessSection(address_delay_s=5.0, address_slots=1),
        PolitenessSection(address_delay_s=0.5, address_slots=3),
    )
    first, second = (
        open_machine_table(tmp_path / MACHINE_TABLE_NAME, slow),
        open_machine_table(tmp_path / MACHINE_TABLE_NAME, quick),
    )
    assert first.take_slot("192.0.2.1", 100.0) == 0
    assert second.take_slot("192.0.2.1", 100.1) == pytest.approx(0.4)
    assert second.take_slot("192.0.2.1", 100.5) == 0
    first.release_slot("192.0.2.1", 100.6)
    assert first.take_slot("192.0.2.1", 103.0) == pytest.approx(2.5)
    assert 0 < first.take_slot("192.0.2.1", 106.0) <= 1.0, "the other's request is open"
    second.release_slot("192.0.2.1", 106.0)
    assert first.take_slot("192.0.2.1", 106.0) == 0
    first.close()
    second.close()


def test_the_table_is_for_one_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYCOSA_RUNTIME_DIR", str(tmp_path / "machine"))
    path = machine_table(PolitenessSection())
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    monkeypatch.delenv("LYCOSA_RUNTIME_DIR")
    assert machine_folder().name == f"lycosa-{os.getuid()}"


@pytest.mark.parametrize(
    "trap", ["link to a folder", "link to a file", "open to all", "a file", "cannot be made"]
)
def test_a_folder_that_another_may_have_laid_is_not_used(
    trap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "machine", tmp_path / "elsewhere"
    elsewhere.mkdir()
    victim = elsewhere / "victim"
    victim.write_text("precious")
    if trap == "link to a folder":
        folder.symlink_to(elsewhere)
    elif trap == "link to a file":
        folder.mkdir(mode=0o700)
        (folder / MACHINE_TABLE_NAME).symlink_to(victim)
    elif trap == "open to all":
        folder.mkdir()
        folder.chmod(0o777)
    elif trap == "a file":
        folder.write_text("")
    else:
        folder = tmp_path / "none" / "machine"
    monkeypatch.setenv("LYCOSA_RUNTIME_DIR", str(folder))
    with pytest.raises(NoMachineTable, match=str(folder)):
        machine_table(PolitenessSection())
    assert victim.read_text() == "precious" and not (elsewhere / MACHINE_TABLE_NAME).exists()
