"""Documents that were stored without being parsed: counted by the audit, parsed at the next
start or by ``lycosa reparse``.
"""

from __future__ import annotations

import asyncio
import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from crawling import QUICK, Pages, crawl_folder, page
from lycosa.base.calls import DecisionAnswer, ReparseDecision, decode_reply, encode_call
from lycosa.base.config.sections import PolitenessSection
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.cli import main
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.state.folder.names import table_folder
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.kv.table_records import prefix_end
from lycosa.synthetic import Crash, Response
from lycosa.worker.assemble import Assembled

HOST = "http://a.example/"
ROBOTS = f"{HOST}robots.txt"
SITE: dict[str, Response] = {
    HOST: page("/b", "/c", text="the first page"),
    f"{HOST}b": page("/d", text="the second page"),
    f"{HOST}c": page(text="the third page"),
    f"{HOST}d": page(text="the fourth page"),
}


class FailingParser(InlineParser):
    """Answers documents whose URL is among ``failing`` with a reason, and no links."""

    def __init__(self, config: ParserConfig, failing: tuple[str, ...], reason: Reason) -> None:
        super().__init__(config)
        self._failing, self._reason = failing, reason

    async def parse(self, document: ParseInput) -> Parsed:
        return (
            Parsed(reason=self._reason)
            if document.url in self._failing
            else await super().parse(document)
        )


def failing(
    *urls: str, reason: Reason = Reason.INTERNAL
) -> Callable[[ParserConfig], FailingParser]:
    return functools.partial(FailingParser, failing=urls, reason=reason)


def fetched(folder: Path) -> set[str]:
    return {entry.url for entry in read_folder(folder).urls() if entry.state is UrlState.FETCHED}


def remark(folder: Path, url: str) -> Reason:
    entry = read_folder(folder).find_url(url)
    assert entry is not None
    return entry.record.reason


def test_the_audit_counts_what_was_never_parsed(tmp_path: Path) -> None:
    crawl_folder(tmp_path / "c", Pages(SITE), [HOST], parser=failing(HOST))
    report = audit(tmp_path / "c")
    assert [check.name for check in report.checks if check.breaches] == ["parsed"]
    assert report.first_breaches() == [
        f"parsed: {HOST}, fetch 1, was stored but not parsed, so its links are unknown: run lycosa"
        " reparse"
    ]


def test_the_next_start_parses_it_from_its_record_and_fetches_what_it_links_to(
    tmp_path: Path,
) -> None:
    web = Pages(SITE)
    crawl_folder(tmp_path / "c", web, [HOST], parser=failing(HOST))
    assert fetched(tmp_path / "c") == {HOST}
    crawl_folder(tmp_path / "c", web, [], start=100.0)
    assert fetched(tmp_path / "c") == SITE.keys()
    assert web.asked.count(HOST) == 1
    assert remark(tmp_path / "c", HOST) is Reason.NONE
    assert audit(tmp_path / "c").is_clean


def test_a_folder_of_an_earlier_version_is_looked_through(tmp_path: Path) -> None:
    web, folder = Pages(SITE), tmp_path / "c"
    crawl_folder(folder, web, [HOST], parser=failing(HOST))
    for number in range(QUICK.frontier.partitions):  # which did not keep these rows
        table = rocks_opener(8 << 20, 4 << 20)(table_folder(folder, number))
        table.write({key: None for key, _ in table.scan(b"B", prefix_end(b"B"))})
        table.flush()
        table.close()
    crawl_folder(folder, web, [], start=100.0)
    assert fetched(folder) == SITE.keys()


def test_documents_that_killed_the_parser_are_listed_and_wait_for_the_operator(
    tmp_path: Path,
) -> None:
    web = Pages(SITE)
    crawl_folder(
        tmp_path / "c", web, [HOST], parser=failing(f"{HOST}b", reason=Reason.PARSE_KILLED)
    )
    crawl_folder(tmp_path / "c", web, [], start=100.0)
    assert fetched(tmp_path / "c") == SITE.keys() - {f"{HOST}d"}
    report = audit(tmp_path / "c")
    assert report.is_clean
    notes = next(check.notes for check in report.checks if check.name == "parsed")
    assert (
        len(notes) == 1 and notes[0].startswith("1 parse_killed") and notes[0].endswith(f"{HOST}b")
    )


