"""What enters the frontier, and to which partition it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from test_partition import START, open_partition

from lycosa.base.config.sections import (
    CanonicalSection,
    FrontierSection,
    ScopeRule,
    ScopeSection,
    TrapSection,
)
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.parsed import Directives, Link, Parsed
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl, Sites, hash8, host_of, partition_of
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.admit.scope import Scope
from lycosa.stages.admit.traps import Traps
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.workbench import Workbench
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.table_records import UrlRecord, joined_key
from lycosa.state.seen.recent import RecentHashes
from lycosa.worker.intake.admission import Admission, UserRule
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels
from lycosa.worker.intake.owners import Addressing

PARTITIONS = 4


class FixedClock:
    """Time stands still."""

    def monotonic(self) -> float:
        return 0.0

    def wall(self) -> float:
        return START

    async def sleep(self, delay_s: float) -> None:
        return None


class Posted(OutgoingParcels):
    """Keeps what is posted to other workers' partitions."""

    def __init__(self, partitions: Mapping[int, Partition]) -> None:
        tables = {number: MemoryKeyValue() for number in partitions}
        super().__init__(partitions, tables, None, asyncio.sleep, lambda error: None, PARTITIONS)
        self.posted: list[tuple[int, int, list[Discovered]]] = []
        self.spread: list[str] = []

    def post_urls(self, source: Partition, destination: int, found: list[Discovered]) -> None:
        self.posted.append((source.number, destination, found))

    def post_place(self, url: str) -> None:
        self.spread.append(url)


class Bench:
    """An intake over some of four partitions, and what it posted to the others."""

    def __init__(
        self, owned: tuple[int, ...] = (0, 1, 2, 3), rules: tuple[UserRule, ...] = (), **scope: Any
    ) -> None:
        self.partitions: dict[int, Partition] = {}
        for number in owned:
            self.partitions[number] = open_partition(MemoryKeyValue(), 100, number)
        self.outgoing = Posted(self.partitions)
        self.posted, self.spread = self.outgoing.posted, self.outgoing.spread
        sites = Sites()
        self.scope = Scope(ScopeSection(**{"rule": ScopeRule.ANY, **scope}), sites.site_of)
        self.intake = Intake(
            self.partitions,
            Addressing(Canonicalizer(CanonicalSection()), sites, PARTITIONS),
            Admission(self.scope, Traps(TrapSection(), 2026), rules),
            RecentHashes(1000),
            FixedClock(),
            self.outgoing,
        )
        self.frontier = Frontier(
            self.partitions.values(), Workbench(4), FrontierSection().workbench
        )

    def record(self, url: str) -> UrlRecord | None:
        number = self.intake.partition_of_host(host_of(url))
        if number in self.partitions:
            self.partitions[number].take_gathered()
        return (
            self.partitions[number].find_record(hash8(host_of(url)), hash8(url))
            if number in self.partitions
            else None
        )

    def lease(self, url: str) -> Lease:
        """The lease of a URL that waits."""
        partition = self.partitions[self.intake.partition_of_host(host_of(url))]
        host = partition.visits.find_host(hash8(host_of(url)))
        assert host is not None
        while (lease := partition.lease_next(host)) is not None:
            if lease.url == url:
                return lease
        raise AssertionError(f"{url} does not wait")


def links(*urls: str, kind: LinkKind = LinkKind.A, nofollow: bool = False) -> list[Link]:
    return [Link(url, hash8(host_of(url)), hash8(url), kind, "", nofollow) for url in urls]


def parsed(found: list[Link], **fields: Any) -> Parsed:
    return Parsed(links=found, **fields)


A, B = "http://a.example/", "http://b.test/"


def test_a_seed_is_canonical_and_goes_to_its_owner() -> None:
    bench = Bench()
    assert bench.intake.take_seed("HTTP://A.example:80/../#x") is None
    record = bench.record(A)
    assert record is not None and (record.depth, record.kind, record.via) == (0, LinkKind.SEED, "")


def test_a_seed_that_cannot_be_crawled_is_refused_with_its_reason() -> None:
    bench = Bench(exclude=("private",))
    refusal = bench.intake.take_seed(f"{A}private")
    assert refusal is not None and refusal.reason is Reason.EXCLUDED
    with pytest.raises(InvalidUrl):
        bench.intake.take_seed("http://")
    refused = bench.intake.take_seeds([A, f"{A}private", "ftp://a.example/", "http://["])
    assert [raw for raw, _ in refused] == [f"{A}private", "ftp://a.example/", "http://["]


