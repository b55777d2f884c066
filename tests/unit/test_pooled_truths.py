"""Hosts of which little is known are believed as far as hosts with the same software were right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.model.source_truth import (
    ADDED,
    FEW,
    UNIT,
    UNKNOWN_TRUTH,
    SignalSource,
    SourceTruth,
)
from lycosa.base.server_software import software_of
from lycosa.stages.frontier.pooled_truths import (
    TRUTHS_KEY,
    PooledTruths,
    decode_pools,
    merged_pools,
)
from lycosa.stages.frontier.visit_state import VisitState, VisitStates
from lycosa.stages.schedule.signal_belief import is_trusted
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay

MODIFIED, MAP, PUSH = SignalSource.LAST_MODIFIED, SignalSource.SITEMAP, SignalSource.PUSH
COUNTS = st.builds(
    SourceTruth,
    st.integers(0, 200 * UNIT),
    st.integers(0, 200 * UNIT),
)


class Hosts:
    """Hosts of one partition, with their counts."""

    def __init__(self) -> None:
        self.store = MemoryKeyValue()
        self.open()

    def open(self) -> None:
        self.table = Overlay(self.store)
        self.visits = VisitStates(self.table, 0, 4, 1000)
        self.truths = PooledTruths(self.table, self.visits)

    def host(self, number: int, software: str = "nginx") -> VisitState:
        name = f"h{number}.example"
        host = self.visits.find_or_add_host(number.to_bytes(8, "big"), name)
        self.truths.note_software(host, software)
        return host

    def find(self, number: int, *shares: float, software: str = "nginx") -> None:
        host = self.host(number, software)
        for share in shares:
            self.truths.count_signal(host, MODIFIED, share)

    def trusts(self, number: int, software: str = "nginx") -> bool:
        return is_trusted(self.truths.truth_of(self.host(number, software), MODIFIED))

    def commit(self) -> None:
        self.visits.write_back()
        self.truths.save()
        self.store.write(self.table.freeze())
        self.table.settle()


@pytest.mark.parametrize(
    ("server", "generator", "software"),
    [
        ("nginx/1.25.3", "", "nginx"),
        ("Apache/2.4.1 (Ubuntu)", "WordPress 6.4", "apache wordpress"),
        ("Microsoft-IIS/10.0", "ASP.NET", "microsoft-iis asp.net"),
        ("", "Drupal 10 (https://www.drupal.org)", "drupal"),
        ("", "", ""),
        ("1.2.3", "<>", ""),
        ("a" * 500, "", "a" * 32),
    ],
)
def test_software_is_named_without_versions(server: str, generator: str, software: str) -> None:
    assert software_of(server, generator) == software


@given(st.text(), st.text())
def test_names_of_software_are_bounded(server: str, generator: str) -> None:
    assert len(software_of(server, generator)) <= 65


def test_a_new_host_is_trusted_when_hosts_like_it_were_right_and_no_other_one() -> None:
    hosts = Hosts()
    for number in range(4):
        assert not hosts.trusts(99)
        hosts.find(number, *[1.0] * 6)
    assert hosts.trusts(99)
    assert not hosts.trusts(98, "apache") and not hosts.trusts(97, "")
    # Its own findings soon count more than those of the others.
    hosts.find(99, 0.0, 0.0, 0.0)
    assert not hosts.trusts(99)


def test_one_large_host_speaks_for_itself_alone() -> None:
    hosts = Hosts()
    hosts.find(1, *[1.0] * 150)
    assert hosts.trusts(1) and not hosts.trusts(2)
    pool = hosts.truths.pools["nginx"][MODIFIED]
    assert pool.right == ADDED and pool.wrong == 0
    # Nor do findings of the host itself count twice.
    other = Hosts()
    other.find(1, *[1.0] * 6)
    assert not other.trusts(1)


def test_hosts_that_lie_make_a_host_like_them_prove_more() -> None:
    hosts = Hosts()
    for number in range(10):
        hosts.find(number, 1.0, 0.0, 0.0)
    hosts.find(50, *[1.0] * 10)
    hosts.find(51, *[1.0] * 10, software="apache")
    assert not hosts.trusts(50) and hosts.trusts(51, "apache")
    hosts.find(50, *[1.0] * 10)
    assert hosts.trusts(50)


def test_what_a_program_announces_is_not_pooled() -> None:
    hosts = Hosts()
    for number in range(30):
        hosts.truths.count_signal(hosts.host(number), PUSH, 1.0)
    assert hosts.truths.pools == {}
    assert hosts.truths.truth_of(hosts.host(99), PUSH) == UNKNOWN_TRUTH


def test_pools_are_kept_and_hosts_know_their_software_after_a_restart() -> None:
    hosts = Hosts()
    for number in range(8):
        hosts.find(number, *[1.0] * 6)
    hosts.commit()
    hosts.open()
    host = hosts.visits.find_host((3).to_bytes(8, "big"))
    assert host is not None and host.record.software == "nginx"
    assert hosts.trusts(99)
    assert decode_pools(hosts.store.get(TRUTHS_KEY)) == hosts.truths.pools
    twice = merged_pools([hosts.truths.pools, {}, hosts.truths.pools])
    assert twice["nginx"][MODIFIED].right == 2 * hosts.truths.pools["nginx"][MODIFIED].right


def test_the_row_is_bounded_whatever_servers_call_themselves() -> None:
    hosts = Hosts()
    for number in range(500):
        hosts.find(number, 1.0, software=f"server-{number}")
    assert len(hosts.truths.pools) == 200
    assert len(merged_pools([hosts.truths.pools, {f"x{n}": {} for n in range(99)}])) == 200


@given(COUNTS, COUNTS)
def test_others_never_outweigh_what_is_known(own: SourceTruth, pool: SourceTruth) -> None:
    together = own.with_others(pool)
    known, added = own.right + own.wrong, together.right + together.wrong - own.right - own.wrong
    assert together.right >= own.right and together.wrong >= own.wrong
    assert 0 <= added <= max(FEW - known, 0) + 1
    assert added <= (pool.right + pool.wrong) / 2 + 1
