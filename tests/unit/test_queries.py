"""Questions about a partition: what is found, how lists go on, and that a budget ends the search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lycosa.base.calls import (
    Call,
    CallRefusal,
    CallReply,
    CapturesQuery,
    CountsQuery,
    DeadLettersQuery,
    Found,
    HostQuery,
    HostsQuery,
    HostUrlsQuery,
    StateQuestion,
    UrlQuery,
)
from lycosa.base.config.sections import Config, FrontierSection
from lycosa.base.messages.coordinator_messages import ClusterStatus
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Sites, hash8, reversed_host
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.serve.caller import CoordinatorPlace
from lycosa.inspect.committed_state import CrawlReader, read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.queries.answering import StateAnswers, answer_question
from lycosa.inspect.queries.dead_letter_queries import DeadLetterLister
from lycosa.inspect.queries.time_budget import TimeBudget
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.places import PartitionFinder
from lycosa.service.api.service import CrawlService
from lycosa.stages.frontier.dead_letters import DeadLetterRecord
from lycosa.stages.frontier.visit_state import HostPause, HostState
from lycosa.state.kv.table_records import dead_letter_key, encode_record, host_name_key, meta_key
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.store.derived_files import CDXJ
from written_crawl import WALL, WrittenCrawl, host_write, url_write

HOSTS = ["www.example.org", "example.org", "a.example.org:8080", "example.com", "10.0.0.1"]


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[WrittenCrawl]:
    made = WrittenCrawl(tmp_path / "crawl", partitions=1)
    for waiting, host in enumerate(HOSTS):
        made.commit(host_write(host, waiting=waiting, errors=5 - waiting))
    yield made
    made.close()


def indexed(host: str) -> dict[bytes, bytes | None]:
    return {host_name_key(reversed_host(host)): hash8(host)}


def ask(crawl: WrittenCrawl, question: StateQuestion, seconds: float = 10.0) -> Found:
    reply = answer_question(FolderView(crawl.folder), 0, question, seconds)
    assert isinstance(reply, Found), reply
    return reply


def rows(found: Found) -> list[dict[str, Any]]:
    return list(json.loads(found.rows))


def names(found: Found) -> list[str]:
    return [row["host"] for row in rows(found)]


def all_names(crawl: WrittenCrawl, **query: Any) -> list[str]:
    """The hosts of a list that is read in pieces of two."""
    found, after = list[str](), ""
    while True:
        piece = ask(crawl, HostsQuery(**query, after=after, most=2))
        marks = [row["cursor"] for row in rows(piece)]
        assert marks == sorted(marks) == [row["order"] for row in rows(piece)]
        found += names(piece)
        if not piece.cursor:
            return found
        after = piece.cursor


def index_all(crawl: WrittenCrawl) -> None:
    for host in HOSTS:
        crawl.commit(indexed(host))
    crawl.commit({meta_key("host_names"): encode_record(b"")})


BY_NAME = ["10.0.0.1", "example.com", "example.org", "a.example.org:8080", "www.example.org"]


def test_hosts_are_listed_by_their_reversed_names(crawl: WrittenCrawl) -> None:
    index_all(crawl)
    assert all_names(crawl) == BY_NAME


def test_hosts_whose_names_are_not_indexed_follow_the_others(crawl: WrittenCrawl) -> None:
    assert sorted(all_names(crawl)) == sorted(HOSTS)
    crawl.commit(indexed("www.example.org"))
    found = all_names(crawl)
    assert found[0] == "www.example.org"
    assert sorted(found) == sorted(HOSTS)


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_search_finds_a_domain_or_a_part_of_a_name(crawl: WrittenCrawl, is_indexed: bool) -> None:
    if is_indexed:
        index_all(crawl)
    of_domain = {"example.org", "a.example.org:8080", "www.example.org"}
    assert set(all_names(crawl, search=".example.org")) == of_domain
    assert set(all_names(crawl, search="Example.org")) == of_domain
    assert set(all_names(crawl, search="w.example.or")) == {"www.example.org"}
    assert set(all_names(crawl, search="example")) == of_domain | {"example.com"}
    assert set(all_names(crawl, search="*ple.com")) == {"example.com"}
    assert all_names(crawl, search="ple.com") == all_names(crawl, search="nothing") == []


def test_orders_begin_with_the_greatest_and_can_be_cut_anywhere(crawl: WrittenCrawl) -> None:
    assert all_names(crawl, sort="queue") == HOSTS[::-1]
    assert all_names(crawl, sort="errors") == HOSTS
    assert all_names(crawl, sort="errors", search="org") == HOSTS[:3]
    crawl.commit(host_write("example.com", HostState.RETIRED, waiting=9))
    assert all_names(crawl, sort="queue", state="retired") == ["example.com"]
    assert all_names(crawl, state="retired") == ["example.com"]


def test_a_host_that_an_operator_paused_is_shown_as_paused(crawl: WrittenCrawl) -> None:
    pause = HostPause("ada", 1_000_000)
    crawl.commit(host_write("example.com", waiting=9, pause=pause))
    crawl.commit(url_write("http://example.com/page", UrlState.QUEUED))
    crawl.commit(host_write("example.org", HostState.PARKED, waiting=9, pause=pause))
    crawl.commit(host_write("10.0.0.1", HostState.RETIRED, waiting=9, pause=pause))
    for query in ({"sort": "name"}, {"sort": "queue"}, {"sort": "queue", "search": "example"}):
        assert sorted(all_names(crawl, state="paused", **query)) == ["example.com", "example.org"]
        shown = {row["host"]: row["state"] for row in rows(ask(crawl, HostsQuery(**query)))}
        assert shown["example.com"] == shown["example.org"] == "paused"
        assert "example.com" not in all_names(crawl, state="ready", **query)
    assert all_names(crawl, state="parked") == []
    assert all_names(crawl, state="retired") == ["10.0.0.1"]
    assert rows(ask(crawl, HostQuery("example.com")))[0]["state"] == "paused"
    reader = read_folder(crawl.folder)
    found = explain(reader, load_saved_settings(reader), "http://example.com/page", 2.0)
    assert found.to_json()["facts"]["host_state"] == "paused"
    status = crawl_status(reader, load_saved_settings(reader), 2.0)
    assert status.hosts_by_state == {"paused": 2, "ready": 2, "retired": 1}
    assert "paused" in {line.state for line in status.hosts}


def test_an_unknown_order_or_state_is_refused_with_the_known_ones(crawl: WrittenCrawl) -> None:
    for question in (HostsQuery(sort="size"), HostsQuery(state="gone")):
        reply = answer_question(FolderView(crawl.folder), 0, question)
        assert isinstance(reply, CallRefusal)
        assert "queue" in reply.reason or "retired" in reply.reason


def test_a_search_that_runs_out_of_time_continues_where_it_ended(crawl: WrittenCrawl) -> None:
    for number in range(200):
        host = f"h{number:03d}.example.net"
        crawl.commit(host_write(host) | indexed(host))
    crawl.commit({meta_key("host_names"): encode_record(b"")})
    found, after, pieces = list[str](), "", 0
    while True:
        piece = ask(crawl, HostsQuery(search="h19", after=after, most=100), 0.0)
        found += names(piece)
        pieces += 1
        if not piece.is_partial:
            break
        assert piece.cursor > after
        after = piece.cursor
    assert found == [f"h{number}.example.net" for number in range(190, 200)]
    assert pieces > 5


def test_orders_that_are_kept_ready_are_reported_as_partial_until_all_hosts_were_read(
    crawl: WrittenCrawl,
) -> None:
    answers = StateAnswers(is_kept_ready=True, now=lambda: 50.0)
    for number in range(100):
        crawl.commit(host_write(f"h{number}.example.net"))
    view = FolderView(crawl.folder)
    first = answers.answer(view, 0, HostsQuery(sort="queue"), TimeBudget(10.0))
    assert isinstance(first, Found)
    while answers.unread():
        answers.read_orders(view, 0, TimeBudget(0.0))
    last = answers.answer(view, 0, HostsQuery(sort="queue", most=3), TimeBudget(10.0))
    assert isinstance(last, Found)
    assert (last.is_partial, last.ordered_at) == (False, 50.0)
    assert names(last) == HOSTS[:1:-1]


def test_one_host_has_its_delay_with_all_sources_and_its_robots_file(crawl: WrittenCrawl) -> None:
    found = rows(ask(crawl, HostQuery("Example.com")))[0]
    assert found["host"] == "example.com"
    assert [each["source"] for each in found["delay"]["sources"]] == [
        "floor",
        "crawl-delay",
        "adaptive",
        "retry-after",
        "backoff",
    ]
    assert found["waiting"] == 3
    assert rows(ask(crawl, HostQuery("unknown.example"))) == []


def test_a_url_is_found_by_spelling_id_and_hash(crawl: WrittenCrawl) -> None:
    url = "https://example.com/page"
    crawl.commit(url_write(url, UrlState.FAILED, Reason.CONNECT_REFUSED))
    by_url = rows(ask(crawl, UrlQuery("https://example.com/x/../page")))[0]
    assert (by_url["verdict"], by_url["record"]["state"]) == ("failed", "failed")
    for asked in (by_url["record"]["id"], by_url["url_hash"]):
        assert rows(ask(crawl, UrlQuery(asked)))[0]["url"] == url
    assert rows(ask(crawl, UrlQuery("0" * 16))) == []
    assert rows(ask(crawl, UrlQuery("0" * 32))) == []
    never = rows(ask(crawl, UrlQuery("https://example.com/never")))[0]
    assert (never["verdict"], "record" in never) == ("refused_by_scope", False)
    assert rows(ask(crawl, UrlQuery("ftp://x/")))[0]["verdict"] == "not_a_url"


def test_the_urls_of_a_host_are_listed_in_pieces_and_by_state(crawl: WrittenCrawl) -> None:
    for number in range(5):
        state = UrlState.FETCHED if number == 3 else UrlState.QUEUED
        crawl.commit(url_write(f"https://example.com/{number}", state))
    found, after = list[str](), ""
    while True:
        piece = ask(crawl, HostUrlsQuery("example.com", after=after, most=2))
        found += [row["url"] for row in rows(piece)]
        after = piece.cursor
        if not after:
            break
    assert sorted(found) == [f"https://example.com/{number}" for number in range(5)]
    fetched = rows(ask(crawl, HostUrlsQuery("example.com", "fetched")))
    assert [row["url"] for row in fetched] == ["https://example.com/3"]


def test_dead_letters_are_listed_newest_first_without_those_that_were_queued_again(
    crawl: WrittenCrawl,
) -> None:
    for number in range(1, 6):
        url = f"https://example.com/{number}"
        state = UrlState.QUEUED if number == 2 else UrlState.FAILED
        reason = Reason.DNS_FAILED if number == 4 else Reason.CONNECT_REFUSED
        row = DeadLetterRecord(hash8("example.com") + hash8(url), number * 1_000_000, reason, "", 3)
        crawl.commit(
            url_write(url, state, reason),
            {
                dead_letter_key(number): encode_record(row),
                meta_key("dead_letters"): encode_record(number),
            },
        )
    first = ask(crawl, DeadLettersQuery(most=2))
    assert [row["number"] for row in rows(first)] == [5, 4]
    rest = ask(crawl, DeadLettersQuery(after=first.cursor))
    assert [row["number"] for row in rows(rest)] == [3, 1]
    of_reason = ask(crawl, DeadLettersQuery(reason=Reason.DNS_FAILED.label))
    assert [row["number"] for row in rows(of_reason)] == [4]
    assert rows(ask(crawl, DeadLettersQuery(host="example.org"))) == []


def test_a_search_for_dead_letters_goes_on_behind_those_that_are_not_meant(
    crawl: WrittenCrawl,
) -> None:
    for number in range(1, 4):
        url = hash8("example.com") + hash8(f"https://example.com/{number}")
        row = DeadLetterRecord(url, number * 1_000_000, Reason.CONNECT_REFUSED, "", 3)
        crawl.commit(
            {
                dead_letter_key(number): encode_record(row),
                meta_key("dead_letters"): encode_record(number),
            }
        )
    with CrawlReader(FolderView(crawl.folder)).partition_view(0) as view:
        lister = DeadLetterLister(view, DeadLettersQuery(reason=Reason.DNS_FAILED.label))
        assert list(lister.letters()) == []
    assert int(lister.position[-12:], 16) == 1


def test_a_piece_of_dead_letters_does_not_read_those_of_the_pieces_before(
    crawl: WrittenCrawl,
) -> None:
    number = 1000
    writes = {meta_key("dead_letters"): encode_record(number)}
    for each in range(1, number + 1):
        url = f"https://example.com/{each}"
        row = DeadLetterRecord(
            hash8("example.com") + hash8(url), each * 1_000_000, Reason.CONNECT_REFUSED, "", 3
        )
        writes[dead_letter_key(each)] = encode_record(row)
        writes.update(url_write(url, UrlState.FAILED, Reason.CONNECT_REFUSED))
    crawl.commit(writes)
    whole = rows(ask(crawl, DeadLettersQuery(most=number)))
    with CrawlReader(FolderView(crawl.folder)).partition_view(0) as view:
        # two cursors of this partition, and one of another
        for begin, partition in ((10, 0), (900, 0), (500, 7)):
            cursor = whole[begin - 1]["cursor"]
            cursor = f"{cursor[:16]}{partition:06x}{cursor[22:]}"
            lister = DeadLetterLister(view, DeadLettersQuery(after=cursor))
            assert [each["number"] for each in lister.letters()] == [
                row["number"] for row in whole[begin:]
            ]
            lister = DeadLetterLister(view, DeadLettersQuery(after=cursor))
            assert next(lister.read_dead_letters())[0] <= whole[begin]["number"] + 64


def test_counts_have_the_names_of_the_status(crawl: WrittenCrawl) -> None:
    found = rows(ask(crawl, CountsQuery()))[0]
    assert found["states"]["queued"] == 0
    assert found["hosts_by_state"] == {"parked": 0, "retired": 0, "paused": 0}


def test_captures_that_were_not_all_read_in_time_are_the_newest_and_told(
    crawl: WrittenCrawl,
) -> None:
    url = "https://example.com/page"
    history = History(1, int(WALL), 200, date_us=int(WALL) * 1_000_000, segment="a.warc.gz")
    crawl.commit(url_write(url, UrlState.FETCHED, history=history))
    (crawl.folder / CDXJ).mkdir(exist_ok=True)
    for number in range(40):  # segments
        (crawl.folder / CDXJ / f"{number}.cdxj").touch()
    found = ask(crawl, CapturesQuery(url), 0.0)
    assert (len(rows(found)), found.is_partial, found.cursor) == (1, True, "")
    assert not ask(crawl, CapturesQuery(url)).is_partial


class _BusyCrawl:
    """A crawl whose owner has no time: each question ends after some rows."""

    coordinator, credentials = CoordinatorPlace("x", (), ""), Credentials()

    def __init__(self, crawl: WrittenCrawl) -> None:
        config = Config(frontier=FrontierSection(partitions=1))
        self.addressing = PartitionFinder(config, Sites())
        self._crawl = crawl

    def follow(self, status: ClusterStatus) -> None: ...

    def shard_of(self, partition: int) -> int:
        return partition

    async def call_owner(self, partition: int, call: Call) -> CallReply:
        assert isinstance(call, StateQuestion)
        return answer_question(FolderView(self._crawl.folder), 0, call, 0.0)

    async def close(self) -> None: ...


async def test_a_hash_is_searched_for_until_it_is_found(crawl: WrittenCrawl) -> None:
    urls = [f"https://example.com/{number}" for number in range(100)]
    crawl.commit(*(url_write(url) for url in urls))
    service = CrawlService(_BusyCrawl(crawl), ApiLimits())
    for url in sorted(urls, key=hash8)[::20]:
        found = await service.url(hash8(url).hex())
        assert found is not None and found["url"] == url
    assert await service.url("0" * 16) is None
