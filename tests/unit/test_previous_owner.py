"""How long a shard's new owner holds all hosts, by the end of the owner before it."""

from __future__ import annotations

from pathlib import Path

from lycosa.base.model.end import PreviousEnd
from lycosa.state.commit import LEASE_S
from lycosa.worker.commit.previous_owner import held_until

TOTAL_S, HERE = 60.0, "one boot"


def test_nothing_is_held_after_an_orderly_end(tmp_path: Path) -> None:
    assert held_until(tmp_path, 2, PreviousEnd.ORDERLY, 100.0, TOTAL_S, HERE) == 0.0


def test_all_is_held_for_a_lease_and_a_request_after_the_claim_of_a_lost_owner(
    tmp_path: Path,
) -> None:
    until = 100.0 + LEASE_S + TOTAL_S
    assert held_until(tmp_path, 2, PreviousEnd.LOST, 100.0, TOTAL_S, HERE) == until


def test_nothing_is_held_after_a_process_that_was_seen_to_die_here(tmp_path: Path) -> None:
    held_until(tmp_path, 1, PreviousEnd.ORDERLY, 50.0, TOTAL_S, HERE)
    assert held_until(tmp_path, 2, PreviousEnd.CRASH, 100.0, TOTAL_S, HERE) == 0.0


def test_a_process_that_died_while_hosts_were_held_leaves_the_rest_to_the_next(
    tmp_path: Path,
) -> None:
    until = held_until(tmp_path, 2, PreviousEnd.LOST, 100.0, TOTAL_S, HERE)
    assert held_until(tmp_path, 3, PreviousEnd.CRASH, 120.0, TOTAL_S, HERE) == until
    assert held_until(tmp_path, 4, PreviousEnd.CRASH, 150.0, TOTAL_S, HERE) == until
    assert held_until(tmp_path, 5, PreviousEnd.CRASH, 250.0, TOTAL_S, HERE) == 0.0


def test_a_hold_of_another_owner_or_of_before_a_reboot_says_nothing(tmp_path: Path) -> None:
    held_until(tmp_path, 1, PreviousEnd.ORDERLY, 50.0, TOTAL_S, HERE)
    until = 100.0 + LEASE_S + TOTAL_S
    assert held_until(tmp_path, 3, PreviousEnd.CRASH, 100.0, TOTAL_S, HERE) == until
    assert held_until(tmp_path, 4, PreviousEnd.CRASH, 100.0, TOTAL_S, "another boot") == until
    held_until(tmp_path, 5, PreviousEnd.ORDERLY, 50.0, TOTAL_S, "")
    assert held_until(tmp_path, 6, PreviousEnd.CRASH, 100.0, TOTAL_S, "") == until
