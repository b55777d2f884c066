"""Where user code is called: the thread of sinks, the watch of rules, the socket of workers."""

from __future__ import annotations

import asyncio
import gzip
import re
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from lycosa.base.config.sections import ExtensionSection
from lycosa.base.model.code_failure import CodeFailure
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.reasons import Reason
from lycosa.processes.page_socket import PageCaller, PageServer
from lycosa.processes.user_code import prepared_extensions
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.parse.page import Page, Received
from lycosa.worker.extensions import UserRule
from lycosa.worker.rule_watch import MOST_OVERRUNS
from lycosa.worker.sink_thread import SinkThread

FOUND = Discovered("http://a.test/x", b"h" * 8, b"u" * 8, LinkKind.A, 1)
BODY = "<p>héllo</p>".encode("latin-1")


def a_page(number: int = 1, spool: str = "") -> Page:
    packed = gzip.compress(BODY)
    return Page(
        url=f"http://a.test/{number}",
        status=200,
        fetched=datetime.fromtimestamp(number, UTC),
        charset="windows-1252",
        source=Received([("content-encoding", "gzip")], b"" if spool else packed, spool, ["gzip"]),
    )


def ends(page: Page) -> NoReturn:
    raise SystemExit(f"no more after {page.url}")


# -- the page


def test_a_body_is_decoded_and_the_received_one_is_there_too() -> None:
    page = a_page()
    assert page.body == BODY and page.body_text == "<p>héllo</p>"
    assert gzip.decompress(page.raw_body) == BODY and page.header("content-encoding") == "gzip"
    assert page.body_reason is Reason.NONE


def test_a_large_body_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "spooled"
    file.write_bytes(gzip.compress(BODY)[:-9])
    page = a_page(spool=str(file))
    assert page.body == BODY and page.body_reason is Reason.DECODE_FAILED


# -- the thread of sinks


def test_each_sink_gets_each_page_and_failures_are_told_apart() -> None:
    given: list[tuple[str, bytes, int]] = []

    def keeps(page: Page) -> None:
        given.append((page.url, page.body, threading.get_ident()))

    async def run() -> list[list[CodeFailure]]:
        thread = SinkThread([ends, keeps], 30.0)
        try:
            return await asyncio.gather(*(thread.give_page(a_page(number)) for number in range(9)))
        finally:
            thread.close()

    for ((failed),) in asyncio.run(run()):
        assert failed.name == "test_sink_calls:ends" and failed.error.startswith("SystemExit (")
    assert [url for url, _, _ in given] == [f"http://a.test/{number}" for number in range(9)]
    assert {body for _, body, _ in given} == {BODY}
    (thread_id,) = {each for _, _, each in given}
    assert thread_id != threading.get_ident()


def test_a_sink_that_does_not_return_costs_its_pages_a_remark_until_it_does() -> None:
    free, given = threading.Event(), list[str]()

    def stuck(page: Page) -> None:
        given.append(page.url)
        free.wait(60)

    async def run() -> None:
        thread = SinkThread([stuck], 0.05)
        first, second = await asyncio.gather(
            thread.give_page(a_page(1)), thread.give_page(a_page(2))
        )
        assert first[0].error == second[0].error == "TooSlow"
        assert (await thread.give_page(a_page(3)))[0].name.endswith("stuck")
        assert given == ["http://a.test/1"]
        free.set()
        async with asyncio.timeout(30):
            while await thread.give_page(a_page(4)):  # noqa: ASYNC110 (the thread tells nobody)
                await asyncio.sleep(0)
        assert given == ["http://a.test/1", "http://a.test/4"]  # the others went without it
        thread.close()

    asyncio.run(run())


def test_pages_of_workers_reach_the_sinks_of_the_program(tmp_path: Path) -> None:
    given: list[Page] = []
    noted: list[CodeFailure] = []

    async def run() -> None:
        thread, spooled = SinkThread([given.append, ends], 30.0), tmp_path / "spooled"
        spooled.write_bytes(gzip.compress(BODY))
        async with PageServer(tmp_path / "s", thread, noted.append):
            callers = [PageCaller(tmp_path / "s") for _ in range(2)]
            pages = [a_page(1), a_page(2, str(spooled))]
            for failed in await asyncio.gather(
                *(caller.give_page(page) for caller in callers for page in pages)
            ):
                assert [each.name for each in failed] == ["test_sink_calls:ends"]
        (gone,) = await callers[0].give_page(a_page(5))
        assert gone.error == "ConnectionError"
        for caller in callers:
            caller.close()
        (nobody,) = await PageCaller(tmp_path / "none").give_page(a_page(6))
        assert nobody.error == "ConnectionError"

    asyncio.run(run())
    assert sorted(page.url[-1] for page in given) == ["1", "1", "2", "2"] and len(noted) == 4
    assert all(page.body == BODY for page in given)


# -- the watch of rules


def loops(found: Discovered) -> None:
    while True:
        pass


def catches_all(found: Discovered) -> None:
    while True:
        with suppress(Exception):
            loops(found)


def backtracks(found: Discovered) -> None:
    re.fullmatch(r"(a|a)*b", "a" * 60)


@pytest.mark.parametrize("rule", [loops, catches_all, backtracks])
def test_a_rule_that_takes_too_long_is_broken_off_and_refuses(rule: UserRule) -> None:
    told: list[str] = []
    extensions = prepared_extensions(
        ExtensionSection(rule_s=0.05), [rule], [], lambda failure, _: told.append(failure.error)
    )
    try:
        (guarded,) = extensions.guarded_rules()
        refusal = guarded(FOUND)
        assert isinstance(refusal, Refusal) and refusal.reason is Reason.RULE_FAILED
        assert refusal.value.startswith("TooSlow (") and told == [refusal.value]
    finally:
        extensions.close()


def test_rules_that_are_too_slow_too_often_are_not_called_any_more() -> None:
    calls: list[int] = []

    def slow(found: Discovered) -> None:
        calls.append(1)
        while True:
            pass

    extensions = prepared_extensions(ExtensionSection(rule_s=0.01), [slow], [], lambda *_: None)
    try:
        (guarded,) = extensions.guarded_rules()
        for _ in range(MOST_OVERRUNS + 5):
            assert guarded(FOUND) is not None
        assert len(calls) == MOST_OVERRUNS
        assert extensions.failures.counts["rule"] == MOST_OVERRUNS + 5
    finally:
        extensions.close()