def test_an_outlink_is_one_deeper_and_knows_where_it_was_found() -> None:
    bench = Bench()
    bench.intake.take_seed(A)
    bench.intake.take_outlinks(bench.lease(A), parsed(links(f"{A}x", B)))
    local, foreign = bench.record(f"{A}x"), bench.record(B)
    assert local is not None and (local.depth, local.via) == (1, "/")
    assert foreign is not None and (foreign.depth, foreign.via) == (1, A)


def test_a_page_that_asks_for_it_is_not_followed() -> None:
    bench = Bench()
    bench.intake.take_seed(A)
    lease = bench.lease(A)
    bench.intake.take_outlinks(
        lease, parsed(links(f"{A}x", f"{A}y"), directives=Directives(nofollow=True))
    )
    assert bench.record(f"{A}x") is None
    assert lease.host.record.refused == {Reason.NOFOLLOW: 2}


def test_links_refused_by_pure_rules_are_counted_by_rule() -> None:
    bench = Bench(rule=ScopeRule.HOST, follow_nofollow=False)
    bench.intake.take_seed(A)
    lease = bench.lease(A)
    found = (
        links(f"{A}x", B) + links(f"{A}y", nofollow=True) + links(f"{A}i.png", kind=LinkKind.IMG)
    )
    bench.intake.take_outlinks(lease, parsed(found, refused_links={int(Reason.SCHEME): 3}))
    assert lease.host.record.refused == {
        Reason.OUT_OF_SCOPE: 1,
        Reason.NOFOLLOW: 1,
        Reason.REQUISITE: 1,
        Reason.SCHEME: 3,
    }
    assert bench.record(f"{A}x") is not None


def test_a_link_met_a_moment_ago_is_dropped_early_but_a_nearer_find_passes() -> None:
    bench = Bench()
    bench.intake.take_seed(A)
    lease = bench.lease(A)
    lease.record.depth = 4
    bench.intake.take_outlinks(lease, parsed(links(f"{A}x")))
    lease.record.depth = 1
    bench.intake.take_outlinks(lease, parsed(links(f"{A}x")))
    record = bench.record(f"{A}x")
    assert record is not None and record.depth == 2


def test_a_link_that_was_out_of_scope_a_moment_ago_passes_once_its_place_joins() -> None:
    bench = Bench(rule=ScopeRule.HOST)
    bench.intake.take_seed(A)
    lease = bench.lease(A)
    bench.intake.take_outlinks(lease, parsed(links(f"{B}x")))
    bench.intake.take_seed(B)
    bench.intake.take_outlinks(lease, parsed(links(f"{B}x")))
    assert bench.record(f"{B}x") is not None
    bench.intake.take_outlinks(lease, parsed(links("http://c.test/x")))
    bench.intake.add_places(["http://c.test/"])
    bench.intake.take_outlinks(lease, parsed(links("http://c.test/x")))
    assert bench.record("http://c.test/x") is not None


def test_a_rule_of_the_users_own_comes_after_ours() -> None:

    asked: list[str] = []

    def rule(found: Discovered) -> Refusal | None:
        asked.append(found.url)
        return (
            Refusal(Reason.USER_RULE, "no even numbers", found.url)
            if found.url.endswith("2")
            else None
        )

    bench = Bench(rules=(rule,), rule=ScopeRule.HOST)
    bench.intake.take_seed(A)
    bench.intake.take_outlinks(bench.lease(A), parsed(links(f"{A}1", f"{A}2", B)))
    assert bench.record(f"{A}1") is not None and bench.record(f"{A}2") is None
    assert asked == [A, f"{A}1", f"{A}2"]


def test_what_others_own_goes_into_the_outbox_of_the_page_it_was_found_on() -> None:
    sites = Sites()
    mine = partition_of(sites.site_of("a.example"), PARTITIONS)
    names = [f"http://h{n}.example/" for n in range(20)]
    bench = Bench(owned=(mine,))
    bench.intake.take_seed(A)
    bench.intake.take_outlinks(bench.lease(A), parsed(links(*names)))
    wanted = {url for url in names if partition_of(sites.site_of(host_of(url)), PARTITIONS) != mine}
    assert {found.url for _, _, batch in bench.posted for found in batch} == wanted
    assert {source for source, _, _ in bench.posted} == {mine}
    assert len(bench.posted) == 3, "one batch for each partition"


