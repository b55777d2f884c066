"""Calls to the owner of a partition: URLs, decisions of operators, and whatever bytes arrive."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from test_partition import START, commit, done, found, open_partition

from crawling import Pages, crawl_folder, html, page
from lycosa.base.calls import (
    Call,
    CallRefusal,
    CallReply,
    CountsQuery,
    DeadLetterDecision,
    DecisionAnswer,
    Found,
    GivenUrl,
    GivenVerdicts,
    GiveUrls,
    HostAction,
    HostDecision,
    UrlVerdict,
    decode_reply,
    encode_call,
)
from lycosa.base.model.dead_letter import DeadLetter, DeadLetterAction
from lycosa.base.model.end import End
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.base.urls.identity import hash8
from lycosa.cli.main import main
from lycosa.inspect.committed_state import read_folder
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.decision_log import ACTIONS, ActionRow, decode_action
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.table_records import prefix_end
from lycosa.worker.assemble import Assembled
from lycosa.worker.calls.dead_letter_decisions import DeadLetterHandler
from lycosa.worker.intake.intake import Intake

A, B = "http://a.test", "http://b.test"
ACCEPTED, DUPLICATE, REJECTED = UrlVerdict.ACCEPTED, UrlVerdict.DUPLICATE, UrlVerdict.REJECTED


def web(**more: Any) -> Pages:
    pages = {f"{A}/": page("/one", "/gone"), f"{A}/one": page(), f"{B}/": page("/two", "/three")}
    return Pages(pages | {f"{A}/gone": html("", 410)} | more)


async def call(assembled: Assembled, host: str, value: Call) -> CallReply:
    partition = assembled.intake.partition_of_host(host)
    return decode_reply(await assembled.calls.answer_call(partition, encode_call(value)))


def state_of(folder: Path, url: str) -> UrlState | None:
    entry = read_folder(folder).find_url(url)
    return entry.state if entry is not None else None


def actions(folder: Path) -> list[ActionRow]:
    views = read_folder(folder).partition_views()
    return [
        decode_action(row) for view in views for _, row in view.scan(ACTIONS, prefix_end(ACTIONS))
    ]


def audited(folder: Path) -> bool:
    return main(["audit", str(folder)]) == 0


def test_urls_are_given_with_a_verdict_each_and_given_again_without_effect(tmp_path: Path) -> None:
    given = GiveUrls(
        "feeder",
        [
            GivenUrl("HTTP://A.test:80/new#part", priority=1.0, depth=2),
            GivenUrl(f"{A}/"),
            GivenUrl("http://a.test.elsewhere.example/"),
            GivenUrl("mailto:someone@a.test"),
            GivenUrl(f"{A}/{'a/' * 100}"),
        ],
    )

    async def give(assembled: Assembled) -> None:
        first = await call(assembled, "a.test", given)
        again = await call(assembled, "a.test", given)
        assert isinstance(first, GivenVerdicts) and isinstance(again, GivenVerdicts)
        verdicts = [each.verdict for each in first.verdicts]
        assert verdicts == [ACCEPTED, DUPLICATE, REJECTED, REJECTED, REJECTED]
        assert again.verdicts[0].verdict is DUPLICATE and again.verdicts[1:] == first.verdicts[1:]
        assert "not a URL" in first.verdicts[3].reason
        assert "path_too_deep" in first.verdicts[4].reason

    assert crawl_folder(tmp_path / "c", web(), [f"{A}/"], meanwhile=give) is End.FINISHED
    assert state_of(tmp_path / "c", f"{A}/new") is UrlState.FAILED  # 404
    assert audited(tmp_path / "c")


def test_a_given_priority_is_the_priority(tmp_path: Path) -> None:
    urls = [GivenUrl(f"{A}/{number}", priority=number / 20) for number in range(1, 20)]
    pages = web(**{each.url: page() for each in urls})

    async def give(assembled: Assembled) -> None:
        await call(assembled, "a.test", GiveUrls("feeder", urls))

    assert crawl_folder(tmp_path / "c", pages, [f"{B}/", f"{A}/"], meanwhile=give)
    asked = [url for url in pages.asked if url.removeprefix(f"{A}/").isdigit()]
    stored = [round(int(url.removeprefix(f"{A}/")) / 20 * 255) for url in asked]
    bands = [(255 - priority) * 8 // 256 for priority in stored]
    assert len(asked) == 19 and bands == sorted(bands)


def test_dead_letters_are_retried_and_dropped_while_the_crawl_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = hash8(f"{A}/gone").hex()
    retry = DeadLetterDecision("r1", "ada", DeadLetterAction.RETRY, why="it is back")
    drop = DeadLetterDecision("d1", "bob", DeadLetterAction.DROP, hashes=[gone], host="a.test")
    pages = web(**{f"{A}/gone": [html("", 410), html("", 410), page()]})
    replies = []

    async def decide(assembled: Assembled) -> None:
        partition = assembled.worker.frontier.partitions[
            assembled.intake.partition_of_host("a.test")
        ]
        host8, url8 = hash8("a.test"), hash8(f"{A}/gone")

        async def until(state: UrlState) -> None:
            while (
                record := partition.find_record(host8, url8)
            ) is None or record.state is not state:
                await assembled.clock.sleep(1.0)

        await until(UrlState.FAILED)
        replies.extend([await call(assembled, "a.test", each) for each in (retry, retry)])
        await assembled.clock.sleep(30.0)
        await until(UrlState.FAILED)
        other = msgspec.structs.replace(drop, call="d2")
        replies.extend([await call(assembled, "a.test", each) for each in (drop, drop, other)])
        wrong = DeadLetterDecision("x", "eve", DeadLetterAction.DROP, reason="no_such_reason")
        assert isinstance(await call(assembled, "a.test", wrong), CallRefusal)

    folder = tmp_path / "c"
    assert crawl_folder(folder, pages, [f"{A}/"], meanwhile=decide) is End.FINISHED
    assert replies == [DecisionAnswer(n) for n in (1, 1, 1, 1, 0)]
    assert pages.asked.count(f"{A}/gone") == 2
    assert [(row.call, row.by, row.changed) for row in actions(folder)] == [
        ("r1", "ada", 1),
        ("d1", "bob", 1),
        ("d2", "bob", 0),
    ]
    assert main(["explain", str(folder), f"{A}/gone"]) == 0
    text = capsys.readouterr().out
    assert "by ada" in text and "by bob" in text
    assert main(["dlq", "list", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dead_letters"] == []
    assert audited(folder)


async def decide(
    assembled: Assembled, host: str, action: HostAction, number: int = 1, **reach: bool
) -> int:
    decision = HostDecision(
        f"{action.value} {host} {number}", "ada", host, action, "a complaint", **reach
    )
    reply = await call(assembled, host, decision)
    assert isinstance(reply, DecisionAnswer), reply
    return reply.changed


def test_a_paused_host_gets_no_request_until_it_is_resumed_and_the_crawl_ends_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, pages = tmp_path / "c", web(**{f"{B}/": page(*(f"/{n}" for n in range(20)))})
    asked: list[int] = []

    async def steer(assembled: Assembled) -> None:
        while f"{B}/0" not in pages.asked:
            await assembled.clock.sleep(0.1)
        assert await decide(assembled, "b.test", HostAction.PAUSE) == 1
        assert await decide(assembled, "b.test", HostAction.PAUSE, 2) == 0
        await assembled.clock.sleep(5.0)
        asked.append(len(pages.asked))
        await assembled.clock.sleep(600.0)

    assert crawl_folder(folder, pages, [f"{A}/", f"{B}/"], meanwhile=steer) is End.FINISHED
    before = sum(url.startswith(B) for url in pages.asked)
    assert before < 10 and len(pages.asked) == asked[0]
    assert audited(folder)
    waiting = next(f"{B}/{n}" for n in range(20) if f"{B}/{n}" not in pages.asked)
    capsys.readouterr()
    assert main(["explain", str(folder), waiting]) == 0
    assert "ada paused its host" in capsys.readouterr().out
    assert main(["status", str(folder)]) == 0
    assert "1 host, by operators" in capsys.readouterr().out

    # the pause is still there in the next run, and ends when it is resumed
    async def resume(assembled: Assembled) -> None:
        await assembled.clock.sleep(60.0)
        assert sum(url.startswith(B) for url in pages.asked) == before
        assert await decide(assembled, "b.test", HostAction.RESUME) == 1

    assert crawl_folder(folder, pages, [], start=1e5, meanwhile=resume) is End.FINISHED
    assert all(f"{B}/{n}" in pages.asked for n in range(20)) and audited(folder)
    assert [row.action for row in actions(folder)] == ["pause", "pause", "resume"]


def test_a_host_that_an_operator_retired_is_not_reopened_by_its_seed(tmp_path: Path) -> None:
    folder, pages = tmp_path / "c", web()

    async def retire(assembled: Assembled) -> None:
        unmet = HostDecision("u", "ada", "b.test", HostAction.RETIRE)
        assert await call(assembled, "b.test", unmet) == DecisionAnswer(0, hosts=[])
        # before it is known
        assert await decide(assembled, "b.test", HostAction.RETIRE, is_new=True) == 1
        refusal = await call(
            assembled, "b.test", HostDecision("x", "ada", "no host", HostAction.PAUSE)
        )
        assert isinstance(refusal, CallRefusal)

    assert crawl_folder(folder, pages, [f"{A}/"], meanwhile=retire) is End.FINISHED
    assert crawl_folder(folder, pages, [f"{A}/", f"{B}/"], start=1e5) is End.FINISHED
    assert not any(url.startswith(B) for url in pages.asked)
    assert state_of(folder, f"{B}/") is UrlState.RETIRED and audited(folder)

    async def resume(assembled: Assembled) -> None:
        assert await decide(assembled, "b.test", HostAction.RESUME) == 1

    assert crawl_folder(folder, pages, [], start=2e5, meanwhile=resume) is End.FINISHED
    assert state_of(folder, f"{B}/") is UrlState.FETCHED and audited(folder)


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x81", os.urandom(200), b"\x81\xa4type\xa1X"])
def test_bytes_that_are_no_call_are_refused_and_the_crawl_goes_on(
    tmp_path: Path, body: bytes
) -> None:
    async def send(assembled: Assembled) -> None:
        reply = decode_reply(await assembled.calls.answer_call(0, body))
        assert isinstance(reply, CallRefusal) and "not a call" in reply.reason
        foreign = decode_reply(await assembled.calls.answer_call(99, encode_call(CountsQuery())))
        assert isinstance(foreign, CallRefusal) and "partition 99" in foreign.reason

    assert crawl_folder(tmp_path / "c", web(), [f"{A}/"], meanwhile=send) is End.FINISHED


def test_questions_go_to_the_reader(tmp_path: Path) -> None:
    async def ask(assembled: Assembled) -> None:
        refusal = await call(assembled, "a.test", CountsQuery())
        assert isinstance(refusal, CallRefusal)

        async def read(partition: int, question: Any) -> CallReply:
            return Found(f"{partition} {type(question).__name__}".encode())

        number = assembled.intake.partition_of_host("a.test")
        body = encode_call(CountsQuery())
        found = decode_reply(await assembled.calls.answer_call(number, body, read))
        assert isinstance(found, Found) and found.rows.endswith(b" CountsQuery")

    assert crawl_folder(tmp_path / "c", web(), [f"{A}/"], meanwhile=ask) is End.FINISHED


# -- many dead letters


def failed_partition(store: MemoryKeyValue, count: int) -> Partition:
    """A partition with so many dead letters, of three hosts."""
    partition = open_partition(store, limit=count)
    hosts = [f"h{number}.example" for number in range(3)]
    urls = [f"http://{hosts[number % 3]}/{number}" for number in range(count)]
    partition.discover_urls([found(url) for url in urls], START)
    for name in hosts:
        host = partition.visits.find_host(hash8(name))
        assert host is not None
        while host.record.waiting:
            fail_next(partition, host)
    commit(store, partition)
    return partition


def fail_next(partition: Partition, host: VisitState) -> None:
    lease = partition.lease_next(host)
    assert lease is not None
    partition.complete_lease(lease, done(lease, UrlState.FAILED))
    letter = DeadLetter(lease.url, Reason.CONNECT_REFUSED, "", 3, START)
    partition.dead_letters.add(host.host8 + lease.entry.url8, letter)


def dead_letter_handler() -> DeadLetterHandler:
    return DeadLetterHandler(cast(Intake, None), CrawlClock(SystemClock()), max_decided=300)


async def decided(partition: Partition, decision: DeadLetterDecision) -> DecisionAnswer:
    answer = await dead_letter_handler().decide_dead_letters(partition, decision)
    assert isinstance(answer, DecisionAnswer), answer
    return answer


async def test_many_dead_letters_are_retried_in_pieces_and_a_crash_repeats_none() -> None:
    store, retry = MemoryKeyValue(), DeadLetterDecision("r", "ada", DeadLetterAction.RETRY)
    partition = failed_partition(store, 1500)
    first = await decided(partition, retry)
    assert 300 <= first.changed <= 500 and not first.is_complete
    commit(store, partition)
    second = await decided(partition, retry)
    assert second.changed > first.changed
    partition = open_partition(store)  # a crash before the commit of the second piece
    assert partition.counters.count_in(UrlState.QUEUED) == first.changed
    assert await decided(partition, retry) == second
    # one that fails again meanwhile is a dead letter that this decision does not mean
    host = partition.visits.find_host(hash8("h2.example"))
    assert host is not None
    fail_next(partition, host)
    assert not (await decided(partition, retry)).is_complete
    answer = await decided(partition, retry)
    assert answer == await decided(partition, retry) == DecisionAnswer(1500)
    assert partition.counters.count_in(UrlState.FAILED) == 1
    (row,) = partition.table.scan(ACTIONS, prefix_end(ACTIONS))
    assert decode_action(row[1]).changed == 1500


async def test_a_call_that_comes_twice_at_a_time_is_counted_once() -> None:
    partition, caller_handler = failed_partition(MemoryKeyValue(), 500), dead_letter_handler()
    retry = DeadLetterDecision("r", "ada", DeadLetterAction.RETRY)
    answers = await asyncio.gather(
        *(caller_handler.decide_dead_letters(partition, retry) for _ in range(3))
    )
    assert answers[-1] == DecisionAnswer(500)
    assert partition.counters.count_in(UrlState.QUEUED) == 500


async def test_dead_letters_are_dropped_by_number_or_by_hash_and_the_newest_of_a_url_counts() -> (
    None
):
    partition = failed_partition(MemoryKeyValue(), 9)
    host = partition.visits.find_host(hash8("h0.example"))
    assert host is not None
    url = "http://h0.example/0"
    retry = DeadLetterDecision("r", "ada", DeadLetterAction.RETRY, [hash8(url).hex()])
    assert await decided(partition, retry) == DecisionAnswer(1)
    fail_next(partition, host)  # its second dead letter
    drop = msgspec.structs.replace(retry, call="d", action=DeadLetterAction.DROP)
    old = msgspec.structs.replace(drop, call="old", numbers=[1])
    assert await decided(partition, old) == DecisionAnswer(0), "it was decided before"
    assert await decided(partition, drop) == DecisionAnswer(1)
    again = msgspec.structs.replace(drop, call="again", numbers=[10])
    assert await decided(partition, again) == DecisionAnswer(0), "it is dropped already"
    wrong = msgspec.structs.replace(drop, call="w", numbers=[10, 11])
    assert isinstance(
        await dead_letter_handler().decide_dead_letters(partition, wrong), CallRefusal
    )
