"""The body of every capture is found where its URL's record says, by one read: of a page that was
stored elsewhere before, and of one that its server called unchanged; in a folder, on a cluster.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from joined_view import JoinedView
from judging import quick_config
from lycosa.base.calls import Call, CallReply, ContentFound, ContentQuery
from lycosa.base.config.sections import FrontierSection, RefetchRule, RefetchSection, StoreSection
from lycosa.base.messages.coordinator_messages import ClusterStatus
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.ports import Parser
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.serve.caller import CoordinatorPlace
from lycosa.inspect.audit.crawl_audit import AuditedCrawl, audit_crawl
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.places import PartitionFinder
from lycosa.service.api.service import CrawlService
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.table_records import decode_url, encode_url, prefix_end
from lycosa.state.shard.view import CrawlView
from lycosa.state.store import layout
from lycosa.state.store.journal_rows import JournalRow
from object_cluster import ObjectCluster
from revisited_site import (
    DAYS_30,
    SAME,
    SHARDS,
    Answerer,
    Site,
    all_bodies_are_found,
    done,
    history_of,
    in_folder,
)
from scripted import scripted_crawl

ADAPTIVE = RefetchSection(rule=RefetchRule.ADAPTIVE)
SEGMENTS = StoreSection(commit_s=1.0, segment_age_s=10.0)
"""Segments of a few captures, so that a body is hardly ever in the segment of its revisit."""


def as_an_older_program_left_it(table: KeyValue) -> None:
    """The rows without the fields that say where a body is."""
    writes: dict[bytes, bytes | None] = {}
    for key, value in table.scan(b"C", prefix_end(b"C")):
        row = msgspec.msgpack.decode(value)
        assert len(row) == 5, "a row without a place"
        writes[key] = msgspec.msgpack.encode(row[:3])
    for key, value in table.scan(b"U", prefix_end(b"U")):
        record = decode_url(value)
        if record.history is not None:
            record.history = msgspec.structs.replace(record.history, body_segment="", body_offset=0)
            writes[key] = encode_url(record)
    table.write(writes)


@contextmanager
def owners(cluster: ObjectCluster) -> Iterator[dict[int, CrawlView]]:
    """What each shard's owner sees, and only that."""
    views = [cluster.view(shard) for shard in range(SHARDS)]
    opened: dict[int, CrawlView] = {n: each.__enter__() for n, each in enumerate(views)}
    try:
        yield opened
    finally:
        for each in views:
            each.__exit__(None, None, None)


def kinds_of(rows: Iterable[JournalRow], url: str) -> list[str]:
    return [row.revisit for row in rows if row.url == url]


def is_clean(view: CrawlView) -> None:
    report = audit_crawl(AuditedCrawl(view, is_running=False))
    assert report.is_clean, report.first_breaches()
    notes = [note for check in report.checks for note in check.notes]
    assert not [note for note in notes if "were not parsed" in note], notes


IDENTICAL, UNCHANGED = "identical-payload-digest", "server-not-modified"
KINDS = [IDENTICAL, UNCHANGED, UNCHANGED]


def test_every_body_is_found_in_a_folder(tmp_path: Path) -> None:
    site = Site(tmp_path)
    config = quick_config(
        frontier=FrontierSection(partitions=SHARDS), store=SEGMENTS, refetch=ADAPTIVE
    )
    crawl, _ = scripted_crawl(tmp_path / "c", site.answers, config)
    for number, wanted in enumerate(site.wanted):
        crawl.run(site.seeds if not number else [])
        views = in_folder(tmp_path / "c")
        all_bodies_are_found(views, wanted)
        is_clean(views[0])
        crawl.now += DAYS_30
    rows = [row for each in views[0].list_segments() for row in views[0].read_rows(each)]
    assert [kinds_of(rows, url) for url in site.copies] == [KINDS, KINDS]
    # the rows of the journal say it too
    for row in rows:
        assert bool(row.revisit) == bool(row.body_offset), row
        if row.revisit:
            read = views[0].read_record(row.body_segment or row.segment, row.body_offset)
            assert row.original is not None
            assert read.fields["WARC-Record-ID"] == f"<{row.original.record_id}>"


def test_every_body_is_found_by_the_owner_of_its_url(tmp_path: Path) -> None:
    """On a cluster: no owner reads another one's tables; segments are open, and closed later."""
    site = Site(tmp_path, slow_s=25.0)
    store = StoreSection(commit_s=1.0)
    cluster = ObjectCluster(tmp_path / "c", site.answers, SHARDS, store=store, refetch=ADAPTIVE)
    looks = 0

    def look(cluster: ObjectCluster) -> None:
        nonlocal looks
        with owners(cluster) as views:
            all_bodies_are_found(views, site.wanted[looks])
            for url in site.copies:
                history = history_of(views, url)
                own, body = (
                    layout.stem_of(each) for each in (history.segment, history.body_segment)
                )
                listed = {
                    each.name: each for view in views.values() for each in view.list_segments()
                }
                assert not listed[own].is_closed
                # in the first run, the segment of the body is open too
                assert listed[body].is_closed == (looks > 0)
            looks += 1

    for number, wanted in enumerate(site.wanted):
        cluster.run(site.seeds if not number else [], look_at_s=20.0, look=look)
        with owners(cluster) as views:
            all_bodies_are_found(views, wanted)
            segments = [each for view in views.values() for each in view.list_segments()]
            assert all(each.is_closed for each in segments)
            joined = JoinedView(views[0].seen.origin, list(views.values()))
            is_clean(joined)
            for url in site.copies:
                history = history_of(views, url)
                assert layout.segment_worker(layout.stem_of(history.body_segment)) == 0
                assert layout.segment_worker(layout.stem_of(history.segment)) > 0
        cluster.crawl.now += DAYS_30
    rows = [row for each in joined.list_segments() for row in joined.read_rows(each)]
    assert looks == 3
    assert [kinds_of(rows, url) for url in site.copies] == [KINDS, KINDS]
    assert kinds_of(rows, site.first) == ["", UNCHANGED, ""]


