"""A stopped crawl, whose folder is opened so that it can be called: what its owner promises."""

from __future__ import annotations

import asyncio
import functools
import shutil
from pathlib import Path

import pytest

from crawling import QUICK, Pages, crawl_folder, html, page
from lycosa.base.calls import (
    CallRefusal,
    DeadLetterDecision,
    DecisionAnswer,
    HostAction,
    HostDecision,
    HostQuery,
    new_call,
    read_action,
    read_delay,
    read_remark,
)
from lycosa.base.model.dead_letter import DeadLetterAction
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.near_hosts import HostUnknown
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import CrawlReader, read_folder
from lycosa.inspect.dead_letter_list import DeadLetterFilter, dead_letters
from lycosa.processes.callable_folder import CallableFolder, ReparseReport, open_stopped_folder
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.decision_calls import OperatorDecisions
from lycosa.service.api.owner_calls import OwnerCalls
from lycosa.stages.frontier.decision_log import ACTIONS, ActionRow, decode_action
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.state.commit import CommitLog
from lycosa.state.folder.lock import CrawlInUse
from lycosa.state.folder.names import log_folder

A, B = "http://a.test", "http://b.test"
SITE = {
    f"{A}/": page("/b", "/gone"),
    f"{A}/b": page("/c", text="another page"),
    f"{A}/c": page(text="the last page"),
    f"{A}/gone": html("", 410),
    f"{B}/": page("/gone"),
    f"{B}/gone": html("", 410),
}


