"""The audit of a crawl with renders: nothing where nothing is wrong, and each breach that is
planted.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from crawling import QUICK, crawl_folder
from lycosa.base.model.capture import Location
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.parsed import Link
from lycosa.inspect.audit.crawl_audit import AuditOptions
from lycosa.inspect.audit.folder_audit import audit
from lycosa.state.store import journal, layout
from lycosa.state.store.journal import read_all_rows, read_header, read_rows
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.warc_records import CrawlInfo
from lycosa.synthetic import SyntheticResolver, SyntheticWeb, WebPlan
from render_samples import TEXT, failed_render, finished_render
from store_samples import capture, close_all, fetched, open_store, parsed

PLAN = WebPlan(seed=5, hosts=2, pages=6, cross_links=0.2, robots=1.0)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished crawl of which three pages were rendered."""
    folder = tmp_path_factory.mktemp("crawls") / "rendered"
    web = SyntheticWeb(PLAN)
    crawl_folder(
        folder,
        web,
        [web.seed_url()],
        QUICK,
        resolver=lambda clock: SyntheticResolver(web.hosts, clock),
    )
    (path,) = (folder / "journal").glob("*.zst")
    header = read_header(path)
    pages = [r for r in read_rows(path) if r.kind is FetchKind.PAGE and r.status == 200]
    store = open_store(
        folder, seed=9, info=CrawlInfo(crawl=header.crawl, software="x", user_agent="x")
    )
    for at, row in enumerate(pages[:3]):
        page = capture(fetched(row.url, started=row.date_us / 1_000_000))
        page = msgspec.structs.replace(
            page, host=row.host, site=row.site, fetch_number=row.fetch_number, depth=row.depth
        )
        place = Location(layout.warc_name(row.segment), row.offset, row.length, row.record_id)
        document = msgspec.structs.replace(
            parsed(0, text=TEXT), links=[Link(row.url, b"", b"", LinkKind.A)]
        )
        store.append_render(
            failed_render(page, place) if at == 2 else finished_render(page, place, document)
        )
    close_all(store)
    return folder


@pytest.fixture
def folder(crawled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(crawled, tmp_path / "crawl"))


def breached(folder: Path) -> dict[str, list[str]]:
    report = audit(folder, AuditOptions(sample=0))
    return {check.name: check.first for check in report.checks if check.breaches}


def rewrite(folder: Path, change: Callable[[JournalRow], JournalRow]) -> None:
    path = next(
        path
        for path in (folder / "journal").glob("*.zst")
        if read_header(path).options.get("renders")
    )
    lines = [
        journal.encode_header(read_header(path)),
        *(journal.encode_line(change(row)) for row in read_all_rows(path)),
    ]
    path.write_bytes(journal.encode_journal_frame(lines))


def test_a_crawl_with_renders_holds_every_promise(crawled: Path) -> None:
    report = audit(crawled, AuditOptions(sample=0))
    assert {check.name: check.first for check in report.checks if check.breaches} == {}
    counted = {check.name: check.checked for check in report.checks}
    assert counted["render records"] and counted["renders"] >= 3
    notes = next(check.notes for check in report.checks if check.name == "render records")
    assert "3 renders: 2 have the better text, 1 no document" in notes


def test_a_render_of_no_stored_capture_is_found(folder: Path) -> None:
    rewrite(folder, lambda row: msgspec.structs.replace(row, fetch_number=7))
    assert len(breached(folder)["render records"]) == 3


def test_a_changed_row_of_a_render_is_found(folder: Path) -> None:
    rewrite(folder, lambda row: msgspec.structs.replace(row, text=row.text and "another"))
    found = breached(folder)
    assert any("text" in each for each in found["render records"])
    assert "renders" in found and "text" in found


def test_a_changed_record_of_a_render_is_found(folder: Path) -> None:
    def change(row: JournalRow) -> JournalRow:
        assert row.render is not None
        first = msgspec.structs.replace(row.render.records[0], digest="sha1:" + "A" * 32)
        records = (first, *row.render.records[1:])
        return msgspec.structs.replace(
            row, render=msgspec.structs.replace(row.render, records=records)
        )

    rewrite(folder, change)
    assert any("digest" in each for each in breached(folder)["render records"])


def test_a_link_of_a_render_without_a_record_is_found(folder: Path) -> None:
    def change(row: JournalRow) -> JournalRow:
        urls = [row.url + "/unknown" for _ in row.links.urls]
        return msgspec.structs.replace(row, links=msgspec.structs.replace(row.links, urls=urls))

    rewrite(folder, change)
    assert any("/unknown" in each for each in breached(folder)["outlinks"])


def test_a_lost_table_of_renders_is_noted_and_a_strange_one_is_found(folder: Path) -> None:
    (path,) = (folder / "renders").iterdir()
    path.rename(path.with_name("other-w000-000009-20260101000000.parquet"))
    assert "belongs to no segment" in breached(folder)["renders"][0]