def test_a_document_that_fails_again_stays_as_it_is(tmp_path: Path) -> None:
    web = Pages(SITE)
    for start in (0.0, 100.0):
        crawl_folder(tmp_path / "c", web, [HOST], start=start, parser=failing(HOST))
    assert remark(tmp_path / "c", HOST) is Reason.INTERNAL
    assert audit(tmp_path / "c").breaches == 1


def test_a_document_whose_record_is_gone_is_fetched_again(tmp_path: Path) -> None:
    web = Pages(SITE)
    crawl_folder(tmp_path / "c", web, [HOST], parser=failing(HOST))
    for path in (tmp_path / "c" / "warc").iterdir():
        path.unlink()
    crawl_folder(tmp_path / "c", web, [], start=100.0)
    assert fetched(tmp_path / "c") == SITE.keys()
    assert web.asked.count(HOST) == 2


def test_the_body_of_a_duplicate_is_read_from_the_capture_that_has_it(tmp_path: Path) -> None:
    same = page("/d", text="the same page twice")
    web = Pages({**SITE, f"{HOST}b": same, f"{HOST}c": same})
    crawl_folder(tmp_path / "c", web, [HOST], parser=failing(f"{HOST}b", f"{HOST}c"))
    assert fetched(tmp_path / "c") == {HOST, f"{HOST}b", f"{HOST}c"}
    crawl_folder(tmp_path / "c", web, [], start=100.0)
    assert fetched(tmp_path / "c") == SITE.keys()
    assert {remark(tmp_path / "c", f"{HOST}{name}") for name in "bc"} == {
        Reason.NONE,
        Reason.DUPLICATE,
    }
    assert len(web.asked) == len(set(web.asked))
    assert audit(tmp_path / "c").is_clean


def test_a_document_without_a_parse_is_refetched_unconditionally(tmp_path: Path) -> None:
    asked: list[str] = []

    class Validated(Pages):
        def respond(self, url: str, at: float, headers: dict[str, str]) -> Response:  # type: ignore[override]
            if url == HOST:
                asked.append(headers.get("if-none-match", ""))
            return super().respond(url, at, headers)

    etag = ("ETag", '"one"')
    root = msgspec.structs.replace(SITE[HOST], headers=[*SITE[HOST].headers, etag])
    web = Validated({**SITE, HOST: root})
    crawl_folder(tmp_path / "c", web, [HOST], parser=failing(HOST, reason=Reason.PARSE_KILLED))
    crawl_folder(tmp_path / "c", web, [HOST], start=50 * 86400.0)
    crawl_folder(tmp_path / "c", web, [HOST], start=100 * 86400.0)
    assert asked == ["", "", '"one"']
    assert fetched(tmp_path / "c") == SITE.keys()


class BusyParser(InlineParser):
    """Answers the first parses of documents below ``/b`` with a reason, and counts its calls."""

    def __init__(self, config: ParserConfig, reason: Reason, fails: int, tries: list[int]) -> None:
        super().__init__(config)
        self._reason, self._fails, self._tries = reason, fails, tries

    async def parse(self, document: ParseInput) -> Parsed:
        if document.url == f"{HOST}b":
            self._tries.append(document.tries)
            if len(self._tries) <= self._fails:
                return Parsed(reason=self._reason)
        return await super().parse(document)


def busy(reason: Reason, fails: int, tries: list[int]) -> Callable[[ParserConfig], BusyParser]:
    return functools.partial(BusyParser, reason=reason, fails=fails, tries=tries)


def test_a_document_for_which_the_machine_was_too_busy_is_parsed_later_in_the_same_run(
    tmp_path: Path,
) -> None:
    tries: list[int] = []
    web = Pages(SITE)
    crawl_folder(tmp_path / "c", web, [HOST], parser=busy(Reason.PARSE_STALLED, 3, tries))
    assert fetched(tmp_path / "c") == SITE.keys()
    assert tries == [0, 1, 2, 3]  # with more patience each time
    assert len(web.asked) == len(set(web.asked))
    assert audit(tmp_path / "c").is_clean


def test_a_long_run_does_not_wait_until_its_end_with_them(tmp_path: Path) -> None:
    tries: list[int] = []
    site = dict(SITE)
    site[f"{HOST}c"] = page(*(f"/long/{number}" for number in range(1000)))
    web = Pages(site)
    crawl_folder(
        tmp_path / "c",
        web,
        [HOST],
        msgspec.structs.replace(QUICK, politeness=PolitenessSection(delay_s=1.0)),
        parser=busy(Reason.PARSE_STALLED, 1, tries),
        stop_after_s=700.0,
    )
    assert tries == [0, 1]
    assert f"{HOST}d" in web.asked


