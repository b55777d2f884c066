"""A crawl with the purpose ai-train over a site with every source of preferences: everything is
recorded, and all outputs have the content of exactly the pages that the purpose may use.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import HTML, QUICK, Pages, crawl_folder, page, robots
from lycosa.base.calls import ContentFound, ContentQuery
from lycosa.base.config.scope_sections import UnstatedUse
from lycosa.base.config.sections import (
    AgentSection,
    Config,
    RefetchRule,
    RefetchSection,
    StoreSection,
)
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.preferences.preference_model import PreferenceSource
from lycosa.base.reasons import Reason
from lycosa.cli.main import main
from lycosa.feeds.folder_lines import FolderLines
from lycosa.feeds.page_feed import PageFeed
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.queries.question_thread import StateReader
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.state.shard.folder_view import recent_views
from lycosa.state.store.closing import build_derived
from lycosa.state.store.derived_files import CONTENT, DERIVED_KINDS, RENDERS
from lycosa.state.store.journal import read_header, read_rows
from lycosa.state.store.journal_rows import JournalRow
from lycosa.synthetic import Response
from written_archive import WrittenArchive

SITE, RULES, SIGNALS, FILES = (
    f"http://{name}.example/" for name in ("plain", "rules", "signals", "files")
)
SEEDS = [SITE, f"{RULES}usage/no", f"{RULES}usage/yes", f"{SIGNALS}", f"{FILES}art", f"{FILES}news"]
DAY_S = 86_400.0


class FailingParser(InlineParser):
    """Answers documents whose URL is ``failing`` as if the machine had been too busy."""

    def __init__(self, config: ParserConfig, failing: str) -> None:
        super().__init__(config)
        self._failing = failing

    async def parse(self, document: ParseInput) -> Parsed:
        if document.url == self._failing:
            return Parsed(reason=Reason.INTERNAL)
        return await super().parse(document)


def failing(url: str) -> Callable[[ParserConfig], FailingParser]:
    return functools.partial(FailingParser, failing=url)


def stating(name: str, *headers: tuple[str, str], head: str = "", status: int = 200) -> Response:
    """A page whose text, title, description and anchor name it."""
    word = words_of(name)
    about = f'<meta name="description" content="about {word}">'
    made = page(SITE, text=f"text of {word}", title=f"title of {word}", head=about + head)
    return Response(status, [HTML, *headers], made.body)


def words_of(url: str) -> str:
    """The word that stands for a page in its content, and nowhere else."""
    return "page-" + "-".join(re.findall("[a-z]+", url.removeprefix("http://"))) + "-content"


WEB: dict[str, Response | Sequence[Response]] = {
    f"{SITE}robots.txt": robots("User-agent: *", "Allow: /"),
    SITE: page(
        *("usage", "signal", "tag", "tagged-image", "meta", "tdm", "tdm-meta", "searchless"),
        *("paid", "license", "conflict", "unreadable"),
        text=f"text of {words_of(SITE)}",
        title=f"title of {words_of(SITE)}",
    ),
    f"{SITE}usage": stating(f"{SITE}usage", ("Content-Usage", "train-ai=n")),
    f"{SITE}signal": stating(f"{SITE}signal", ("Content-Signal", "search=yes, ai-train=no")),
    f"{SITE}tag": stating(f"{SITE}tag", ("X-Robots-Tag", "noai")),
    f"{SITE}tagged-image": stating(f"{SITE}tagged-image", ("X-Robots-Tag", "noimageai")),
    f"{SITE}meta": stating(f"{SITE}meta", head='<meta name="robots" content="noai">'),
    f"{SITE}tdm": stating(f"{SITE}tdm", ("tdm-reservation", "1")),
    f"{SITE}tdm-meta": stating(f"{SITE}tdm-meta", head='<meta name="tdm-reservation" content="1">'),
    f"{SITE}searchless": stating(f"{SITE}searchless", ("Content-Usage", "search=n, train-ai=y")),
    f"{SITE}paid": stating(f"{SITE}paid", ("Crawler-Price", "USD 0.01"), status=402),
    f"{SITE}license": stating(
        f"{SITE}license",
        head='<link rel="license" type="application/rsl+xml" href="/rsl.xml">',
    ),
    f"{SITE}conflict": stating(
        f"{SITE}conflict", ("Content-Usage", "train-ai=y"), ("Content-Signal", "ai-train=no")
    ),
    f"{SITE}unreadable": stating(f"{SITE}unreadable", ("Content-Usage", "((train-ai=n")),
    f"{RULES}robots.txt": robots(
        "User-agent: *",
        "Content-Usage: train-ai=y",
        "Content-Usage: /usage/no train-ai=n",
        "License: https://license.example/rsl.xml",
        "Allow: /",
    ),
    f"{RULES}usage/no": stating(f"{RULES}usage/no"),
    f"{RULES}usage/yes": stating(f"{RULES}usage/yes"),
    f"{SIGNALS}robots.txt": robots("User-agent: *", "Content-Signal: search=yes, ai-train=no"),
    SIGNALS: stating(SIGNALS),
    f"{FILES}.well-known/tdmrep.json": Response(
        200, [], b'[{"location": "/art", "tdm-reservation": 1}]'
    ),
    f"{FILES}art": stating(f"{FILES}art"),
    f"{FILES}news": stating(f"{FILES}news"),
}
SOURCES = {
    f"{SITE}usage": [PreferenceSource.USAGE_HEADER],
    f"{SITE}signal": [PreferenceSource.SIGNAL_HEADER],
    f"{SITE}tag": [PreferenceSource.ROBOTS_TAG],
    f"{SITE}tagged-image": [PreferenceSource.ROBOTS_TAG],
    f"{SITE}meta": [PreferenceSource.ROBOTS_META],
    f"{SITE}tdm": [PreferenceSource.TDM_HEADER],
    f"{SITE}tdm-meta": [PreferenceSource.TDM_META],
    f"{SITE}searchless": [PreferenceSource.USAGE_HEADER],
    f"{SITE}license": [PreferenceSource.LICENSE_MARKUP],
    f"{SITE}conflict": [PreferenceSource.USAGE_HEADER, PreferenceSource.SIGNAL_HEADER],
    f"{SITE}unreadable": [PreferenceSource.USAGE_HEADER],
    f"{RULES}usage/no": [PreferenceSource.USAGE_ROBOTS, PreferenceSource.LICENSE_ROBOTS],
    f"{RULES}usage/yes": [PreferenceSource.USAGE_ROBOTS, PreferenceSource.LICENSE_ROBOTS],
    SIGNALS: [PreferenceSource.SIGNAL_ROBOTS],
    f"{FILES}art": [PreferenceSource.TDM_FILE],
}
DENIED = {
    *(f"{SITE}{name}" for name in ("usage", "signal", "tag", "meta", "tdm", "tdm-meta")),
    *(f"{SITE}conflict", f"{RULES}usage/no", SIGNALS, f"{FILES}art"),
}
ALLOWED = {
    *(SITE, f"{SITE}tagged-image", f"{SITE}searchless", f"{SITE}license", f"{SITE}unreadable"),
    *(f"{RULES}usage/yes", f"{FILES}news"),
}


def settings(*purpose: str, unstated: UnstatedUse = UnstatedUse.USE, **sections: Any) -> Config:
    agent = AgentSection(purpose=purpose, unstated=unstated)
    store = StoreSection(links=True, text=True)
    return msgspec.structs.replace(QUICK, agent=agent, **{"store": store, **sections})


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("preferences") / "crawl"
    crawl_folder(folder, Pages(WEB), SEEDS, settings("ai-train"))
    return folder


def rows_of(folder: Path) -> list[JournalRow]:
    paths = sorted((folder / "journal").glob("*.zst"))
    return [row for path in paths for row in read_rows(path) if row.kind is FetchKind.PAGE]


def text_files(folder: Path) -> str:
    paths = sorted((folder / "text").glob("*.wet.gz"))
    return "".join(gzip.decompress(path.read_bytes()).decode() for path in paths)


def texts_in(found: str) -> set[str]:
    """The pages of the web whose words are in ``found``."""
    return {url for url in WEB if words_of(url) in found}


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    assert main([str(each) for each in arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# What is recorded


def test_every_source_is_recorded_with_its_text(crawl: Path) -> None:
    rows = {row.url: row for row in rows_of(crawl)}
    assert rows.keys() >= ALLOWED | DENIED | {f"{SITE}paid"}
    found = {
        url: [each.source for each in row.preferences.statements]
        for url, row in rows.items()
        if row.preferences.statements
    }
    assert found == SOURCES
    denied = {url for url, row in rows.items() if row.preferences.answers.get("ai-train") is False}
    assert denied == DENIED
    (usage, _) = rows[f"{RULES}usage/no"].preferences.statements
    assert (usage.line, usage.text) == (3, "train-ai=n")
    (unreadable,) = rows[f"{SITE}unreadable"].preferences.statements
    assert (unreadable.text, unreadable.answers) == ("((train-ai=n", {})


def test_the_journal_has_the_text_of_every_page(crawl: Path) -> None:
    assert {row.url for row in rows_of(crawl) if row.text} == ALLOWED | DENIED


def test_a_payment_is_never_made_and_its_price_is_kept(crawl: Path) -> None:
    (paid,) = [row for row in rows_of(crawl) if row.url == f"{SITE}paid"]
    assert (paid.status, paid.preferences.price) == (402, "USD 0.01")
    (asked,) = printed_status(crawl, f"{SITE}paid")
    assert asked == Reason.PAYMENT_REQUIRED.label


def printed_status(folder: Path, url: str) -> list[str]:
    reader = read_folder(folder)
    found = reader.find_url(url)
    assert found is not None
    return [found.record.reason.label]


# What the outputs have


def test_texts_are_those_of_the_allowed_pages(crawl: Path) -> None:
    assert texts_in(text_files(crawl)) == ALLOWED


def test_tables_have_every_fetch_and_the_content_of_the_allowed_pages(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row["url"]: row for row in printed(capsys, "export", crawl, "pages")}
    assert rows.keys() >= ALLOWED | DENIED
    assert {url for url, row in rows.items() if row["title"]} == ALLOWED
    assert texts_in(json.dumps(list(rows.values()))) == ALLOWED
    assert {url for url, row in rows.items() if row["may_use"] is False} == DENIED
    assert {url for url, row in rows.items() if row["use_ai_train"] is False} == DENIED
    assert rows[f"{SITE}searchless"]["use_search"] is False
    assert rows[SITE]["use_search"] is None and rows[SITE]["preferences"] is None
    statement = {"source": "signal_robots", "line": 2, "text": "search=yes, ai-train=no"}
    assert rows[SIGNALS]["preferences"] == [statement]
    assert rows[f"{SITE}license"]["license"] == f"{SITE}rsl.xml"
    assert rows[f"{SITE}paid"]["payment_price"] == "USD 0.01"
    links = printed(capsys, "export", crawl, "links")
    assert {link["source_url"] for link in links} == ALLOWED | DENIED
    assert {link["source_url"] for link in links if link["anchor"]} == ALLOWED


def test_sql_answers_with_the_content_of_the_allowed_pages(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", str(crawl), "--json", "SELECT url, text FROM texts"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["url"] for row in found} == ALLOWED == texts_in(json.dumps(found))
    query = "SELECT url FROM pages WHERE NOT may_use"
    assert main(["sql", str(crawl), "--json", query]) == 0
    assert {row["url"] for row in json.loads(capsys.readouterr().out)} == DENIED


def test_the_feed_has_every_fetch_and_the_content_of_the_allowed_pages(crawl: Path) -> None:
    rows = [json.loads(row) for row in PageFeed(FolderLines(crawl)).new_rows()]
    pages = {row["url"]: row for row in rows if not row.get("kind")}
    assert texts_in(json.dumps(rows)) == ALLOWED
    assert {url for url, row in pages.items() if not row["may_use"]} == DENIED
    assert pages[SIGNALS]["preferences"][0]["ai-train"] is False


async def test_the_interface_gives_the_text_of_the_allowed_pages(crawl: Path) -> None:
    reader, folder = StateReader(recent_views(crawl), share=1.0), read_folder(crawl)
    try:
        for url in (SITE, f"{SITE}license", SIGNALS, f"{SITE}meta", f"{FILES}art"):
            query = ContentQuery(url, as_text=True)
            found = await reader.answer(folder.partition_of(url), query)
            assert isinstance(found, ContentFound)
            about = json.loads(found.about)
            assert about["may_use"] is (url in ALLOWED)
            assert texts_in(found.body.decode() + json.dumps(about)) == {url} & ALLOWED
            assert ("does not allow" in about["reason"]) is (url in DENIED)
            stored = await reader.answer(folder.partition_of(url), ContentQuery(url))
            assert isinstance(stored, ContentFound) and stored.body.startswith(b"<!DOCTYPE")
    finally:
        await reader.close()


def test_explain_names_the_line(crawl: Path) -> None:
    reader = read_folder(crawl)
    answer = explain(reader, load_saved_settings(reader), f"{RULES}usage/no", 0.0)
    facts = {fact.key: fact for fact in answer.facts}
    assert facts["statements"].value[0] == "robots.txt line 3: Content-Usage: train-ai=n"
    assert facts["preferences"].text == "ai-train=no"
    assert facts["may_use"].value is False
    assert facts["license"].value == "https://license.example/rsl.xml"


def test_captures_are_counted_by_host_and_preference(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = read_folder(crawl)
    status = crawl_status(reader, load_saved_settings(reader), 0.0)
    assert status.purpose == ("ai-train",)
    assert status.preferences["ai-train=no"] == len(DENIED)
    assert (status.preferences["price"], status.preferences["license"]) == (1, 3)
    hosts = {row["host"]: row["preferences"] for row in printed(capsys, "export", crawl, "hosts")}
    assert hosts["signals.example"] == "search=yes: 1, ai-train=no: 1"
    assert main(["status", str(crawl)]) == 0
    assert f"ai-train=no: {len(DENIED)}" in capsys.readouterr().out


def test_the_audit_agrees_and_rebuilt_files_have_the_same_bytes(crawl: Path) -> None:
    report = audit(crawl)
    assert [each.first for each in report.checks if each.breaches] == []
    for path in sorted((crawl / "journal").glob("*.zst")):
        assert read_header(path).policy.purpose == ("ai-train",)
    for kind in [each for each in DERIVED_KINDS if each not in (CONTENT, RENDERS)]:  # not there
        for path in sorted((crawl / kind).iterdir()):
            before = path.read_bytes()
            path.unlink()
            assert build_derived(crawl, path.name.partition(".")[0])
            assert path.read_bytes() == before


def test_an_archive_leaves_out_what_the_purpose_may_not_use(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def exported(name: str, *options: str) -> tuple[dict[str, Any], WrittenArchive]:
        path = tmp_path / name
        assert main(["export", str(crawl), "wacz", "-o", str(path), "--json", *options]) == 0
        return json.loads(capsys.readouterr().out), WrittenArchive(path)

    report, archive = exported("purpose.wacz")
    assert {line["url"] for line in archive.lines}.isdisjoint(DENIED)
    assert {each["url"] for each in archive.pages} == ALLOWED
    assert texts_in(archive.all_text()) == ALLOWED | {f"{SITE}paid"}
    assert report["left_out"] == len(DENIED)
    everything, archive = exported("everything.wacz", "--purpose", "record")
    assert {each["url"] for each in archive.pages} == ALLOWED | DENIED
    assert everything["left_out"] == 0
    archive.check()


# Other purposes


def test_the_stored_crawl_is_exported_for_another_purpose(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    every = ALLOWED | DENIED
    by_purpose = {
        "search": every - {f"{SITE}searchless"},
        "record": every,
        "search,ai-train": ALLOWED - {f"{SITE}searchless"},
    }
    for purpose, wanted in by_purpose.items():
        found = printed(capsys, "export", crawl, "texts", "--purpose", purpose)
        assert {row["url"] for row in found} == wanted == texts_in(json.dumps(found))
        target = tmp_path / f"pages.{purpose}.jsonl"
        assert main(["export", str(crawl), "pages", "--purpose", purpose, "-o", str(target)]) == 0
        assert texts_in(target.read_text()) == wanted
    capsys.readouterr()
    stated = printed(capsys, "export", crawl, "texts", "--purpose", "search", "--unstated", "skip")
    assert {row["url"] for row in stated} == {f"{SITE}signal", SIGNALS}
    assert texts_in(text_files(crawl)) == ALLOWED, "the files of the crawl stay"


def test_texts_are_not_exported_in_part(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    shutil.copytree(crawl, folder)
    for path in (folder / "journal").iterdir():
        path.unlink()
    assert main(["export", str(folder), "texts"]) == 1
    found = capsys.readouterr()
    assert found.out == "" and "which alone has its texts" in found.err
    assert len(printed(capsys, "export", folder, "pages")) > len(ALLOWED)


def test_an_unknown_use_is_refused(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(crawl), "texts", "--purpose", "training"]) == 2
    assert "'training' is not a use; there are search, ai-train" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--purpose", "search"), ("--unstated", "skip")])
def test_a_table_without_content_has_no_purpose(
    crawl: Path, option: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(crawl), "hosts", *option]) == 2
    assert f"{option[0]} is for tables with content" in capsys.readouterr().err


def test_unstated_pages_may_be_skipped(tmp_path: Path) -> None:
    crawl_folder(tmp_path / "c", Pages(WEB), SEEDS, settings("ai-train", unstated=UnstatedUse.SKIP))
    assert texts_in(text_files(tmp_path / "c")) == {f"{SITE}searchless", f"{RULES}usage/yes"}


def test_without_a_purpose_everything_is_recorded_and_nothing_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    crawl_folder(folder, Pages(WEB), SEEDS, settings())
    assert texts_in(text_files(folder)) == ALLOWED | DENIED
    rows = printed(capsys, "export", folder, "pages")
    assert {row["may_use"] for row in rows} == {None}
    assert {row["url"] for row in rows if row["use_ai_train"] is False} == DENIED - {f"{FILES}art"}
    assert not any("well-known" in row["url"] for row in rows)


def test_another_purpose_begins_a_new_segment(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    crawl_folder(folder, Pages(WEB), SEEDS, settings("ai-train"), stop_after_s=3.0)
    first = sorted((folder / "journal").iterdir())
    crawl_folder(folder, Pages(WEB), SEEDS, settings("search"), start=100.0)
    policies = [read_header(path).policy.purpose for path in sorted((folder / "journal").iterdir())]
    assert len(first) == 1 and policies == [("ai-train",), ("search",)]
    assert [each.first for each in audit(folder).checks if each.breaches] == []


# Visits without change


def again(etag: str, *headers: tuple[str, str]) -> Response:
    return Response(304, [("ETag", etag), *headers], b"")


def crawled_twice(folder: Path, web: dict[str, Any], *seeds: str) -> list[JournalRow]:
    refetch = RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=DAY_S, min_s=DAY_S, max_s=DAY_S)
    config = settings("ai-train", refetch=refetch)
    pages = Pages(web)
    crawl_folder(folder, pages, list(seeds), config, stop_after_s=3_600.0)
    crawl_folder(folder, pages, list(seeds), config, start=DAY_S * 1.5, stop_after_s=3_600.0)
    rows = rows_of(folder)
    assert [each.first for each in audit(folder).checks if each.breaches] == []
    return rows


def test_a_304_has_new_headers_and_robots_and_the_markup_of_the_body(tmp_path: Path) -> None:
    no_ai = '<meta name="robots" content="noai">'
    etag = ("ETag", '"1"')
    opened, closed = f"{SITE}opened", f"{SITE}closed"
    web = {
        f"{SITE}robots.txt": [
            robots("User-agent: *", "Content-Usage: search=y"),
            robots("User-agent: *", "Content-Usage: search=n"),
        ],
        f"{SITE}marked": [stating(f"{SITE}marked", etag, head=no_ai), again('"1"')],
        opened: [stating(opened, etag, ("Content-Usage", "train-ai=n")), again('"1"')],
        closed: [stating(closed, etag), again('"1"', ("Content-Usage", "train-ai=n"))],
    }
    rows = crawled_twice(tmp_path / "c", web, f"{SITE}marked", opened, closed)
    found = {(row.url, row.fetch_number): row for row in rows if row.status in (200, 304)}
    answers = {key: row.preferences.answers for key, row in found.items()}
    assert {row.status for key, row in found.items() if key[1] == 2} == {304}
    assert answers == {
        (f"{SITE}marked", 1): {"search": True, "ai-train": False, "ai-input": False},
        (f"{SITE}marked", 2): {"search": False, "ai-train": False, "ai-input": False},
        (opened, 1): {"search": True, "ai-train": False},
        (opened, 2): {"search": False},
        (closed, 1): {"search": True},
        (closed, 2): {"search": False, "ai-train": False},
    }
    # the fetch's statement counts for its capture: what was allowed then stays
    words = text_files(tmp_path / "c")
    assert words_of(closed) in words
    assert words_of(opened) not in words and words_of(f"{SITE}marked") not in words


async def test_a_revisit_is_judged_by_its_fetch_whatever_the_original_states(
    tmp_path: Path,
) -> None:
    body, other = stating("http://same.example/").body, stating("http://other.example/").body
    no = ("Content-Usage", "train-ai=n")
    web = {
        f"{SITE}a": [Response(200, [HTML, no], body), Response(200, [HTML], body)],
        f"{SITE}b": [Response(200, [HTML], other), Response(200, [HTML, no], other)],
    }
    folder = tmp_path / "c"
    # not on this loop: virtual time has one of its own
    rows = await asyncio.to_thread(crawled_twice, folder, web, f"{SITE}a", f"{SITE}b")
    found = {(row.url, row.fetch_number): row for row in rows if row.url != SITE}
    assert {key: row.preferences.answers for key, row in found.items()} == {
        (f"{SITE}a", 1): {"ai-train": False},
        (f"{SITE}a", 2): {},
        (f"{SITE}b", 1): {},
        (f"{SITE}b", 2): {"ai-train": False},
    }
    assert {row.revisit for key, row in found.items() if key[1] == 2} == {
        "identical-payload-digest"
    }
    texts = text_files(folder)
    assert texts.count(words_of("http://same.example/")) == 1
    assert f"WARC-Refers-To: <{found[f'{SITE}a', 2].record_id}>" in texts
    assert texts.count(words_of("http://other.example/")) == 1
    assert f"WARC-Refers-To: <{found[f'{SITE}b', 1].record_id}>" in texts
    # the newest capture of each, whose body is that of the original
    words = {url: await text_of(folder, url) for url in (f"{SITE}a", f"{SITE}b")}
    assert words_of("http://same.example/") in words[f"{SITE}a"]
    assert words[f"{SITE}b"] == ""


async def text_of(folder: Path, url: str) -> str:
    reader = StateReader(recent_views(folder), share=1.0)
    try:
        query = ContentQuery(url, as_text=True)
        found = await reader.answer(read_folder(folder).partition_of(url), query)
        assert isinstance(found, ContentFound) and found.total_bytes >= 0
        return found.body.decode()
    finally:
        await reader.close()


def test_markup_that_is_read_by_a_later_parse_holds_for_the_next_304(tmp_path: Path) -> None:
    url, folder = f"{SITE}late", tmp_path / "c"
    answer = stating(url, ("ETag", '"1"'), head='<meta name="robots" content="noai">')
    pages = Pages({url: [answer, again('"1"')]})
    refetch = RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=DAY_S, min_s=DAY_S, max_s=DAY_S)
    config = settings("ai-train", refetch=refetch)
    parser = failing(url)
    crawl_folder(folder, pages, [url], config, stop_after_s=600.0, parser=parser)
    crawl_folder(folder, pages, [url], config, start=3_600.0, stop_after_s=600.0)
    crawl_folder(folder, pages, [url], config, start=DAY_S * 1.5, stop_after_s=3_600.0)
    found = [(row.status, row.preferences.answers) for row in rows_of(folder) if row.url == url]
    assert found == [(200, {}), (304, {"ai-train": False, "ai-input": False})]
    assert texts_in(text_files(folder)) <= {SITE}, "what was not parsed has no text"
