"""User code where it meets other parts: pages that are fetched again, code that changes, bodies
that are not parsed, PDF files.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

import lycosa
from judging import are_balanced, quick_config, stored_rows, tables, urls_of
from lycosa.__main__ import main
from lycosa.base.config.sections import (
    FrontierSection,
    LimitSection,
    RefetchRule,
    RefetchSection,
)
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.reasons import Reason
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.stages.extract.code_source import known_of, load_code
from lycosa.stages.extract.inline_code import InlineCode
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.state.kv.table_records import SET_BACK_BAND, prefix_end, row_urls
from lycosa.state.store import layout
from lycosa.state.store.journal import read_header, read_rows
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader, remarks_of
from lycosa.state.store.segments import SegmentStore
from lycosa.synthetic import Response
from lycosa.worker.assemble import Assembled
from lycosa.worker.code_in_use import extractors_of
from pdf_files import pdf_file
from scripted import Answer, page, scripted_crawl
from virtual_crawl import VirtualCrawl

A = "http://a.test/"
ANSWERS = {
    A: page(*(f"{A}p/{n}" for n in range(6))),
    **{f"{A}p/{n}": page(text=f"page number {n} ") for n in range(6)},
}
CODE = """
import lycosa

class Row(lycosa.Item, frozen=True):
    version: int

@lycosa.extract(Row, match="/p/", version={version})
def rows(page):
    yield Row({version})

@lycosa.links(match="/p/")
def more(page):
    yield "/found-by-{version}"

both = [rows, more]
"""


class ChangingCode(InlineCode):
    """Changes to the next of ``codes`` whenever it is asked about a page at one of ``turns``."""

    asked, turns, codes = 0, frozenset[int](), list[str]()
    store: SegmentStore | None = None

    async def answer(self, page: GivenDocument, codes: tuple[int, ...] = ()) -> ExtensionAnswer:
        found = await super().answer(page, codes)
        self.asked += 1
        if self.asked in self.turns:
            loaded = [load_code(self.__class__.codes.pop(0))]
            assert self.store is not None
            self.store.use_extractors(extractors_of([known_of(each) for each in loaded]))
            self.generation += 1
            self._use(loaded)
        return found


def versions(folder: Path, number: int) -> list[str]:
    """The names of so many versions of the code."""
    found = []
    for version in range(1, number + 1):
        file = folder / f"shop{version}.py"
        file.write_text(CODE.replace("{version}", str(version)))
        found.append(f"{file}:both")
    return found


def changed_at(folder: Path, *turns: int) -> VirtualCrawl:
    """A crawl whose code changed to the next version at each of the turns."""
    crawl, _ = scripted_crawl(folder / "c", ANSWERS, quick_config())
    first, *others = versions(folder, len(turns) + 1)

    class Changing(ChangingCode):
        codes = others

    Changing.turns = frozenset(turns)

    def meanwhile(assembled: Assembled) -> None:
        caller = assembled.pipeline._code.caller
        assert isinstance(caller, Changing)
        caller.store = assembled.store

    crawl.code, crawl.caller = (first,), Changing
    crawl.run([A], meanwhile=meanwhile)
    return crawl


def headers_and_rows(folder: Path) -> Iterator[tuple[SegmentHeader, list[JournalRow]]]:
    for name in layout.closed_segments(folder):
        path = folder / layout.file_name(layout.JOURNAL, name)
        yield read_header(path), list(read_rows(path))


def pages(folder: Path) -> dict[str, JournalRow]:
    return {row.url: row for row in stored_rows(folder) if "/p/" in row.url}


def test_a_page_whose_code_changes_is_given_to_the_new_code(tmp_path: Path) -> None:
    crawl = changed_at(tmp_path, 3)
    rows = pages(crawl.folder)
    assert Counter(str(row.items) for row in rows.values()) == {
        "{'rows': [[1]]}": 2,
        "{'rows': [[2]]}": 4,
    }
    # nothing of the earlier answer is left: neither its links nor a remark
    for row in rows.values():
        ((version,),) = row.items["rows"]
        assert row.links.urls == [f"{A}found-by-{version}"]
        assert not remarks_of(row)
    for header, found in headers_and_rows(crawl.folder):
        (extractor,) = header.extractors
        assert {version for row in found for ((version,),) in row.items.values()} <= {
            extractor.version
        }


def test_a_page_whose_code_changes_again_has_a_remark(tmp_path: Path) -> None:
    crawl = changed_at(tmp_path, 3, 4)
    rows = pages(crawl.folder).values()
    (without,) = (row for row in rows if not row.items)
    (remark,) = remarks_of(without)
    assert remark.reason is Reason.EXTENSION_FAILED
    assert "Replaced" in remark.detail
    assert Counter(str(row.items) for row in rows if row.items) == {
        "{'rows': [[1]]}": 2,
        "{'rows': [[3]]}": 3,
    }


class Unable(InlineParser):
    """Cannot parse one page."""

    async def parse(self, document: ParseInput) -> Parsed:
        if document.url == f"{A}p/3" and not document.tries:
            return Parsed(Reason.PARSE_STALLED)
        return await super().parse(document)


def test_a_page_that_was_not_parsed_is_extracted_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", ANSWERS, quick_config())
    (code,) = versions(tmp_path, 1)
    crawl.code, crawl.parser = (code,), Unable
    crawl.run([A])
    rows = pages(crawl.folder)
    stalled = rows.pop(f"{A}p/3")
    assert not stalled.items and all(row.items for row in rows.values())
    assert any(
        each.reason is Reason.EXTENSION_FAILED and "NotParsed" in each.detail
        for each in remarks_of(stalled)
    )
    assert main(["extract", str(crawl.folder), code, "--failed", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["extractors"]
    assert (report["captures"], report["items"], report["failed"]) == (1, 6, 0)
    assert web.asked[f"{A}p/3"] == 1


PDF = pdf_file(
    [["Wolf spiders hunt at night"]],
    info={"Title": "On spiders"},
    links=[(0, 0, "/only-in-the-file")],
)
FEED = """<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>
<item><title>A bridge</title><link>/bridge</link></item></channel></rss>"""
SEEN = """
import lycosa

