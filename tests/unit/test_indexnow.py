"""The receiving end of IndexNow: each clause of the protocol, one answer whatever the crawl knows,
and bounds for what anybody may send.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import httpx
import msgspec
import pytest

from lycosa.base.calls import SiteNotice
from lycosa.base.config.sections import Config, IndexNowSection
from lycosa.base.logs.log_writer import EventLog
from lycosa.base.urls.identity import Sites
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.app import make_app
from lycosa.service.api.gate import GateRules
from lycosa.service.api.indexnow import MOST_WAITING_BYTES, GivenNotice, NoticeInbox
from lycosa.service.api.places import PartitionFinder
from lycosa.service.api.problems import Problem
from lycosa.service.api.process_log import ProcessLog
from lycosa.service.api.service import CrawlService
from lycosa.service.api.tokens import AccessScope, Client, Token, Tokens

KEY = "73134416ae45434d98edc086e0bf6740"
HOST = "www.example.org"
URL = f"https://{HOST}/page.html"
SECTION = IndexNowSection(accept=True, notices_per_hour=36_000)
SITES = Sites()


class Owners:
    """The owners of the partitions: they keep what they are told, when they may."""

    def __init__(self) -> None:
        self.told: list[tuple[int, SiteNotice]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def notify(self, partition: int, notice: SiteNotice) -> None:
        await self.open.wait()
        self.told.append((partition, notice))


def addressing(section: IndexNowSection = SECTION) -> PartitionFinder:
    return PartitionFinder(Config(indexnow=section), SITES)


def client_of(
    owners: Owners, section: IndexNowSection = SECTION, has_token: bool = False
) -> httpx.AsyncClient:
    service = SimpleNamespace(addressing=addressing(section), submissions=owners)
    token = Token(Client("feeder", AccessScope.OPERATE), b"a digest")
    tokens = Tokens([token] if has_token else [])
    app = make_app(
        cast(CrawlService, service),
        GateRules("localhost", True, False, ApiLimits(rate=1e6)),
        tokens,
        ProcessLog(EventLog(None, "api")),
    )
    transport = httpx.ASGITransport(cast(Any, app))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def sent(owners: Owners, *requests: dict[str, Any], **given: Any) -> list[httpx.Response]:
    """The answers to some requests, when the owners have been told."""
    async with client_of(owners, **given) as client:
        answers = [
            await client.get("/indexnow", params=each)
            if "urlList" not in each
            else await client.post("/indexnow", json=each)
            for each in requests
        ]
    for _ in range(20):
        await asyncio.sleep(0)
    return answers


def ask(*requests: dict[str, Any], **given: Any) -> tuple[list[int], list[SiteNotice]]:
    """The statuses of the answers, and what owners were told."""
    owners_told: list[SiteNotice] = []

    async def run() -> list[int]:
        owners = Owners()
        answers = await sent(owners, *requests, **given)
        owners_told.extend(notice for _, notice in owners.told)
        return [each.status_code for each in answers]

    return asyncio.run(run()), owners_told


def many(**members: Any) -> dict[str, Any]:
    return {"host": HOST, "key": KEY, "urlList": [URL]} | members


def test_one_url_is_sent_with_its_key() -> None:
    (status,), (notice,) = ask({"url": URL, "key": KEY})
    assert status == 202
    assert (notice.host, notice.key, notice.urls) == (HOST, KEY, [URL])
    assert notice.key_url == f"https://{HOST}/{KEY}.txt"
    location = f"https://{HOST}/folder/any.txt"
    assert ask({"url": URL, "key": KEY, "keyLocation": location})[1][0].key_url == location


def test_up_to_ten_thousand_urls_are_sent_as_json_mixing_schemes() -> None:
    urls = [f"http{'s' * (number % 2)}://{HOST}/{number}" for number in range(10_000)]
    (status,), notices = ask(many(urlList=urls))
    assert status == 202
    assert sorted(url for each in notices for url in each.urls) == sorted(urls)
    assert {len(each.urls) for each in notices} == {1000}
    assert ask(many(urlList=[*urls, URL])) == ([422], [])


def test_other_members_are_ignored_and_the_charset_may_be_named() -> None:
    async def run() -> int:
        async with client_of(Owners()) as client:
            kind = {"content-type": "application/json; charset=utf-8"}
            body = msgspec.json.encode(many(more=1))
            return (await client.post("/indexnow", content=body, headers=kind)).status_code

    assert asyncio.run(run()) == 202


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"url": URL}, 400),
        ({"key": KEY}, 400),
        ({"urlList": [URL], "key": KEY, "host": 1}, 400),
        ({"urlList": "x", "key": KEY, "host": HOST}, 400),
        ({"urlList": [URL], "host": HOST}, 400),
        (many(urlList=[]), 422),
        (many(key="short"), 422),
        (many(key="k" * 129), 422),
        (many(key="with space 123"), 422),
        (many(key="../../etc/passwd"), 422),
        (many(urlList=[URL, "https://other.example.org/"]), 422),
        (many(urlList=["nonsense"]), 422),
        (many(urlList=["ftp://www.example.org/"]), 422),
        (many(urlList=[f"{URL}?{'x' * 3000}"]), 422),
        (many(host="other.example.org"), 422),
        (many(keyLocation="https://other.example.org/key.txt"), 422),
        (many(keyLocation="key.txt"), 422),
    ],
)
def test_what_no_receiver_could_use_is_refused(request_: dict[str, Any], status: int) -> None:
    assert ask(request_) == ([status], [])


def test_no_token_is_needed_and_nothing_is_there_when_it_is_off() -> None:
    assert ask({"url": URL, "key": KEY}, has_token=True)[0] == [202]
    assert ask(many(), has_token=True)[0] == [202]
    assert ask({"url": URL, "key": KEY}, section=IndexNowSection())[0] == [404]


def test_an_answer_comes_before_any_owner_is_asked() -> None:
    async def run() -> None:
        owners = Owners()
        owners.open.clear()  # none answers
        answers = await sent(owners, *[many() for _ in range(10)])
        assert [each.status_code for each in answers] == [202] * 10
        assert len({each.content for each in answers}) == 1
        assert owners.told == []
        owners.open.set()

    asyncio.run(run())


def test_an_address_has_a_quota() -> None:
    statuses, told = ask(*[many()] * 20, section=IndexNowSection(accept=True, notices_per_hour=50))
    assert statuses == [202] * 5 + [429] * 15
    assert len(told) == 5


def test_the_answer_to_too_many_says_when_to_send_again() -> None:
    async def run() -> None:
        few = IndexNowSection(accept=True, notices_per_hour=10)
        _, late = await sent(Owners(), many(), many(), section=few)
        assert late.status_code == 429 and 300 < int(late.headers["retry-after"]) <= 360

    asyncio.run(run())


def test_a_flood_from_any_number_of_addresses_takes_bounded_memory() -> None:
    """100,000 notices while no owner answers."""

    async def run() -> None:
        owners = Owners()
        owners.open.clear()
        inbox = NoticeInbox(SECTION, addressing(), owners.notify)
        taken = refused = 0
        for number in range(100_000):
            given = GivenNotice(HOST, KEY, [f"https://{HOST}/{number}"] * 3)
            try:
                inbox.take(f"198.51.{number % 256}.{number // 256}", given, 0.0)
                taken += 1
            except Problem as problem:
                assert problem.status == 429
                refused += 1
        assert (taken, taken + refused) == (2000, 100_000)
        assert inbox._bytes <= MOST_WAITING_BYTES
        assert len(inbox._sending) == 4
        owners.open.set()
        await asyncio.gather(*inbox._sending)
        assert (inbox._bytes, len(inbox._parts)) == (0, 0)

    asyncio.run(run())


def test_an_owner_that_fails_stops_no_other_notice() -> None:
    """The caller of an owner that is away drops the notice (``SubmissionCalls.notify``)."""

    async def run() -> None:
        owners = Owners()
        inbox = NoticeInbox(SECTION, addressing(), owners.notify)
        for number in range(12):
            inbox.take("a", GivenNotice("", KEY, [f"https://h{number}.example/"]), 0.0)
        for _ in range(100):
            await asyncio.sleep(0)
        finder = addressing()
        assert {partition for partition, _ in owners.told} == {
            finder.of_host(f"h{number}.example") for number in range(12)
        }

    asyncio.run(run())
