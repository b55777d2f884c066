"""Waits of hosts behind a snapshot, from attempt logs in object storage."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_attempt_shipping import SHARD, Owner

from lycosa.base.reasons import Reason
from lycosa.moves.rescue_survey import waits_of_hosts
from lycosa.state.attempts.shipping import AttemptShipper
from memory_objects import MemoryStore


@pytest.mark.parametrize("since", [1310.0, 0.0])
def test_the_longest_wait_of_each_host_counts(tmp_path: Path, since: float) -> None:
    store, owner = MemoryStore(), Owner(tmp_path / "node", 1, 1000.0)
    owner.fetch(1001.0, "long-ago.test")
    for start in (1300.0, 1600.0):
        owner.log.rotate_file(start, start)()
        owner.fetch(start + 20.0)
        number = owner.log.begin_attempt(
            "busy.test", "192.0.2.1", "http://busy.test/", 0, start + 30.0, start + 30.0
        )
        owner.log.end_attempt(number, Reason.NONE, 503, 0.5, start + 30.5, start + 30.5, 3600.0)
    owner.log.close(1700.0, 1700.0)
    owner.log.compress_closed()
    AttemptShipper(store, tmp_path / "node", SHARD).ship_closed()
    found = waits_of_hosts(store, SHARD, since, tmp_path / "work")
    assert found["busy.test"] == pytest.approx(1630.5 + 3600.0)
    assert found["a.test"] == pytest.approx(1621.5)
    assert ("long-ago.test" in found) == (since == 0.0)


def test_a_shard_without_logs_has_none(tmp_path: Path) -> None:
    assert waits_of_hosts(MemoryStore(), SHARD, 5.0, tmp_path) == {}