def test_a_document_that_used_its_processor_time_is_tried_once_more_at_the_next_start(
    tmp_path: Path,
) -> None:
    tries: list[int] = []
    parser = busy(Reason.PARSE_TIMEOUT, 99, tries)
    for start in range(4):
        crawl_folder(tmp_path / "c", Pages(SITE), [HOST], start=start * 100.0, parser=parser)
    assert tries == [0, 1]
    report = audit(tmp_path / "c")
    assert report.is_clean
    notes = next(check.notes for check in report.checks if check.name == "parsed")
    assert len(notes) == 1 and notes[0].startswith("1 parse_timeout")


def test_a_machine_that_stays_too_busy_ends_the_run_and_the_next_start_tries_again(
    tmp_path: Path,
) -> None:
    tries: list[int] = []
    crawl_folder(tmp_path / "c", Pages(SITE), [HOST], parser=busy(Reason.PARSE_STALLED, 99, tries))
    assert tries == [0, 1, 2, 3]
    assert remark(tmp_path / "c", f"{HOST}b") is Reason.PARSE_STALLED
    notes = [each for check in audit(tmp_path / "c").checks for each in check.notes]
    assert any(each.startswith("1 parse_stalled") and f"{HOST}b" in each for each in notes)
    crawl_folder(
        tmp_path / "c",
        Pages(SITE),
        [],
        start=100.0,
        parser=busy(Reason.PARSE_STALLED, 0, tries),
    )
    assert tries == [0, 1, 2, 3, 4]
    assert fetched(tmp_path / "c") == SITE.keys()


# -- on demand, while the crawl runs


async def want(crawl: Assembled, call: str, with_killed: bool = False) -> int:
    """Ask the owner of all partitions to parse documents again; how many it marked."""
    number = 0
    for partition in range(QUICK.frontier.partitions):
        decision = ReparseDecision(call, "ann", with_killed)
        reply = decode_reply(await crawl.calls.answer_call(partition, encode_call(decision)))
        assert isinstance(reply, DecisionAnswer)
        number += reply.changed
    return number


def test_the_owner_of_a_running_crawl_parses_documents_when_an_operator_asks(
    tmp_path: Path,
) -> None:
    tries: list[int] = []

    async def ask(crawl: Assembled) -> None:
        await asyncio.sleep(60.0)
        assert await want(crawl, "first") == 0  # it needs --killed
        assert (tries, f"{HOST}d" in web.asked) == ([0], False)
        assert await want(crawl, "second", with_killed=True) == 1
        await asyncio.sleep(60.0)
        assert (tries, f"{HOST}d" in web.asked) == ([0, 1], True)
        assert await want(crawl, "second", with_killed=True) == 1  # its first answer, no effect
        assert await want(crawl, "third", with_killed=True) == 0

    web = Pages(SITE)
    parser = busy(Reason.PARSE_KILLED, 1, tries)
    crawl_folder(tmp_path / "c", web, [HOST], parser=parser, meanwhile=ask)
    assert fetched(tmp_path / "c") == SITE.keys()
    assert audit(tmp_path / "c").is_clean


def test_one_call_is_one_try(tmp_path: Path) -> None:
    tries: list[int] = []

    async def ask(crawl: Assembled) -> None:
        await asyncio.sleep(60.0)
        assert await want(crawl, "call", with_killed=True) == 1
        await asyncio.sleep(3600.0)

    parser = busy(Reason.PARSE_KILLED, 99, tries)
    crawl_folder(tmp_path / "c", Pages(SITE), [HOST], parser=parser, meanwhile=ask)
    crawl_folder(tmp_path / "c", Pages(SITE), [HOST], start=10_000.0, parser=parser)
    assert tries == [0, 1]


def test_the_next_owner_parses_what_was_asked_for_when_the_one_before_ended(
    tmp_path: Path,
) -> None:
    tries: list[int] = []

    async def ask(crawl: Assembled) -> None:
        await asyncio.sleep(60.0)
        crawl.worker.stop()
        for partition in crawl.worker.frontier.partitions.values():
            partition.unparsed.want(with_killed=True)

    parser = busy(Reason.PARSE_KILLED, 1, tries)
    crawl_folder(tmp_path / "c", Pages(SITE), [HOST], parser=parser, meanwhile=ask)
    assert tries == [0]
    crawl_folder(tmp_path / "c", Pages(SITE), [HOST], start=1000.0, parser=parser)
    assert tries == [0, 1]
    assert fetched(tmp_path / "c") == SITE.keys()


