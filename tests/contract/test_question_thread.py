"""Questions about a crawl that was really made, answered beside a loop: contents, texts, orders."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from crawling import QUICK, crawl_folder
from lycosa.base.calls import (
    Call,
    CallRefusal,
    CallReply,
    CapturesQuery,
    ContentFound,
    ContentQuery,
    Found,
    HostQuery,
    HostsQuery,
    UrlQuery,
)
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.queries.question_thread import Allowance, StateReader
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.owner_calls import OwnerCalls
from lycosa.service.api.places import CallableCrawl
from lycosa.state.shard.folder_view import recent_views
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.worker.worker_progress import memory_of

WEB = SyntheticWeb(WebPlan(hosts=3, pages=8, gzip=1.0, seed=3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state") / "crawl"
    crawl_folder(folder, WEB, [WEB.seed_url()], QUICK)
    return folder


@pytest.fixture
async def reader(folder: Path) -> AsyncIterator[StateReader]:
    made = StateReader(recent_views(folder), share=1.0)
    yield made
    await made.close()


def home(folder: Path) -> tuple[str, int]:
    """The first page of the web, and its partition."""
    url = WEB.seed_url()
    return url, read_folder(folder).partition_of(url)


async def test_the_captures_of_a_url_are_in_the_index_of_the_segment(
    reader: StateReader, folder: Path
) -> None:
    url, partition = home(folder)
    found = await reader.answer(partition, CapturesQuery(url))
    assert isinstance(found, Found)
    (row,) = json.loads(found.rows)
    assert (row["status"], row["media_type"]) == (200, "text/html")
    by_id = await reader.answer(partition, CapturesQuery(row["id"]))
    assert isinstance(by_id, Found)
    assert json.loads(by_id.rows) == [row]


async def test_a_body_is_given_decoded_and_in_pieces(reader: StateReader, folder: Path) -> None:
    url, partition = home(folder)
    whole = await reader.answer(partition, ContentQuery(url))
    assert isinstance(whole, ContentFound)
    assert whole.body.startswith(b"<!DOCTYPE html>") or b"<html" in whole.body[:200]
    piece = await reader.answer(partition, ContentQuery(url, offset=10, most_bytes=5))
    assert isinstance(piece, ContentFound)
    assert (piece.body, piece.total_bytes) == (whole.body[10:15], len(whole.body))
    about = json.loads(whole.about)
    same = await reader.answer(partition, ContentQuery(url, at=about["date"]))
    assert same == whole
    before = await reader.answer(partition, ContentQuery(url, at=about["date"] - 10))
    assert before == ContentFound(b"{}")


async def test_a_text_is_made_by_a_parse_child_with_title_and_links(
    reader: StateReader, folder: Path
) -> None:
    url, partition = home(folder)
    assert reader.parser_pid is None
    found = await reader.answer(partition, ContentQuery(url, as_text=True))
    memory = memory_of({"parser": None, "text parser": reader.parser_pid})
    assert [each.part for each in memory] == ["worker", "text parser"]
    assert min(each.own_bytes for each in memory) > 1_000_000
    assert isinstance(found, ContentFound)
    about = json.loads(found.about)
    assert found.media_type == "text/plain"
    assert about["title"] and about["outlinks"] == len(about["links"]) > 0
    assert b"<" not in found.body


async def test_questions_at_the_same_time_are_answered_one_after_another(
    reader: StateReader, folder: Path
) -> None:
    url, partition = home(folder)
    questions = [UrlQuery(url), HostsQuery(), HostsQuery(sort="queue"), HostsQuery(sort="errors")]
    replies = await asyncio.gather(*(reader.answer(partition, each) for each in questions * 5))
    assert all(isinstance(each, Found) for each in replies)
    host = url.split("/")[2]
    found = await reader.answer(partition, HostQuery(host))
    assert isinstance(found, Found)
    (row,) = json.loads(found.rows)
    assert row["fetches"] and row["robots"][0]["status"] == 200


async def test_a_question_whose_caller_waits_no_longer_uses_nothing_of_the_share(
    folder: Path,
) -> None:
    url, partition = home(folder)
    reader = StateReader(recent_views(folder), share=0.001)
    assert isinstance(await reader.answer(partition, UrlQuery(url, within_s=60.0)), Found)
    reader.allowance.use(1000.0)  # the share allows nothing for days
    used_s = reader.allowance.used_s
    gone = asyncio.ensure_future(reader.answer(partition, UrlQuery(url)))
    await asyncio.sleep(0)
    gone.cancel()
    async with asyncio.timeout(60):
        replies = await asyncio.gather(
            *(reader.answer(partition, UrlQuery(url, within_s=0.05)) for _ in range(20))
        )
    assert all(isinstance(each, CallRefusal) for each in replies)
    assert (reader.answered, reader.dropped, reader.allowance.used_s) == (1, 21, used_s)
    await reader.close()


async def test_a_question_carries_the_time_for_which_its_caller_still_waits() -> None:
    questions: list[Call] = []
    asked, release = asyncio.Event(), asyncio.Event()

    class Place:
        """A crawl whose owner keeps the first question."""

        def shard_of(self, partition: int) -> int:
            return 0

        async def call_owner(self, partition: int, call: Call) -> CallReply:
            questions.append(call)
            asked.set()
            await release.wait()
            return Found(b"[]")

    calls = OwnerCalls(cast(CallableCrawl, Place()), ApiLimits(calls=1))
    first = asyncio.ensure_future(calls.call(0, HostsQuery(), 2.0))
    second = asyncio.ensure_future(calls.call(0, HostsQuery(), 2.0))
    await asked.wait()
    asyncio.get_running_loop().call_later(0.05, release.set)
    await asyncio.gather(first, second)
    within = [each.within_s for each in questions if isinstance(each, HostsQuery)]
    assert 1.9 < within[0] <= 2.0 and 0 < within[1] <= 1.96, "it waited for its turn"


async def test_a_reader_that_was_closed_refuses(folder: Path) -> None:
    reader = StateReader(recent_views(folder))
    await reader.close()
    assert isinstance(await reader.answer(0, HostsQuery()), CallRefusal)


def test_an_allowance_is_saved_up_to_a_bound_and_lets_callers_wait() -> None:
    now = [0.0]
    allowance = Allowance(0.1, lambda: now[0])
    assert allowance.wait_s() == 0.0
    allowance.use(2.0)  # half a second more than was saved
    assert allowance.wait_s() == pytest.approx(5.0, abs=0.01)
    now[0] = 6.0
    assert allowance.wait_s() == 0.0
    now[0] = 1e6
    assert allowance.is_ample
    allowance.use(1.0)
    assert allowance.wait_s() == 0.0 and not allowance.is_ample
