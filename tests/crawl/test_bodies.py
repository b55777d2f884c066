"""The body of every capture is found where its URL's record says, by one read: of a page that was
stored elsewhere before, and of one that its server called unchanged; in a folder, on a cluster.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from joined_view import JoinedView
from judging import SUFFIXES, quick_config
from lycosa.base.calls import ContentFound, ContentQuery
from lycosa.base.config.sections import FrontierSection, StoreSection
from lycosa.base.model.url_state import History
from lycosa.base.urls.identity import Sites, hash8, host_of, partition_of
from lycosa.inspect.audit.crawl_audit import AuditedCrawl, audit_crawl
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.queries.answering import StateAnswers
from lycosa.inspect.queries.time_budget import TimeBudget
from lycosa.service.api.referred_content import with_referred_body
from lycosa.state.kv.kv_port import KeyValue, SavedTable
from lycosa.state.kv.table_records import decode_url, encode_url, prefix_end, url_key
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.shard.view import CrawlView, ViewSummary
from lycosa.state.store import JournalRow, StoredRecord, StoredSegment, layout
from lycosa.synthetic import Response
from object_cluster import ObjectCluster
from scripted import Answer, page, scripted_crawl

DAYS_30 = 30 * 86400.0
SHARDS = 3
SEGMENTS = StoreSection(commit_s=1.0, segment_age_s=10.0)
"""Segments of a few captures, so that a body is hardly ever in the segment of its revisit."""
SAME, STILL, LATER = "the same everywhere", "never changes", "changed at the third time"


def hosts_of_all_partitions(folder: Path) -> list[str]:
    """A host of each partition."""
    path = folder / "of-hosts"
    path.write_text(SUFFIXES)
    sites, found = Sites(path), dict[int, str]()
    for number in range(200):
        name = f"h{number}.example"
        found.setdefault(partition_of(sites.site_of(name), SHARDS), f"http://{name}/")
    return [found[number] for number in range(SHARDS)]


def tagged(*texts: str) -> Answer:
    """A page with an entity tag, which is 304 while it has not changed; ``texts`` are its text in
    turn, the last one for ever.
    """

    def answer(earlier: int, headers: Mapping[str, str]) -> Response:
        text = texts[min(earlier, len(texts) - 1)]
        tag = f'"{hash8(text).hex()}"'
        if headers.get("if-none-match") == tag:
            return Response(304, [("ETag", tag)])
        return page(text=text, headers=[("ETag", tag)])

    return answer


class Site:
    """Pages of three hosts, each in a partition of its own. ``wanted`` are the texts of the pages
    after one, two and three rounds.
    """

    def __init__(self, folder: Path, slow_s: float = 0.0) -> None:
        a, b, c = hosts_of_all_partitions(folder)
        self.seeds = [a]
        self.answers: dict[str, Answer] = {
            # one after the other, so that each copy is fetched when the first one is committed
            a: page(f"{a}first", text="home"),
            f"{a}first": tagged(SAME, SAME, LATER),
            b: page(f"{b}copy", text="second home"),
            f"{b}copy": tagged(SAME),
            c: page(f"{c}copy", f"{c}still", f"{c}untagged", text="third home"),
            f"{c}copy": tagged(SAME),
            f"{c}still": tagged(STILL),
            f"{c}untagged": page(text="no validators"),
        }
        # what leads from host to host is found late
        self.answers[a] = page(f"{a}first", f"{a}to-b", text="home")
        self.answers[f"{a}to-b"] = page(f"{a}to-b2", text="on the way")
        self.answers[f"{a}to-b2"] = page(b, text="still on the way")
        self.answers[b] = page(f"{b}copy", f"{b}to-c", text="second home")
        self.answers[f"{b}to-c"] = page(c, text="on the way again")
        if slow_s:  # keeps the crawl from its end
            self.seeds.append("http://slow.example/")
            self.answers[self.seeds[-1]] = page(text="slow", latency_s=slow_s)
        pages = {f"{a}first": SAME, f"{b}copy": SAME, f"{c}copy": SAME, f"{c}still": STILL}
        pages[f"{c}untagged"] = "no validators"
        self.copies = [f"{b}copy", f"{c}copy"]
        self.wanted = [pages, pages, pages | {f"{a}first": LATER}]
        self.first = f"{a}first"


class CountedView:
    """A ``CrawlView`` that counts the records that are read."""

    def __init__(self, source: CrawlView) -> None:
        self._source, self.seen, self.read = source, source.seen, Counter[str]()
        self.open_table: Callable[[int], SavedTable] = source.open_table
        self.list_segments: Callable[[], list[StoredSegment]] = source.list_segments
        self.read_rows: Callable[..., Iterator[JournalRow]] = source.read_rows
        self.close = source.close

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        self.read[layout.stem_of(segment)] += 1
        return self._source.read_record(segment, offset)


def done(work: Coroutine[Any, Any, ContentFound]) -> ContentFound:
    """The result of what never waits, also within a running loop."""
    try:
        work.send(None)
    except StopIteration as ended:
        found: ContentFound = ended.value
        return found
    raise AssertionError("it waits")


class Answerer:
    """Owners that answer questions, each of one partition; ``views`` are theirs."""

    def __init__(self, views: Mapping[int, CrawlView]) -> None:
        self._views = {number: CountedView(view) for number, view in views.items()}
        self._answers = StateAnswers(lambda: 2e9)
        self.summary: ViewSummary = self._views[0].seen

    @property
    def reads(self) -> int:
        return sum(view.read.total() for view in self._views.values())

    async def ask(self, asked: ContentQuery) -> ContentFound:
        partition = CrawlReader(self._views[0]).partition_of(asked.url)
        reply = self._answers.answer(self._views[partition], partition, asked, TimeBudget(5.0))
        assert isinstance(reply, ContentFound), reply
        return reply

    def content(self, url: str, at: float = 0.0) -> tuple[str, dict[str, Any], int]:
        """The stored body of a URL, what is told of it, and how many records were read."""
        before, asked = self.reads, ContentQuery(url, at=at)

        async def answered() -> ContentFound:
            return await with_referred_body(asked, await self.ask(asked), self.ask)

        found = done(answered())
        return found.body.decode(), json.loads(found.about), self.reads - before


def all_bodies_are_found(views: Mapping[int, CrawlView], wanted: Mapping[str, str]) -> None:
    """By one read of one record each."""
    answerer = Answerer(views)
    for url, text in wanted.items():
        body, about, reads = answerer.content(url)
        assert (text in body, about["reason"], about["url"]) == (True, "", url), (url, about)
        assert reads == 1, (url, reads)


def history_of(views: Mapping[int, CrawlView], url: str) -> History:
    for view in views.values():
        for number in view.seen.partitions:
            value = view.open_table(number).get(url_key(hash8(host_of(url)), hash8(url)))
            if value is not None:
                history: History | None = decode_url(value).history
                assert history is not None
                return history
    raise AssertionError(f"{url} is not known")


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


def in_folder(folder: Path) -> dict[int, CrawlView]:
    view = FolderView(folder)
    return dict.fromkeys(view.seen.partitions, view)


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
    config = quick_config(frontier=FrontierSection(partitions=SHARDS), store=SEGMENTS)
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
    cluster = ObjectCluster(tmp_path / "c", site.answers, SHARDS, store=store)
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
    cluster = ObjectCluster(tmp_path / "c", site.answers, SHARDS, store=SEGMENTS)
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
    assert sorted(found[: len(site.wanted[0])]) == [1, 1, 1, 2, 2]
    # Then the URL of the original has other content. The place that a new program noted at the
    # 304 of the original's own URL does not help its copies, and they say so.
    cluster.run()
    with owners(cluster) as views:
        body, about, _ = Answerer(views).content(site.copies[0])
        assert body == "" and about["reason"].startswith("the body is that of an earlier capture")


def test_a_folder_of_an_older_program_is_read_and_goes_on(tmp_path: Path) -> None:
    site = Site(tmp_path)
    config = quick_config(frontier=FrontierSection(partitions=SHARDS), store=SEGMENTS)
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
