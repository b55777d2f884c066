"""The rows of old partitions, divided into new shards."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from crawling import crawl_folder
from dying import Dying, copied
from judging import wants_are_kept
from lycosa.base.config.sections import (
    Config,
    FrontierSection,
    ParseSection,
    ScopeRule,
    ScopeSection,
)
from lycosa.base.model.capture import Original
from lycosa.base.model.dead_letter import DeadLetterAction, DecidedDeadLetter
from lycosa.base.model.parcel_items import Asker, Errand, Fingerprint, WantingPage
from lycosa.base.model.source_truth import SourceTruth
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, partition_of
from lycosa.inspect.audit.capture_index import CaptureIndex
from lycosa.inspect.audit.state_check import StateChecks
from lycosa.inspect.committed_state import TableView
from lycosa.moves.drain_run import drain_parcels
from lycosa.moves.reshard import division
from lycosa.moves.reshard.counting import divided_total, recounted
from lycosa.moves.reshard.division import Division, OldState
from lycosa.moves.reshard.host_owners import HostOwners, StateDamaged
from lycosa.moves.reshard.row_sink import RowSink
from lycosa.moves.stopped_folder import gather_folder
from lycosa.stages.frontier.dead_letters import decisions_of
from lycosa.stages.frontier.demands import DemandRow, decode_demand
from lycosa.stages.frontier.policy_walk import WALK_KEY, WalkRow, walk_row
from lycosa.stages.frontier.visit_state import VisitRecord, decode_visit
from lycosa.state.kv import table_records
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.kv.table_records import (
    announced_key,
    dead_letter_key,
    decision_key,
    demand_key,
    encode_record,
    form_key,
    front_key,
    host_key,
    indexnow_key,
    listing_key,
    meta_key,
    outcome_key,
    prefix_end,
    render_key,
    sitemap_key,
    story_key,
    waiting_key,
)
from lycosa.state.seen.near_judge import NearJudge
from lycosa.state.seen.simhash import NearIndex
from lycosa.state.shard.counters import Counters, counters_of
from lycosa.synthetic import Crash, SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.synthetic_hosts import host_name
from scripted import scripted_crawl
from several_workers import run_workers
from wanting import Everywhere, settings, sites, web_of

PLAN = WebPlan(hosts=40, pages=12, seed=5, latency_s=0.01, page_bytes=1500)
CONFIG = Config(
    frontier=FrontierSection(partitions=4),
    parse=ParseSection(language=False),
    scope=ScopeSection(rule=ScopeRule.ANY),
)
OPENER = rocks_opener(8 << 20, 4 << 20)
Tables = dict[int, KeyValue]


def site_of(host: str) -> str:
    return ".".join(host.partition(":")[0].rsplit(".", 2)[-2:])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """The state of a crawl that was stopped half-way."""
    folder = tmp_path_factory.mktemp("reshard")
    web = SyntheticWeb(PLAN)
    crawl_folder(folder / "one", web, [f"http://{host_name(0)}/"], CONFIG, stop_after_s=6.0)
    state = gather_folder(folder / "one", folder / "work", OPENER, lambda number: None)
    found = {number: OPENER(state.folder / "state" / f"p{number:05d}") for number in range(4)}
    yield found
    for table in found.values():
        table.close()


def divided(
    tables: Tables, shards: int, was_on_machine: bool = True, held: dict[bytes, float] | None = None
) -> Tables:
    owners = HostOwners(tables, site_of, shards)
    made: Tables = {number: MemoryKeyValue() for number in range(shards)}
    counters = recounted(owners)
    for part in ([*made][::2], [*made][1::2]):  # not all at once
        sink = RowSink({number: made[number] for number in part})
        Division(OldState(owners, 8, was_on_machine, held or {}), sink, counters).write()
    return made


def urls_in(tables: Tables) -> dict[bytes, bytes]:
    return {
        key: value for table in tables.values() for key, value in table.scan(b"U", prefix_end(b"U"))
    }


@pytest.mark.parametrize("shards", [3, 4, 6, 8])
def test_each_shard_agrees_with_itself_and_has_its_own_hosts(tables: Tables, shards: int) -> None:
    made = divided(tables, shards)
    checks = StateChecks(CaptureIndex(), None, lambda what, done, total: None)
    for number, table in made.items():
        checks.check_partition(TableView(number, table), 0)
        for _, value in table.scan(b"H", prefix_end(b"H")):
            assert partition_of(site_of(decode_visit(value).host), shards) == number
    for check in (checks.counters, checks.queues, checks.due, checks.hosts):
        assert check.checked and not check.breaches, check
    assert urls_in(made) == urls_in(tables)
    assert len(urls_in(made)) > 100


@pytest.mark.parametrize("shards", [3, 8])
def test_totals_stay_what_they_were(tables: Tables, shards: int) -> None:
    def total(of: Tables) -> dict[str, object]:
        found = msgspec.to_builtins(Counters())
        for table in of.values():
            for name, value in msgspec.to_builtins(counters_of(table)).items():
                if isinstance(value, dict):
                    for key, number in value.items():
                        found[name][key] = found[name].get(key, 0) + number
                else:
                    found[name] += value
        return {
            name: {key: each for key, each in value.items() if each}
            if isinstance(value, dict)
            else value
            for name, value in found.items()
            if name != "asked"
        }

    assert total(divided(tables, shards)) == total(tables)


def test_hosts_keep_their_order_in_queues(tables: Tables) -> None:
    made = divided(tables, 8)

    def lined_up(table: KeyValue) -> list[bytes]:
        return [host8 for _, host8 in table.scan(b"F", prefix_end(b"F"))]

    for number, table in tables.items():
        before = lined_up(table)
        assert before
        for shard in (number, number + 4):
            after = lined_up(made[shard])
            assert after == [host8 for host8 in before if host8 in set(after)]


def host_row(host: str, **values: object) -> tuple[bytes, bytes]:
    return host_key(hash8(host)), encode_record(VisitRecord(host, **values))  # type: ignore[arg-type]


def small(rows: dict[int, dict[bytes, bytes]], partitions: int = 2) -> Tables:
    made: Tables = {number: MemoryKeyValue() for number in range(partitions)}
    for number, each in rows.items():
        made[number].write(dict(each))
    return made


def test_a_host_that_was_requested_a_moment_ago_keeps_its_delay() -> None:
    made = divided(
        small({0: dict([host_row("a.test", next_at=50.0), host_row("b.test", next_at=90.0)])}),
        1,
        held={hash8("a.test"): 70.0, hash8("b.test"): 70.0},
    )
    a, b = (
        decode_visit(made[0].get(host_key(hash8(name))) or b"") for name in ("a.test", "b.test")
    )
    assert (a.rests_until, a.next_at) == (70.0, 70.0)
    assert (b.rests_until, b.next_at) == (90.0, 90.0)


def test_an_errand_is_answered_to_the_shard_that_has_the_host_that_asked() -> None:
    asker = Asker(1, hash8("asks.test"), True, 7)
    waiting = host_row("asked.test", errands=(Errand("https://asked.test/r", (asker,)),))
    made = divided(small({0: dict([waiting]), 1: dict([host_row("asks.test")])}), 64)
    shard = partition_of("asked.test", 64)
    record = decode_visit(made[shard].get(waiting[0]) or b"")
    assert record.errands[0].askers[0].partition == partition_of("asks.test", 64)


def test_a_demand_is_answered_to_the_shard_that_has_the_page() -> None:
    url = hash8("asked.test") + b"url-0001"
    pages = (WantingPage(1, hash8("asks.test"), b"page8"), WantingPage(0, b"unknown8", b"page8"))
    row = DemandRow("https://asked.test/r.js", "script", "https://asks.test/", pages)
    rows = dict([host_row("asked.test")])
    rows[demand_key(url[:8], url[8:])] = encode_record(row)
    rows[demand_key(url[:8])] = count = encode_record([20_000, {b"site8": 3}])
    rows |= {render_key(url): b"render", story_key(url): b"story", outcome_key(url): b"last"}
    made = divided(small({0: rows, 1: dict([host_row("asks.test")])}), 64)
    table = made[partition_of("asked.test", 64)]
    moved = decode_demand(table.get(demand_key(url[:8], url[8:])) or b"")
    assert [page.partition for page in moved.pages] == [partition_of("asks.test", 64), 0]
    assert table.get(demand_key(url[:8])) == count
    for key in (render_key(url), story_key(url), outcome_key(url)):
        assert table.get(key) == rows[key]


def test_an_import_keeps_what_pages_wait_for(tmp_path: Path) -> None:
    """Three workers die while pages wait, with wants and answers in their outboxes."""
    crawl, _ = scripted_crawl(tmp_path / "one", web_of(6), settings())
    crawl.open_table, image = OPENER, tmp_path / "image"
    dying = Dying(copied(crawl, image), random.Random(1), 660)
    with pytest.raises(Crash):
        run_workers(crawl, 3, sites(6), dying, meanwhile=Everywhere().begin)
    state = gather_folder(image, tmp_path / "work", OPENER, lambda number: None)
    asyncio.run(drain_parcels(state))
    folders = sorted((state.folder / "state").glob("p*"))
    old: Tables = {number: OPENER(folder) for number, folder in enumerate(folders)}
    open_before = wants_are_kept(old)
    made = divided(old, 16)
    assert wants_are_kept(made) == open_before > 0
    waiting = [key for table in made.values() for key, _ in table.scan(b"v", prefix_end(b"v"))]
    assert waiting
    for table in old.values():
        table.close()


def test_dead_letters_are_numbered_anew_and_decisions_follow_them() -> None:
    rows = dict([host_row("a.test"), host_row("b.test")])
    urls = [hash8("a.test") + b"url-0001", hash8("b.test") + b"url-0002"]
    for number, url in enumerate([*urls, urls[1]], 1):
        rows[dead_letter_key(number)] = encode_record([url, number, Reason.DNS_FAILED, "", 3])
    decision = DecidedDeadLetter(DeadLetterAction.DROP, "me", 5, 3)
    rows[decision_key(urls[1][:8], urls[1][8:])] = encode_record([decision])
    shards = 16
    table = divided(small({0: rows}), shards)[partition_of("b.test", shards)]
    letters = [(key, msgspec.msgpack.decode(row)[1]) for key, row in table.scan(b"Z", b"[")]
    assert letters == [(dead_letter_key(1), 2), (dead_letter_key(2), 3)]
    assert msgspec.msgpack.decode(table.get(meta_key("dead_letters")) or b"") == 2
    assert decisions_of(table.get, urls[1]) == [msgspec.structs.replace(decision, number=2)]


def test_refetch_policies_are_applied_to_all_records_again() -> None:
    """Records of two partitions come together, and one of them may be ahead of the other."""
    done, middle = WalkRow(b"12345678", is_done=True), WalkRow(b"12345678", b"a" * 16)
    rows = {n: {WALK_KEY: encode_record(row)} for n, row in enumerate((done, middle))}
    for row in divided(small(rows), 4).values():
        left = walk_row(row.get)
        assert (left.is_done, left.at) == (False, b"")
    for row in divided(small({0: {}, 1: {}}), 4).values():
        assert walk_row(row.get).is_done


def test_what_is_known_of_signals_listings_and_keys_goes_with_the_host() -> None:
    host8 = hash8("a.test")
    rows = dict([host_row("a.test", signals={1: SourceTruth(1500, 100)}), host_row("b.test")])
    keys = announced_key(host8 + b"page0001"), listing_key(host8, b"map00001"), indexnow_key(host8)
    rows |= dict.fromkeys(keys, encode_record([]))
    made = divided(small({0: rows}), 64)
    table = made[partition_of("a.test", 64)]
    assert all(table.get(key) is not None for key in keys)
    assert decode_visit(table.get(host_key(host8)) or b"").signals == {1: SourceTruth(1500, 100)}
    others = [each for each in made.values() if each is not table]
    assert not any(each.get(key) for each in others for key in keys)


def test_a_sitemap_without_a_record_is_known_to_every_shard_that_may_own_it() -> None:
    rows = {sitemap_key(b"sitemap1"): encode_record(["a.test"])}
    made = divided(small({1: rows}), 6)
    there = [number for number, table in made.items() if table.get(sitemap_key(b"sitemap1"))]
    assert there == [1, 3, 5]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (b"?new", "does not know"),
        (meta_key("new"), "does not know"),
        (b"O" + bytes(4) + bytes(8), "parcels that were not taken"),
        (b"Q" + bytes(8) + bytes(7), "no visit state"),
        (front_key(0, 0), "no visit state|does not name"),
    ],
)
def test_what_cannot_be_divided_stops_it(row: bytes, told: str) -> None:
    with pytest.raises(StateDamaged, match=told):
        divided(small({0: {row: bytes(8)}}), 2)


def test_a_missing_record_stops_it(tables: Tables) -> None:
    lacking: Tables = {}
    for number, table in tables.items():
        lacking[number] = MemoryKeyValue()
        lacking[number].write(dict(table.scan(b"", b"\xff")))
    lost = next(iter(urls_in(lacking)))
    for table in lacking.values():
        table.write({lost: None})
    with pytest.raises(StateDamaged, match="were discovered"):
        divided(lacking, 2)


# -- content-seen


class Point:
    """A table without commits."""

    def __init__(self, table: KeyValue) -> None:
        self._table = table
        self.get = table.get

    def put(self, key: bytes, value: bytes) -> None:
        self._table.write({key: value})


def pages(count: int) -> Sequence[Fingerprint]:
    """Pages of which many are alike."""
    chance, found = random.Random(7), []
    for number in range(count):
        simhash = chance.getrandbits(64)
        if found and number % 3:
            simhash = chance.choice(found).simhash ^ (1 << chance.randrange(64))
        found.append(Fingerprint(simhash, Original(f"http://h{number}.test/", number + 1)))
    return found


def similar(judge: NearJudge, page: Fingerprint) -> set[str]:
    """The earlier pages that the owners of a page's buckets find."""
    probe = msgspec.structs.replace(page, original=Original("http://probe.test/", 10**9))
    found = judge.find_earlier(probe)
    return {found.url} if found else set()


