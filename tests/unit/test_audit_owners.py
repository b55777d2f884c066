"""Politeness over the owners of shards, and over the owners before an import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.politeness_check import OwnersLogs, PolitenessChecks
from lycosa.state.attempts import AttemptLog, LogOwner
from lycosa.state.attempts.attempt_files import attempt_files_of
from lycosa.state.attempts.shipping import last_files, ship_left_files, shipped_files
from memory_objects import MemoryStore

SHARD = 2
SECTION = PolitenessSection(delay_s=1.0, address_delay_s=0.2)
Requests = Sequence[tuple[str, float]]


def write_log(folder: Path, worker: int, term: int, requests: Requests, boot: str) -> None:
    """Requests of one worker to one address: hosts and times."""
    begun = requests[0][1] - 1
    log = AttemptLog(folder, worker, begun, begun, owner=LogOwner(term, boot), boot=boot)
    for host, at in requests:
        url = f"http://{host}/{at:g}"
        number = log.begin_attempt(host, "192.0.2.1", url, FetchKind.PAGE, at, at)
        log.end_attempt(number, Reason.NONE, 200, 0.1, at + 0.1, at + 0.1, 1.0)
    end = requests[-1][1] + 1
    log.close(end, end)


def of_machine(folder: Path, requests: Requests) -> OwnersLogs:
    write_log(folder, 0, 0, requests, "machine")
    return OwnersLogs(attempt_files_of(folder))


def of_shard(folder: Path, requests: Requests, newest_term: int = 1) -> OwnersLogs:
    """The log of the owner of term 1, as a reader downloads it."""
    write_log(folder / "node", SHARD, 1, requests, "node")
    store, paths = MemoryStore(), []
    assert not ship_left_files(store, folder / "node", SHARD)
    for each in shipped_files(store, SHARD):
        path = folder / each.key
        path.parent.mkdir(parents=True)
        path.write_bytes(store.get(each.key))
        paths.append(path)
    lasts = {SHARD: last_files(store, SHARD)}
    return OwnersLogs({SHARD: paths}, False, {SHARD: newest_term}, lasts=lasts)


def checks(nodes: int = 1, clock_tolerance_s: float = 0.0) -> PolitenessChecks:
    return PolitenessChecks(
        SECTION, False, lambda what, done, total: None, None, nodes, clock_tolerance_s
    )


@pytest.mark.parametrize(
    ("at", "tolerance_s", "breaches"), [(1000.2, 0, 1), (1000.2, 5, 0), (1008, 0, 0)]
)
def test_the_pause_across_an_import_is_judged_by_clocks_that_may_differ(
    tmp_path: Path, at: float, tolerance_s: float, breaches: int
) -> None:
    earlier = of_machine(tmp_path / "machine", [("a.test", 1000.0)])
    present = of_shard(tmp_path / "shard", [("a.test", at)])
    found = checks(clock_tolerance_s=tolerance_s)
    found.check_logs([earlier, present])
    assert (found.hosts.checked, found.hosts.breaches) == (1, breaches)
    assert any("two machines" in note for note in found.hosts.notes) == bool(tolerance_s)


def test_nodes_divide_the_limits_of_addresses_and_the_machine_before_an_import_had_them_whole(
    tmp_path: Path,
) -> None:
    requests = [("a.test", 1000.0), ("b.test", 1000.3)]
    machine, shard = checks(nodes=4), checks(nodes=4)
    machine.check_logs([of_machine(tmp_path / "machine", requests)])
    shard.check_logs([of_shard(tmp_path / "shard", requests)])
    assert (machine.addresses.checked, machine.addresses.first) == (2, [])
    (told,) = shard.addresses.first
    assert "0.300000 s apart; the setting is 0.8 s" in told


def test_only_shards_have_times_that_nothing_proves(tmp_path: Path) -> None:
    requests = [("a.test", 1000.0)]
    machine = of_machine(tmp_path / "machine", requests)
    assert checks().check_logs([machine]) == []
    assert checks().check_logs([of_shard(tmp_path / "shard", requests)]) == []
    (found,) = checks().check_logs([of_shard(tmp_path / "later", requests, newest_term=2)])
    assert (found.shard, found.term) == (SHARD, 2)