class Seen(lycosa.Item, frozen=True):
    text: str
    main: str
    title: str
    links: list[str]
    titles: list[str]

@lycosa.extract(Seen, match="one")
def seen(page):
    yield Seen(
        page.text(), page.main().text, page.title, [each.url for each in page.links],
        [each.text for each in page.select("item title")],
    )
"""


def test_pdf_files_and_feeds_are_documents_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {
        A: page(f"{A}one.pdf", f"{A}one/feed"),
        f"{A}one.pdf": Response(200, [("Content-Type", "application/pdf")], PDF),
        f"{A}one/feed": Response(200, [("Content-Type", "application/rss+xml")], FEED.encode()),
    }
    crawl, _ = scripted_crawl(tmp_path / "c", answers, quick_config())
    file = tmp_path / "shop.py"
    file.write_text(SEEN)
    crawl.code = (f"{file}:seen",)
    crawl.parser = lambda limits: InlineParser(msgspec.structs.replace(limits, reads_files=True))
    crawl.run([A])
    rows = {row.url: row.items["seen"] for row in stored_rows(crawl.folder) if row.items}
    text = "Wolf spiders hunt at night"
    paper = [text, text, "On spiders", [f"{A}only-in-the-file"], []]
    assert rows[f"{A}one.pdf"] == [paper]
    ((feed, _, _, links, titles),) = rows[f"{A}one/feed"]
    assert (feed, links, titles) == (FEED, [f"{A}bridge"], ["A bridge"])
    # from the stored bytes, without what the crawl read
    found = lycosa.document(PDF, url=f"{A}one.pdf")
    assert [found.text(), found.main().text, found.title] == paper[:3]
    assert [each.url for each in found.links] == paper[3]
    assert main(["extract", str(crawl.folder), crawl.code[0], "--again"]) == 0
    capsys.readouterr()
    assert main(["export", str(crawl.folder), "items.seen"]) == 0
    again = {
        each["_url"]: [each[name] for name in ("text", "main", "title", "links", "titles")]
        for each in map(json.loads, capsys.readouterr().out.splitlines())
    }
    assert again == {url: found for url, (found,) in rows.items()}


def changing(text: str, etag: str = "") -> Answer:
    """A page that is another one from the second request on; with ``etag`` it is validated."""

    def answer(earlier: int, headers: Mapping[str, str]) -> Response:
        sent = {name.lower(): value for name, value in headers.items()}
        tag = f'"{etag}"'
        if etag and sent.get("if-none-match") == tag:
            return Response(304, [("ETag", tag)], b"", 0.05)
        shown = f"{text} {earlier if not etag else 0} "
        return page(text=shown, headers=[("ETag", tag)] if etag else ())

    return answer


WORDS = """
import lycosa