def test_similar_pages_are_found_again_in_a_cluster_with_more_shards() -> None:
    known = pages(200)
    before: Tables = {number: MemoryKeyValue() for number in range(4)}
    judge = NearJudge(4, {number: Point(table) for number, table in before.items()})
    for page in known:
        for partition in judge.owners_of(page.simhash):
            judge.judge_fingerprint(partition, page)
    for shards in (8, 6):
        made = divided(before, shards, was_on_machine=False)
        again = NearJudge(shards, {number: Point(table) for number, table in made.items()})
        assert all(similar(again, page) == similar(judge, page) for page in known)


def test_pages_of_one_machine_are_found_by_the_owners_of_their_buckets() -> None:
    known = pages(200)
    before: Tables = {number: MemoryKeyValue() for number in range(4)}
    owner: Callable[[bytes], Point] = lambda key: Point(before[int.from_bytes(key[-2:]) % 4])  # noqa: E731
    index = NearIndex(owner)
    for page in known:
        index.remember_capture(page.simhash, page.original)
    made = divided(before, 6)
    judge = NearJudge(6, {number: Point(table) for number, table in made.items()})
    for page in known:
        assert similar(judge, page)
    rows = {key for table in made.values() for key, _ in table.scan(b"S", prefix_end(b"S"))}
    assert rows == {key for table in before.values() for key, _ in table.scan(b"S", b"T")}


