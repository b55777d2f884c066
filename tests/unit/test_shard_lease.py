"""The lease of a shard lasts from before an append was begun, and only when that succeeded."""

from __future__ import annotations

from math import inf

from lycosa.state.commit import LEASE_S, ShardLease, folder_lease


def test_a_lease_is_not_held_before_the_first_append() -> None:
    lease = ShardLease()
    assert not lease.holds(0.0) and lease.left_s(0.0) == 0 and lease.is_due(0.0)


def test_it_lasts_from_the_moment_before_the_append() -> None:
    lease = ShardLease()
    lease.renew(100.0)  # said at 125, when the append was acknowledged
    assert lease.holds(125.0) and lease.left_s(125.0) == LEASE_S - 25
    assert lease.holds(100.0 + LEASE_S - 0.001) and not lease.holds(100.0 + LEASE_S)
    assert lease.left_s(500.0) == 0


def test_an_older_append_that_is_heard_of_late_takes_nothing_away() -> None:
    lease = ShardLease()
    lease.renew(100.0)
    lease.renew(90.0)
    assert lease.left_s(100.0) == LEASE_S


def test_a_commit_is_due_when_a_third_has_passed() -> None:
    lease = ShardLease(30.0)
    lease.renew(100.0)
    assert [lease.is_due(now) for now in (100.0, 109.9, 110.1, 200.0)] == [False, False, True, True]


def test_one_that_has_ended_is_never_held_again() -> None:
    lease = ShardLease()
    lease.renew(100.0)
    lease.give_up()
    lease.renew(101.0)
    assert not lease.holds(101.0) and lease.left_s(101.0) == 0


def test_the_lock_of_a_folder_is_a_lease_that_holds() -> None:
    lease = folder_lease()
    assert all(lease.holds(now) and not lease.is_due(now) for now in (0.0, 1e12))
    assert lease.left_s(0.0) == inf
