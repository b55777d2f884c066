"""Whole crawls with user code: items in the rows of their pages, links, scores, and failures."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from dying import runs_that_may_die
from judging import are_balanced, outcomes, quick_config, stored_rows, tables, urls_of
from lycosa.base.config.sections import FrontierSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.end import End
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import join_url
from lycosa.state.store.journal_rows import JournalRow, remarks_of
from scripted import ScriptedWeb, page, scripted_crawl
from virtual_crawl import VirtualCrawl

A = "http://a.test/"
ANSWERS = {
    A: page(*(f"{A}p/{n}" for n in range(8)), f"{A}copy"),
    **{f"{A}p/{n}": page(f"{A}deep/{n}", text=f"page number {n} ") for n in range(8)},
    **{f"{A}deep/{n}": page(text=f"the deep page {n} ") for n in range(8)},
    f"{A}copy": page(f"{A}deep/0", text="page number 0 "),
    f"{A}hidden": page(text="only user code finds this one "),
}
CODE = """
import lycosa

class Row(lycosa.Item, frozen=True):
    url: str
    words: list[str]

@lycosa.extract(Row, match="/(p|copy)", version=3)
def rows(page):
    yield Row(page.url, page.select_one("body").text.split()[:3])

@lycosa.extract(Row)
def broken(page):
    yield Row(page.url, [])
    raise RuntimeError(page.url)

@lycosa.links(match="/p/3")
def hidden(page):
    yield "/hidden"
    yield "/p/4"
    yield "http://elsewhere.test:99999/"

@lycosa.score
def late_first(page, link):
    return 1.0 if link.url.endswith(("/p/7", "/deep/7")) else 0.0