class DeadlyPages(InlineParser):
    """A parser that one page killed."""

    def __init__(self, config: ParserConfig, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def parse(self, document: ParseInput) -> Parsed:
        if document.url == self._url:
            return Parsed(reason=Reason.PARSE_KILLED)
        return await super().parse(document)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped crawl: two dead letters, and a page that killed the parser."""
    folder = tmp_path_factory.mktemp("stopped") / "c"
    parser = functools.partial(DeadlyPages, url=f"{A}/b")
    crawl_folder(folder, Pages(SITE), [f"{A}/", f"{B}/"], parser=parser)
    return folder


@pytest.fixture
def folder(crawled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(crawled, tmp_path / "c"))


def killed(folder: Path) -> Path:
    """What a ``kill -9`` of the process that has the folder open would leave."""
    return Path(shutil.copytree(folder, folder.with_name("killed")))


def decisions_of(crawl: CallableFolder) -> OperatorDecisions:
    return OperatorDecisions(crawl.addressing, OwnerCalls(crawl, ApiLimits()))


def paused(folder: Path) -> list[str]:
    hosts = read_folder(folder).hosts()
    return [each.record.host for each in hosts if each.record.shown_state.label == "paused"]


def actions(folder: Path) -> list[ActionRow]:
    views = read_folder(folder).partition_views()
    return [decode_action(row) for view in views for _, row in view.scan(ACTIONS, b"L")]


def failed(reader: CrawlReader) -> list[str]:
    return sorted(each.url for each in dead_letters(reader, DeadLetterFilter()))


def pause(host: str) -> HostDecision:
    return HostDecision(new_call("test"), "ann", host, HostAction.PAUSE, "mail of 3 May")


async def test_an_answer_comes_after_the_commit(folder: Path) -> None:
    async with open_stopped_folder(folder) as crawl:
        answer = await decisions_of(crawl).decide_host(pause("a.test"))
        left = killed(folder)
    assert (answer.changed, answer.hosts) == (1, ["a.test"])
    for each in (left, folder):
        assert paused(each) == ["a.test"]
        assert [(row.action, row.by, row.why) for row in actions(each)] == [
            ("pause", "ann", "mail of 3 May")
        ]
        assert audit(each).is_clean


async def test_a_repeated_call_has_one_effect(folder: Path) -> None:
    decision = pause("a.test")
    for _ in range(2):  # two runs
        async with open_stopped_folder(folder) as crawl:
            partition = crawl.addressing.of_host("a.test")
            for _ in range(2):
                reply = await crawl.call_owner(partition, decision)
                assert isinstance(reply, DecisionAnswer) and reply.changed == 1
    assert len(actions(folder)) == 1


async def test_a_question_sees_the_decision_before_it(folder: Path) -> None:
    async with open_stopped_folder(folder) as crawl:
        decisions = decisions_of(crawl)
        assert await decisions.find_host("http://c.test/") is None
        row = await decisions.find_host(f"{A}/some/page")
        assert row is not None and row["state"] != "paused"
        await decisions.decide_host(pause("a.test"))
        row = await decisions.find_host("a.test")
        assert row is not None and row["state"] == "paused"


async def test_a_decision_that_is_refused_changes_nothing_and_the_run_ends_in_order(
    folder: Path,
) -> None:
    with pytest.raises(HostUnknown, match=r"did you mean b\.test or a\.test"):
        async with open_stopped_folder(folder) as crawl:
            await decisions_of(crawl).decide_host(pause("c.test"))
    assert (paused(folder), actions(folder)) == ([], [])
    *_, last = CommitLog(log_folder(folder), 0).records()
    assert last.is_final and audit(folder).is_clean
    async with open_stopped_folder(folder) as crawl:
        elsewhere = (crawl.addressing.of_host("a.test") + 1) % QUICK.frontier.partitions
        for call in (pause("a.test"), HostQuery("")):
            reply = await crawl.call_owner(elsewhere, call)
            assert isinstance(reply, CallRefusal) == isinstance(call, HostDecision)


async def test_the_folder_is_locked_while_it_is_open(folder: Path) -> None:
    async with open_stopped_folder(folder):
        with pytest.raises(CrawlInUse):
            async with open_stopped_folder(folder):
                pass


async def test_dead_letters_are_decided_in_pieces_that_are_committed(folder: Path) -> None:
    reader = read_folder(folder)
    assert failed(reader) == [f"{A}/gone", f"{B}/gone"]
    listed = list(dead_letters(reader, DeadLetterFilter()))
    async with open_stopped_folder(folder) as crawl:
        decisions = decisions_of(crawl)
        assert await decisions.decide_listed(listed[:1], DeadLetterAction.DROP, "ann") == 1
        left = killed(folder)
        # the one that was decided is none any more
        assert await decisions.decide_listed(listed, DeadLetterAction.DROP, "ann") == 1
    assert len(failed(read_folder(left))) == 1
    assert failed(read_folder(folder)) == []
    assert audit(left).is_clean and audit(folder).is_clean


async def test_dead_letters_of_a_host_or_reason_are_decided_as_in_a_crawl_that_runs(
    folder: Path,
) -> None:
    async with open_stopped_folder(folder) as crawl:
        decisions = decisions_of(crawl)
        wrong = DeadLetterDecision("1", "ann", DeadLetterAction.RETRY, host="c.test")
        with pytest.raises(HostUnknown):
            await decisions.decide_dead_letters(wrong)
        call = DeadLetterDecision("2", "ann", DeadLetterAction.RETRY, host=f"{B}/x")
        assert await decisions.decide_dead_letters(call) == DecisionAnswer(1)
    assert failed(read_folder(folder)) == [f"{A}/gone"]


def test_a_crash_while_documents_are_parsed_again_forgets_none_of_them(folder: Path) -> None:
    async def reparse() -> tuple[Path, ReparseReport]:
        async with open_stopped_folder(folder) as crawl:
            assert await decisions_of(crawl).reparse(False, "ann") == 0  # it needs --killed
            assert await decisions_of(crawl).reparse(True, "ann", "a new parser") == 1
            return killed(folder), await crawl.parse_wanted(True)

    left, report = asyncio.run(reparse())
    assert (report.done.parsed, report.unparsed, report.new_urls) == (1, 0, 1)
    assert {("reparse", "ann", "a new parser")} <= {
        (row.action, row.by, row.why) for row in actions(folder)
    }
    for each in (left, folder):
        crawl_folder(each, Pages(SITE), [], start=1e6)
        found = {entry.url for entry in read_folder(each).urls() if entry.state is UrlState.FETCHED}
        assert f"{A}/c" in found
        assert audit(each).is_clean


@pytest.mark.parametrize("text", ["soon", "2d", "-1s", ""])
def test_a_pause_is_read_or_refused_with_the_form_that_it_has(text: str) -> None:
    assert (read_delay("90s"), read_delay("default")) == (90.0, -1.0)
    with pytest.raises(ValueError, match=r"or default|write at most 1d; or pause the host"):
        read_delay(text)


def test_other_values_of_an_operator_are_bounded() -> None:
    assert read_action(HostAction, "retire") is HostAction.RETIRE
    with pytest.raises(ValueError, match="it must be retry or drop"):
        read_action(DeadLetterAction, "pause")
    assert read_remark("x" * 500)
    with pytest.raises(ValueError, match="at most 500 characters; there are 501"):
        read_remark("x" * 501)
