"""Each reader of a crawl with renders gets the better text of a page, once, and is told which."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lycosa
from lycosa.base.model.capture import Location
from lycosa.cli.main import main
from lycosa.feeds.folder_lines import FolderLines
from lycosa.feeds.page_feed import PageFeed
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_tables import TABLES, CrawlTables
from lycosa.inspect.sql_query import ask, wanted_tables
from lycosa.inspect.wacz.replay_folder import prepare_replay
from lycosa.state.store.feed_rows import PageFeedRow
from render_samples import TEXT, failed_render, finished_render
from sample_crawl import SampleCrawl
from store_samples import close_all, numbered, parsed
from written_archive import WrittenArchive

OWN = parsed().text


class RenderedCrawl(SampleCrawl):
    """Captures 6 to 9: 6 was rendered in a closed segment, 7 in the open one, 8 twice, and 9 with
    a shorter text and without success. 1 to 5 were not.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.places = {number: self._append(number) for number in range(6, 10)}
        self._render(6)
        close_all(self.store)
        self._render(7)
        self._render(8)
        self._render(8, parsed(2, title="Rendered again", text=TEXT * 2), rendered_at=2e9)
        self._render(9, parsed(text="short"), page_characters=10_000)
        self.store.append_render(failed_render(numbered(9), self.places[9]))
        self.commit([])

    def _append(self, number: int) -> Location:
        each = numbered(number)
        self.captured.append(each.fetched.url)
        return self.store.append_capture(each)

    def _render(self, number: int, *document: Any, **changes: object) -> None:
        self.store.append_render(
            finished_render(numbered(number), self.places[number], *document, **changes)
        )


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleCrawl]:
    made = RenderedCrawl(tmp_path_factory.mktemp("rendered") / "crawl")
    yield made
    made.close()


def answer(crawl: SampleCrawl, statement: str) -> list[tuple[Any, ...]]:
    with CrawlTables(read_folder(crawl.folder), wanted_tables(statement)) as tables:
        return list(ask(tables, statement)[1])


def number_of(url: str) -> int:
    return int(url.rpartition("/")[2])


WANTED = {**dict.fromkeys(range(1, 6), OWN), 6: TEXT, 7: TEXT, 8: TEXT * 2, 9: OWN}
SOURCES = {number: "page" if text == OWN else "render" for number, text in WANTED.items()}


def test_the_tables_have_each_page_once_with_its_better_text(crawl: SampleCrawl) -> None:
    rows = answer(crawl, "SELECT url, text, text_from FROM texts")
    assert {number_of(url): text for url, text, _ in rows} == WANTED
    assert len(rows) == len(WANTED)
    rows = answer(crawl, "SELECT url, text_from, text_characters, title FROM pages ORDER BY url")
    assert [number_of(url) for url, *_ in rows] == sorted(WANTED)
    assert {number_of(url): source for url, source, *_ in rows} == SOURCES
    assert {number_of(url): size for url, _, size, _ in rows} == {
        number: len(text) for number, text in WANTED.items()
    }
    assert {number_of(url): title for url, _, _, title in rows}[8] == "Rendered again"
    assert len(answer(crawl, "SELECT * FROM fetches")) == len(WANTED)
    assert len(answer(crawl, "SELECT * FROM ccindex")) == len(WANTED)


def test_the_table_of_renders_has_all_of_them(crawl: SampleCrawl) -> None:
    rows = answer(
        crawl,
        'SELECT url, "end", is_better, text_characters - page_characters FROM renders'
        " ORDER BY url, render_time",
    )
    assert [(number_of(url), *rest) for url, *rest in rows] == [
        (6, "quiet", True, len(TEXT) - len(OWN)),
        (7, "quiet", True, len(TEXT) - len(OWN)),
        (8, "quiet", True, len(TEXT) - len(OWN)),
        (8, "quiet", True, 2 * len(TEXT) - len(OWN)),
        (9, "quiet", False, 5 - 10_000),
        (9, "hung", False, -len(OWN)),
    ]
    assert answer(crawl, "SELECT count(*) FROM links WHERE is_rendered") == [(5 + 5 + 5 + 2 + 3,)]