"""


@pytest.fixture
def code(tmp_path: Path) -> str:
    (tmp_path / "shop.py").write_text(CODE)
    return f"{tmp_path / 'shop.py'}:"


def crawl_at(folder: Path, *code: str) -> tuple[VirtualCrawl, ScriptedWeb]:
    crawl, web = scripted_crawl(folder, ANSWERS, quick_config())
    crawl.code = code
    return crawl, web


def items(folder: Path) -> dict[str, dict[str, list[list[Any]]]]:
    return {row.url: row.items for row in stored_rows(folder) if row.items}


EXPECTED = {
    f"{A}p/{n}": {"rows": [[f"{A}p/{n}", ["page", "number", str(n)]]]} for n in range(8)
} | {f"{A}copy": {"rows": [[f"{A}copy", ["page", "number", "0"]]]}}


def test_items_stand_in_the_rows_of_their_pages(tmp_path: Path, code: str) -> None:
    crawl, _ = crawl_at(tmp_path / "c", f"{code}rows")
    assert crawl.run([A]).end is End.FINISHED
    assert items(crawl.folder) == EXPECTED
    (copy,) = (row for row in stored_rows(crawl.folder) if row.url == f"{A}copy")
    assert copy.items  # also if another URL had the same body
    assert {row.url for row in stored_rows(crawl.folder) if not row.kind.is_of_origin} == set(
        ANSWERS
    ) - {f"{A}hidden"}
    are_balanced(crawl)


def own(row: JournalRow) -> JournalRow:
    """A row without what user code may add, and what is different in every run."""
    return msgspec.structs.replace(row, items={}, remarks=(), parse_s=0.0)


def test_the_crawl_is_the_same_with_an_extractor_that_raises_on_every_page(
    tmp_path: Path, code: str
) -> None:
    plain, without = crawl_at(tmp_path / "plain")
    broken, web = crawl_at(tmp_path / "broken", f"{code}broken")
    for crawl in (plain, broken):
        assert crawl.run([A]).end is End.FINISHED
    assert web.asked == without.asked
    rows, others = stored_rows(plain.folder), stored_rows(broken.folder)
    assert [own(each) for each in rows] == [own(each) for each in others]
    for row in others:
        if not row.kind.is_of_origin:
            (remark,) = remarks_of(row)
            assert remark.reason is Reason.EXTENSION_FAILED
            assert remark.detail.endswith(":broken: RuntimeError (shop.py:15)")
    files = [
        {path.name: path.read_bytes() for path in (crawl.folder / "warc").iterdir()}
        for crawl in (plain, broken)
    ]
    assert files[0] == files[1]
    assert {url: state for url, (state, _) in outcomes(plain).items()} == {
        url: state for url, (state, _) in outcomes(broken).items()
    }
    are_balanced(broken)


@pytest.mark.parametrize("seed", range(4))
def test_items_are_stored_once_whatever_crashes(tmp_path: Path, code: str, seed: int) -> None:
    chance, folder = random.Random(seed), tmp_path / "c"
    crawl, _ = crawl_at(folder, f"{code}rows")
    assert any(list(runs_that_may_die(crawl, [A], chance, tmp_path)))
    assert crawl.run([A]).end is End.FINISHED
    assert items(folder) == EXPECTED
    are_balanced(crawl)


def test_links_of_user_code_are_crawled_as_links_of_their_own_kind(
    tmp_path: Path, code: str
) -> None:
    crawl, web = crawl_at(tmp_path / "c", f"{code}hidden")
    assert crawl.run([A]).end is End.FINISHED
    assert f"{A}hidden" in web.asked
    rows = {row.url: row for row in stored_rows(crawl.folder)}
    assert rows[f"{A}hidden"].link_kind is LinkKind.CODE
    assert rows[f"{A}hidden"].via == f"{A}p/3"
    found = rows[f"{A}p/3"].links
    assert dict(zip(found.urls, found.kinds, strict=True)) == {
        f"{A}deep/3": LinkKind.A,
        f"{A}hidden": LinkKind.CODE,
        f"{A}p/4": LinkKind.CODE,
    }
    are_balanced(crawl)


def scored(folder: Path, code: str) -> tuple[VirtualCrawl, ScriptedWeb]:
    frontier = FrontierSection(partitions=1, bands=8, head=2)
    crawl, web = scripted_crawl(folder, ANSWERS, quick_config(frontier=frontier))
    crawl.code = (code,) if code else ()
    return crawl, web


def test_what_has_a_high_score_is_fetched_first(tmp_path: Path, code: str) -> None:
    crawl, web = scored(tmp_path / "c", f"{code}late_first")
    assert crawl.run([A]).end is End.FINISHED
    pages = [url for url in web.asked if "robots" not in url]
    assert pages[:3] == [A, f"{A}p/7", f"{A}deep/7"]
    with tables(crawl) as opened:
        scores = {
            join_url("http", host.host, record.target): record.score
            for table in opened
            for host, _, record in urls_of(table)
        }
    assert scores[f"{A}p/7"] == 255 and scores[f"{A}p/1"] == 0 and scores[A] == -1
    stored = {
        row["target_url"]: row["score"]
        for path in (crawl.folder / "links").iterdir()
        for row in pq.read_table(path).to_pylist()
    }
    assert (stored[f"{A}p/7"], stored[f"{A}p/1"]) == (1.0, 0.0)
    are_balanced(crawl)


def test_a_later_higher_score_moves_a_waiting_url(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "import lycosa\n@lycosa.score\ndef second(page, link):\n"
        "    return 1.0 if page.url.endswith('/p/0') else 0.1\n"
    )
    answers = {
        A: page(*(f"{A}p/{n}" for n in range(8))),
        f"{A}p/0": page(f"{A}p/7", text="zero "),
        **{f"{A}p/{n}": page(text=f"page number {n} ") for n in range(1, 8)},
    }
    frontier = FrontierSection(partitions=1, bands=8, head=2)
    crawl, web = scripted_crawl(tmp_path / "c", answers, quick_config(frontier=frontier))
    crawl.code = (f"{file}:second",)
    assert crawl.run([A]).end is End.FINISHED
    pages = [url for url in web.asked if "robots" not in url]
    assert pages[:3] == [A, f"{A}p/0", f"{A}p/7"]
    are_balanced(crawl)