def test_shares_add_up() -> None:
    assert divided_total([3, 5, 0], 8) == [3, 5, 0]
    assert divided_total([3, 5, 0], 10) == [3, 7, 0]
    assert divided_total([3, 5, 0], 4) == [1, 3, 0]
    assert divided_total([0, 0], 3) == [3, 0]


def test_waiting_hosts_of_an_address_stay_in_its_line() -> None:
    rows = dict([host_row("a.test", waiting=1, front=(2, 9), line="10.0.0.1")])
    rows[waiting_key("10.0.0.1", 2, 9)] = hash8("a.test")
    table = divided(small({0: rows}), 1)[0]
    assert table.get(waiting_key("10.0.0.1", 2, 0)) == hash8("a.test")
    ranges = msgspec.msgpack.decode(table.get(b"w10.0.0.1") or b"")
    assert ranges[2] == [0, 1, 1]


def test_what_a_host_learned_of_near_copies_goes_with_it(tables: Tables) -> None:
    def learned(of: Tables) -> dict[str, object]:
        records = [
            decode_visit(value) for each in of.values() for _, value in each.scan(b"H", b"I")
        ]
        return {each.host: each.copies for each in records if each.copies is not None}

    number, host8 = next(
        (number, key[1:])
        for number, table in tables.items()
        for key, value in table.scan(b"H", b"I")
        if decode_visit(value).copies is not None
    )
    tables[number].write({form_key(host8, b"the form"): b"an url 8"})
    made = divided(tables, 8)
    assert learned(made) == learned(tables)
    kept = [table.get(form_key(host8, b"the form")) for table in made.values()]
    assert sorted(each for each in kept if each) == [b"an url 8"]
    assert any(
        table.get(host_key(host8)) and table.get(form_key(host8, b"the form"))
        for table in made.values()
    )


def test_every_kind_of_row_and_every_counter_has_a_rule() -> None:
    table = (table_records.__doc__ or "").split("====\n")[1]
    kinds = set(re.findall(r"``([A-Za-z])(?: |``)", table))
    assert len(kinds) > 25
    ruled = {prefix.decode() for prefix in (*division._MOVERS, *division._ROUTES)}
    assert kinds <= ruled | set(division._MADE_AGAIN.decode())
    # a new one must be recounted, or divided, in ``reshard.counting``
    assert set(Counters.__struct_fields__) == {
        *("discovered", "states", "captures", "pages", "requests", "body_bytes", "rule_refusals"),
        *("reasons", "hosts", "hosts_parked", "hosts_retired", "hosts_asleep", "asked", "asking"),
        *("hosts_paused", "leased", "stated", "cells", "due", "refetched", "validators", "items"),
        *("set_back", "cold", "renders", "rendered", "wanted"),
    }