def test_nothing_but_the_tables_is_shown(crawl: SampleCrawl) -> None:
    assert {name for (name,) in answer(crawl, "SHOW TABLES")} == set(TABLES)
    with CrawlTables(read_folder(crawl.folder), []) as tables:
        assert set(tables.columns()) == set(TABLES)


def test_exports_have_the_better_text(
    crawl: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(crawl.folder), "texts"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {number_of(row["url"]): row["text_from"] for row in rows} == SOURCES
    assert main(["export", str(crawl.folder), "renders", "-o", str(tmp_path / "r.parquet")]) == 0


def test_programs_get_each_page_once_with_its_better_text_and_the_body(crawl: SampleCrawl) -> None:
    pages = list(lycosa.open(crawl.folder).pages())
    assert {number_of(page.url): page.text for page in pages} == WANTED
    assert {number_of(page.url): page.text_from for page in pages} == SOURCES
    assert len(pages) == len(WANTED)
    for page in pages:
        assert page.body == numbered(number_of(page.url)).fetched.body
        assert page.duplicate_of == ""
        assert page.fetched.timestamp() == numbered(number_of(page.url)).fetched.started


def test_the_feed_gives_better_texts_as_further_rows(crawl: SampleCrawl) -> None:
    rows = [json.loads(row) for row in PageFeed(FolderLines(crawl.folder)).new_rows()]
    captures = [row for row in rows if "render" not in row]
    assert len(captures) == len(WANTED)
    assert [number_of(row["url"]) for row in rows if "render" in row] == [6, 7, 8, 8]
    keys = {(row["url8"], row["fetch_number"]) for row in captures}
    for row in rows:
        assert (row["url8"], row["fetch_number"]) in keys
        assert not row.keys() - set(PageFeedRow.__struct_fields__)
    render = next(row for row in rows if "render" in row)
    assert render["render"] == {
        "end": "quiet",
        "page_characters": len(OWN),
        "page_links": 3,
        "rounds": 2,
        "requests": 3,
        "missing": 1,
        "elapsed_s": 2.5,
    }
    assert render["original"][2] in {row["record_id"] for row in captures}


def test_the_text_files_have_the_better_text_too(crawl: SampleCrawl) -> None:

    found = b"".join(gzip.decompress(path.read_bytes()) for path in _files(crawl, "text"))
    assert found.count(TEXT.encode()) == 1  # of the closed segments


def _files(crawl: SampleCrawl, kind: str) -> list[Path]:
    return sorted((crawl.folder / kind).iterdir())


def test_an_archive_has_the_records_and_the_better_text(crawl: SampleCrawl, tmp_path: Path) -> None:
    assert main(["export", str(crawl.folder), "wacz", "-o", str(tmp_path / "a.wacz")]) == 0
    archive = WrittenArchive(tmp_path / "a.wacz")
    archive.check()
    named = [line["url"] for line in archive.lines if line["url"].startswith("urn:")]
    urls = [numbered(number).fetched.url for number in (6, 7, 8, 8, 9)]
    assert sorted(named) == sorted(
        [
            *(f"urn:{name}:{url}" for url in urls for name in ("pageinfo", "text")),
            f"urn:pageinfo:{urls[-1]}",
        ]
    )
    assert {number_of(page["url"]): page["text"] for page in archive.pages} == WANTED
    assert len(archive.pages) == len(WANTED)


def test_replay_finds_the_records_of_an_open_segment_too(
    crawl: SampleCrawl, tmp_path: Path
) -> None:
    prepare_replay([crawl.folder], tmp_path)
    lines = "".join(path.read_text() for path in (tmp_path / "indexes").iterdir() if path.is_file())
    for number in (6, 7, 8, 9):
        assert f"urn:pageinfo:{numbered(number).fetched.url} " in lines