def test_a_body_that_an_older_program_stored_is_asked_of_the_owner_of_its_original(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path)
    cluster = ObjectCluster(tmp_path / "c", site.answers, SHARDS, store=SEGMENTS, refetch=ADAPTIVE)
    cluster.run(site.seeds)
    cluster.crawl.now += 60.0
    found: list[int] = []

    def look(cluster: ObjectCluster) -> None:
        with owners(cluster) as views:
            answerer = Answerer(views)
            for url, text in site.wanted[0].items():
                body, about, reads = answerer.content(url)
                assert (text in body, about["reason"], about["url"]) == (True, "", url), about
                found.append(reads)
            without = done(answerer.ask(ContentQuery(site.copies[0])))
            assert without.body == b"" and "refers_to" in json.loads(without.about)

    for _ in range(2):  # the second time after 304s to what an older program stored
        cluster.run(
            ["http://new.example/"],
            change=as_an_older_program_left_it if not found else lambda table: None,
        )
        look(cluster)
        cluster.crawl.now += DAYS_30
    assert sorted(found[: len(site.wanted[0])]) == [2, 2, 2, 4, 4]
    # Then the URL of the original has other content. The place that a new program noted at the
    # 304 of the original's own URL does not help its copies, and they say so.
    cluster.run()
    with owners(cluster) as views:
        body, about, _ = Answerer(views).content(site.copies[0])
        assert body == "" and about["reason"].startswith("the body is that of an earlier capture")


class Called:
    """A crawl whose owners answer the service: a ``CoordinatedCrawl``."""

    coordinator, credentials = CoordinatorPlace("x", (), ""), Credentials()

    def __init__(self, cluster: ObjectCluster, answerer: Answerer) -> None:
        self.addressing = PartitionFinder(cluster.config, cluster.sites)
        self._answerer = answerer

    def follow(self, status: ClusterStatus) -> None: ...

    def shard_of(self, partition: int) -> int:
        return partition

    async def call_owner(self, partition: int, call: Call) -> CallReply:
        assert isinstance(call, ContentQuery)
        return self._answerer.reply(partition, call)

    async def close(self) -> None: ...


def test_the_service_asks_the_owner_of_the_original_too(tmp_path: Path) -> None:
    site = Site(tmp_path)
    cluster = ObjectCluster(tmp_path / "c", site.answers, SHARDS, store=SEGMENTS, refetch=ADAPTIVE)
    cluster.run(site.seeds)
    cluster.run(["http://new.example/"], change=as_an_older_program_left_it)
    with owners(cluster) as views:
        url, answerer = site.copies[0], Answerer(views)

        async def asked() -> list[ContentFound]:
            service = CrawlService(Called(cluster, answerer), ApiLimits())
            by_hash = (hash8(host_of(url)) + hash8(url)).hex()
            pieces = [ContentQuery(url), ContentQuery(by_hash), ContentQuery(url, offset=5)]
            return [await service.content(each) for each in pieces]

        found = asyncio.run(asked())
    about = [json.loads(each.about) for each in found]
    whole = found[0].body
    assert SAME.encode() in whole
    assert [each.body for each in found] == [whole, whole, whole[5:]]
    assert {each["url"] for each in about} == {url}
    assert {each["reason"] for each in about} == {""}
    assert not any("refers_to" in each for each in about)


def test_a_folder_of_an_older_program_is_read_and_goes_on(tmp_path: Path) -> None:
    site = Site(tmp_path)
    config = quick_config(
        frontier=FrontierSection(partitions=SHARDS), store=SEGMENTS, refetch=ADAPTIVE
    )
    crawl, _ = scripted_crawl(tmp_path / "c", site.answers, config)
    crawl.run(site.seeds)
    for number in range(SHARDS):
        table = crawl.open_table(tmp_path / "c" / "state" / f"p{number:03d}")
        as_an_older_program_left_it(table)
    for wanted in site.wanted:
        answerer = Answerer(in_folder(tmp_path / "c"))
        for url, text in wanted.items():
            body, about, _ = answerer.content(url)
            assert (text in body, about["reason"]) == (True, ""), (url, about)
        crawl.now += DAYS_30
        crawl.run()


class FailingParser:
    """Does not parse what is at ``urls``, as when a machine has no parser."""

    def __init__(self, inner: Parser, urls: Collection[str]) -> None:
        self._inner, self._urls = inner, urls
        self.health, self.close = inner.health, inner.close
        self.judge_scripts = inner.judge_scripts

    async def parse(self, document: ParseInput) -> Parsed:
        if document.url in self._urls:
            return Parsed(Reason.INTERNAL, "injected")
        return await self._inner.parse(document)


def test_a_body_of_another_shard_is_parsed_without_another_request(tmp_path: Path) -> None:
    site = Site(tmp_path)
    cluster = ObjectCluster(tmp_path / "c", site.answers, SHARDS, store=SEGMENTS, refetch=ADAPTIVE)
    cluster.wrap_parser = lambda parser: FailingParser(parser, site.copies)
    cluster.run(site.seeds)

    def unparsed() -> int:
        return sum(
            len(list(shard.tables[n].scan(b"B", b"C"))) for n, shard in enumerate(cluster.shards)
        )

    assert unparsed() == len(site.copies)
    cluster.wrap_parser = lambda parser: parser
    cluster.run(["http://new.example/"])
    assert unparsed() == 0
    assert {cluster.web.asked[url] for url in site.copies} == {1}