def test_the_command_parses_and_says_what_came_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "c")
    failing_one = failing(HOST, reason=Reason.PARSE_KILLED)
    crawl_folder(
        tmp_path / "c",
        Pages(SITE),
        [HOST],
        msgspec.structs.replace(QUICK, memory_bytes=1_000_000_000),
        parser=failing_one,
    )
    assert main(["reparse", folder]) == 0
    assert "nothing to parse" in capsys.readouterr().out
    assert main(["reparse", folder, "--killed"]) == 0
    assert capsys.readouterr().out == "1 document parsed: 2 links, 2 new URLs\n"
    assert {entry.url for entry in read_folder(tmp_path / "c").urls()} == {
        HOST,
        f"{HOST}b",
        f"{HOST}c",
    }
    assert main(["reparse", folder, "--killed"]) == 0
    assert "nothing to parse" in capsys.readouterr().out
    assert main(["reparse", str(tmp_path)]) == 2
    assert "is not a crawl" in capsys.readouterr().err


# -- a suspect URL in the same start

MANY = 160
SUSPECT, OTHER = "http://b.test/x", "http://c.test/"


class SlowParser(InlineParser):
    """Needs half a second for a document."""

    async def parse(self, document: ParseInput) -> Parsed:
        await asyncio.sleep(0.5)
        return await super().parse(document)


class Deadly(Pages):
    """The worker dies when it asks for the suspect."""

    folder: Path

    def respond(self, url: str, at: float, headers: dict[str, str]) -> Response:  # type: ignore[override]
        if url == SUSPECT:
            shutil.copytree(self.folder, self.folder.with_name("c.killed"))
            raise Crash("fetch")
        return super().respond(url, at, headers)


@pytest.mark.parametrize("slots", [QUICK.fetch.slots, 1])
def test_a_suspect_beside_bodies_that_wait_stops_neither_commits_nor_requests(
    tmp_path: Path, slots: int
) -> None:
    names = [f"{HOST}{number}" for number in range(MANY)]
    site = {HOST: page(*names)} | {url: page(text=f"page {url}") for url in names}
    site |= {SUSPECT: page(text="the suspect"), OTHER: page("/1", "/2", "/3")}
    site |= {f"{OTHER}{number}": page(text=f"other {number}") for number in (1, 2, 3)}
    folder, parser = tmp_path / "c", failing(*names)
    config = msgspec.structs.replace(QUICK, fetch=msgspec.structs.replace(QUICK.fetch, slots=slots))
    crawl_folder(folder, Pages(site), [HOST], config, parser=parser)
    deadly = Deadly(site)
    deadly.folder = folder
    assert crawl_folder(folder, deadly, [SUSPECT], config, start=1000.0, parser=parser) is None

    web, ages, seen = Pages(site), [0.0], []

    async def watch(crawl: Assembled) -> None:
        """How long the last commit is ago while bodies are parsed, and what was asked for."""
        worker, clock = crawl.worker, crawl.clock
        commits, since = worker.committer.commits, clock.monotonic()
        while worker.reparsing.done.parsed < MANY:
            if worker.committer.commits != commits:
                commits, since = worker.committer.commits, clock.monotonic()
            ages.append(clock.monotonic() - since)
            seen[:] = web.asked
            await asyncio.sleep(0.1)

    crawl_folder(folder, web, [OTHER], config, start=2000.0, parser=SlowParser, meanwhile=watch)
    assert max(ages) < 5.0
    # within the 80 seconds that the bodies take
    assert {SUSPECT, OTHER, *(f"{OTHER}{number}" for number in (1, 2, 3))} <= {*seen}
    assert audit(folder).is_clean


def test_an_operator_may_ask_as_often_as_needed_in_one_run(tmp_path: Path) -> None:
    tries: list[int] = []

    async def ask(crawl: Assembled) -> None:
        for number in range(6):
            await asyncio.sleep(60.0)
            assert await want(crawl, f"call{number}", with_killed=True) == 1
            await asyncio.sleep(60.0)
            assert len(tries) == number + 2

    parser = busy(Reason.PARSE_KILLED, 99, tries)
    crawl_folder(tmp_path / "c", Pages(SITE), [HOST], parser=parser, meanwhile=ask)