class Text(lycosa.Item, frozen=True):
    url: str
    text: str

@lycosa.extract(Text, match="/p/")
def shown(page):
    yield Text(page.url, page.select_one("body").text)

@lycosa.score
def even(page, link):
    return 1.0 if link.url[-1] in "02468" else None

both = [shown, even]
"""


def test_rows_of_pages_that_are_fetched_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: dict[str, Answer] = {
        A: page(*(f"{A}p/{name}" for name in ("changes", "same", "validated", "copy", "back"))),
        f"{A}p/changes": changing("it changes"),
        f"{A}p/same": page(text="always the same words "),
        f"{A}p/validated": changing("with a validator", etag="v"),
        f"{A}p/copy": changing("with a validator", etag="w"),  # the same body elsewhere
        f"{A}p/back": lambda earlier, _: page(text=f"now and then {earlier % 2} "),
    }
    refetch = RefetchSection(
        rule=RefetchRule.ADAPTIVE, first_s=3600.0, min_s=3600.0, max_s=3600.0, check_every=1
    )
    crawl, _ = scripted_crawl(tmp_path / "c", answers, quick_config(refetch=refetch))
    file = tmp_path / "shop.py"
    file.write_text(WORDS)
    crawl.code = (f"{file}:shown",)
    for _ in range(3):
        crawl.run([A])
        crawl.now += 3700
    history: dict[str, list[tuple[int, list[str]]]] = {}
    for row in stored_rows(crawl.folder):
        found = [text for _, text in row.items.get("shown", ())]
        history.setdefault(row.url.removeprefix(f"{A}p/"), []).append((row.status, found))
    twice = (304, []), (200, [])  # each 304 is checked by a request without validators
    assert history["changes"] == [(200, [f"it changes {n}"]) for n in range(3)]
    assert history["same"] == [(200, ["always the same words"]), (200, []), (200, [])]
    assert history["validated"] == [(200, ["with a validator 0"]), *twice, *twice]
    again = (304, []), (200, ["with a validator 0"])  # the body is that of another URL
    assert history["copy"] == [(200, ["with a validator 0"]), *again, *again]
    back = ["now and then 0"]
    assert history["back"] == [(200, back), (200, ["now and then 1"]), (200, [])]
    assert main(["sql", str(crawl.folder), "--json", "SELECT * FROM shown"]) == 0
    newest = {
        each["_url"].removeprefix(f"{A}p/"): each["text"]
        for each in json.loads(capsys.readouterr().out)
        if each["url"] == each["_url"]
    }
    assert newest == {
        "changes": "it changes 2",
        "same": "always the same words",
        "validated": "with a validator 0",
        "copy": "with a validator 0",
        "back": "now and then 0",
    }
    are_balanced(crawl)


OFFER = " ".join(f"offer{n} of house{n * n}" for n in range(40))


def test_a_score_moves_no_url_out_of_the_band_of_those_that_are_set_back(tmp_path: Path) -> None:
    """Its pattern gave near copies; the score changes its place only when it is not set back."""
    answers: dict[str, Answer] = {
        A: page(*(f"{A}offer/{n}" for n in range(80)), f"{A}late/0"),
        **{f"{A}offer/{n}": page(text=f"{OFFER}<!-- {n} -->") for n in range(80)},
        f"{A}late/0": page(*(f"{A}offer/{n}" for n in range(80))),
    }
    file = tmp_path / "shop.py"
    file.write_text(
        "import lycosa\n@lycosa.score\ndef more(page, link):\n"
        "    return 0.8 if '/late/' in page.url else 0.1\n"
    )
    frontier = FrontierSection(partitions=1, bands=32, head=6)
    config = quick_config(limits=LimitSection(max_pages=50), frontier=frontier)
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config)
    crawl.code = (f"{file}:more",)
    crawl.run([A])
    total = are_balanced(crawl)
    with tables(crawl) as opened:
        records = [record for table in opened for _, _, record in urls_of(table)]
        rows = sum(
            len(row_urls(row))
            for table in opened
            for key, row in table.scan(b"Q", prefix_end(b"Q"))
            if key[9] == SET_BACK_BAND
        )
    waiting = [each for each in records if each.reason is Reason.NEAR_COPIES]
    assert rows == total.set_back == len(waiting) > 10
    assert {each.score for each in waiting} == {204}
