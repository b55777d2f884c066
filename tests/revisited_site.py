"""A site with copies of one body on several hosts and pages that stay as they are, and the answers
of owners about what is stored of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

from judging import SUFFIXES
from lycosa.base.calls import CallReply, ContentFound, ContentQuery
from lycosa.base.model.url_state import History
from lycosa.base.urls.identity import Sites, hash8, host_of, partition_of
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.queries.answering import StateAnswers
from lycosa.inspect.queries.time_budget import TimeBudget
from lycosa.service.api.referred_content import with_referred_body
from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.kv.table_records import decode_url, url_key
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.shard.view import CrawlView
from lycosa.state.store import layout
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.stored_data import StoredRecord
from lycosa.synthetic import Response
from scripted import Answer, page

DAYS_30 = 30 * 86400.0
SHARDS = 3
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

    @property
    def reads(self) -> int:
        return sum(view.read.total() for view in self._views.values())

    async def ask(self, asked: ContentQuery) -> ContentFound:
        reply = self.reply(CrawlReader(self._views[0]).partition_of(asked.url), asked)
        assert isinstance(reply, ContentFound), reply
        return reply

    def reply(self, partition: int, asked: ContentQuery) -> CallReply:
        """What the owner of a partition answers."""
        return self._answers.answer(self._views[partition], partition, asked, TimeBudget(5.0))

    def content(self, url: str, at: float = 0.0) -> tuple[str, dict[str, Any], int]:
        """The stored body of a URL, what is told of it, and how many records were read."""
        before, asked = self.reads, ContentQuery(url, at=at)

        async def answered() -> ContentFound:
            return await with_referred_body(asked, await self.ask(asked), self.ask)

        found = done(answered())
        return found.body.decode(), json.loads(found.about), self.reads - before


def all_bodies_are_found(views: Mapping[int, CrawlView], wanted: Mapping[str, str]) -> None:
    """Each by one read of one record, beside two that say what the site stated at the fetch."""
    answerer = Answerer(views)
    for url, text in wanted.items():
        body, about, reads = answerer.content(url)
        assert (text in body, about["reason"], about["url"]) == (True, "", url), (url, about)
        assert reads in (2, 3), (url, reads)


def history_of(views: Mapping[int, CrawlView], url: str) -> History:
    for view in views.values():
        for number in view.seen.partitions:
            value = view.open_table(number).get(url_key(hash8(host_of(url)), hash8(url)))
            if value is not None:
                history: History | None = decode_url(value).history
                assert history is not None
                return history
    raise AssertionError(f"{url} is not known")


def in_folder(folder: Path) -> dict[int, CrawlView]:
    view = FolderView(folder)
    return dict.fromkeys(view.seen.partitions, view)