def test_the_owner_takes_a_parcel_without_judging_its_urls_again() -> None:
    bench = Bench(rule=ScopeRule.HOST)
    partition = bench.partitions[bench.intake.partition_of_host("b.test")]
    bench.intake.receive_urls(
        partition, [Discovered(B, hash8("b.test"), hash8(B), LinkKind.A, 3, A)]
    )
    record = bench.record(B)
    assert record is not None and record.depth == 3


@pytest.mark.parametrize(
    ("kind", "depth", "joins"),
    [(LinkKind.SEED, 0, True), (LinkKind.REDIRECT, 0, True), (LinkKind.A, 1, False)],
)
def test_only_what_a_seed_redirects_to_joins_the_scope(
    kind: LinkKind, depth: int, joins: bool
) -> None:
    bench = Bench(rule=ScopeRule.HOST)
    bench.intake.take_seed(A)
    lease = bench.lease(A)
    lease.record.kind, lease.record.depth = kind, depth
    bench.intake.take_redirect(lease, B)
    assert (bench.record(B) is not None) == joins
    witness = bench.partitions[lease.host.partition]
    assert (witness.table.get(joined_key(B)) is not None) == joins
    assert bench.spread == ([B] if joins else [])


def test_a_worker_remembers_the_places_of_seeds_and_parcels_that_it_did_not_find() -> None:
    bench = Bench(owned=(1, 2), rule=ScopeRule.HOST)
    seeds = [f"http://{name}.test/" for name in "abcdefgh"]
    for seed in seeds:
        bench.intake.take_seed(seed)
    bench.intake.receive_places(bench.partitions[2], ["http://new.test/", seeds[0]])
    remembered = [
        key[1:].decode()
        for partition in bench.partitions.values()
        for key in partition.freeze()
        if key[:1] == b"J"
    ]
    assert sorted(remembered) == [*seeds, "http://new.test/"]
    assert bench.partitions[2].table.get(joined_key("http://new.test/")) is not None
    assert bench.spread == []


def test_a_redirect_keeps_the_depth_and_counts_the_hops() -> None:
    bench = Bench()
    bench.intake.take_seed(A)
    lease = bench.lease(A)
    lease.record.depth, lease.record.hops = 3, 2
    bench.intake.take_redirect(lease, B)
    record = bench.record(B)
    assert record is not None and (record.depth, record.hops, record.kind, record.via) == (
        3,
        3,
        LinkKind.REDIRECT,
        A,
    )


def test_the_chain_of_redirects_is_told_first_to_last() -> None:
    bench = Bench()
    bench.intake.take_seed(A)
    bench.intake.take_redirect(bench.lease(A), f"{A}1")
    bench.intake.take_redirect(bench.lease(f"{A}1"), B)
    assert bench.lease(B).chain == (A, f"{A}1")


def test_sitemap_lines_that_are_no_urls_are_passed_over() -> None:
    bench = Bench()
    bench.intake.take_seed(A)
    host = bench.lease(A).host
    lines = ["http://[", "", "not a url", f"{A}map.xml", "/other.xml"]
    assert not list(bench.intake.sitemap_steps(host, lines, f"{A}robots.txt"))
    record = bench.record(f"{A}map.xml")
    assert record is not None and (record.kind, record.depth, record.via) == (
        LinkKind.SITEMAP_FILE,
        0,
        "/robots.txt",
    )
    assert bench.record(f"{A}other.xml") is not None


def test_what_a_site_took_is_the_sum_over_its_hosts() -> None:
    bench = Bench()
    partition = bench.partitions[bench.intake.partition_of_host("www.a.example")]
    for host, capture in (("www.a.example", True), ("a.example", False)):
        bench.intake.note_usage(
            partition, host, Fetched(A, Reason.NONE, body_bytes=10, duration_s=0.5), capture
        )
    usage = bench.intake.site_usage(partition, "other.a.example")
    assert (usage.captures, usage.bytes, usage.time_s) == (1, 20, 1.0)
