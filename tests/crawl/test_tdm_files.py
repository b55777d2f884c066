"""``/.well-known/tdmrep.json``: requested before the pages of an origin, if the purpose needs it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from absences import AwayFetcher
from dying import Dying, copied
from judging import (
    are_balanced,
    is_polite,
    outcomes,
    quick_config,
    stored_rows,
    tables,
)
from lycosa.base.config.sections import (
    AgentSection,
    Config,
    FrontierSection,
    PolitenessSection,
    RefetchRule,
    RefetchSection,
    RobotsSection,
)
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.ports import Fetcher
from lycosa.base.preferences.preference_model import PreferenceSource
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.stages.politeness.tdm_cache import TdmRecord, decode_tdm_record
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.store.journal_rows import JournalRow
from lycosa.synthetic import Crash, Response
from scripted import Answer, error, first, moved, page, robots, scripted_crawl
from several_workers import run_workers
from virtual_crawl import VirtualCrawl, in_memory

SITE = "http://a.example/"
FILE = f"{SITE}.well-known/tdmrep.json"
RESERVED = [{"location": "/art", "tdm-reservation": 1, "tdm-policy": f"{SITE}policy.json"}]
DAY_S = 86_400.0


def file_of(rules: object, *headers: tuple[str, str]) -> Response:
    body = json.dumps(rules).encode()
    return Response(200, [("Content-Type", "application/json"), *headers], body, 0.02)


def settings(*purpose: str, **sections: object) -> Config:
    return quick_config(
        agent=AgentSection(purpose=purpose),
        frontier=FrontierSection(partitions=8, bands=4, head=6),
        politeness=PolitenessSection(delay_s=1.0, jitter=0.0, adaptive_factor=0.0),
        **sections,
    )


def site(host: str = SITE, tdm: Answer | None = None) -> dict[str, Answer]:
    """A host with two pages, one of them reserved if its file is ``RESERVED``."""
    answers: dict[str, Answer] = {
        f"{host}robots.txt": robots("User-agent: *\nDisallow: /no"),
        host: page("/art/1", "/news"),
        f"{host}art/1": page(text="a"),
        f"{host}news": page(text="b"),
    }
    return answers if tdm is None else {**answers, f"{host}.well-known/tdmrep.json": tdm}


def pages(crawl: VirtualCrawl) -> list[JournalRow]:
    return [row for row in stored_rows(crawl.folder) if row.kind is FetchKind.PAGE]


def reserved(rows: Sequence[JournalRow]) -> set[str]:
    """The URLs whose captures have a reservation of the file."""
    return {
        row.url
        for row in rows
        for each in row.preferences.statements
        if each.source is PreferenceSource.TDM_FILE and each.answers
    }


def records(crawl: VirtualCrawl) -> list[TdmRecord]:
    with tables(crawl) as opened:
        return [
            decode_tdm_record(value)
            for table in opened
            for _, value in table.scan(b"t", prefix_end(b"t"))
        ]


def is_clean(crawl: VirtualCrawl) -> None:
    is_polite(crawl.log, crawl.config.politeness)
    are_balanced(crawl)
    report = audit(crawl.folder)
    assert report.is_clean, report.first_breaches()
    assert sum(each.checked for each in report.checks if each.name == "tdm") == sum(
        each.source is PreferenceSource.TDM_FILE
        for row in pages(crawl)
        for each in row.preferences.statements
    )


@pytest.mark.parametrize("purpose", [(), ("search",), ("ai-input", "archive")])
def test_without_the_purpose_no_request_is_sent_for_it(
    purpose: tuple[str, ...], tmp_path: Path
) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", site(tdm=file_of(RESERVED)), settings(*purpose))
    crawl.run([SITE])
    assert crawl.log.urls() == [f"{SITE}robots.txt", SITE, f"{SITE}art/1", f"{SITE}news"]
    assert records(crawl) == [] and reserved(pages(crawl)) == set()


@pytest.mark.parametrize("purpose", [("ai-train",), ("search", "ai-train"), ("tdm",)])
@pytest.mark.parametrize("workers", [1, 3])
def test_it_is_requested_once_after_robots_txt_and_before_every_page(
    purpose: tuple[str, ...], workers: int, tmp_path: Path
) -> None:
    hosts = [f"http://s{n}.example/" for n in range(6)]
    web = {url: answer for host in hosts for url, answer in site(host, file_of(RESERVED)).items()}
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings(*purpose))
    run_workers(crawl, workers, hosts)
    for host in hosts:
        assert [url for url in crawl.log.urls() if url.startswith(host)] == [
            f"{host}robots.txt",
            f"{host}.well-known/tdmrep.json",
            host,
            f"{host}art/1",
            f"{host}news",
        ]
    assert reserved(pages(crawl)) == {f"{host}art/1" for host in hosts}
    is_clean(crawl)


def test_each_origin_has_a_file_of_its_own(tmp_path: Path) -> None:
    web = site(tdm=file_of(RESERVED))
    secure = "https://a.example/"
    web |= {
        f"{secure}robots.txt": robots(""),
        f"{secure}art/2": page(),
        f"{secure}.well-known/tdmrep.json": file_of([{"location": "/", "tdm-reservation": 0}]),
    }
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings("ai-train"))
    crawl.run([SITE, f"{secure}art/2"])
    stated = {
        row.url: [each.answers["tdm"] for each in row.preferences.statements]
        for row in pages(crawl)
    }
    assert stated == {
        SITE: [],
        f"{SITE}news": [],
        f"{SITE}art/1": [False],
        f"{secure}art/2": [True],
    }
    assert len(records(crawl)) == 2
    is_clean(crawl)


def test_robots_txt_can_forbid_it(tmp_path: Path) -> None:
    web = site(tdm=file_of(RESERVED))
    web[f"{SITE}robots.txt"] = robots("User-agent: *\nDisallow: /.well-known/")
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings("ai-train"))
    crawl.run([SITE])
    assert FILE not in crawl.log.urls() and len(pages(crawl)) == 3
    assert records(crawl) == [] and reserved(pages(crawl)) == set()


@pytest.mark.parametrize(
    "answer",
    [
        error(404),
        error(500),
        error(429),
        error(429, ("Retry-After", "20")),
        moved("http://elsewhere.example/tdmrep.json"),
        Response(200, [("Content-Type", "application/json")], b'[{"location": "/', 0.02),
        Response(200, [], b"<html>welcome", 0.02),
        Response(200, [], b"", 500.0),
    ],
    ids=["404", "500", "429", "retry-after", "moved", "torn", "html", "silent"],
)
def test_whatever_it_answers_the_pages_are_fetched_after_one_request(
    answer: Response, tmp_path: Path
) -> None:
    config = settings("ai-train", robots=RobotsSection(retry_s=3600.0))
    crawl, _ = scripted_crawl(tmp_path / "c", site(tdm=answer), config)
    crawl.run([SITE])
    urls = crawl.log.urls()
    assert urls.count(FILE) == 1 and urls.index(FILE) == 1
    assert {url for url, (state, _) in outcomes(crawl).items() if state is UrlState.FETCHED} == {
        SITE,
        f"{SITE}art/1",
        f"{SITE}news",
    }
    assert not any(url.startswith("http://elsewhere") for url in urls)
    assert crawl.now < 300, "only the host's delay was waited for"
    (record,) = records(crawl)
    assert record.version == "" or not record.rules.rules
    assert record.failures == (answer.status >= 429 or answer.latency_s > 60)
    assert reserved(pages(crawl)) == set()
    stored = [row for row in stored_rows(crawl.folder) if row.kind is FetchKind.TDM_FILE]
    assert [row.url for row in stored] == ([FILE] if answer.latency_s < 60 else [])
    is_clean(crawl)


def test_while_its_server_fails_it_is_asked_again_at_doubling_intervals(tmp_path: Path) -> None:
    number = 200
    web: dict[str, Answer] = {f"{SITE}{n}": page(text=f"{n}") for n in range(number)}
    web |= {f"{SITE}robots.txt": robots(""), SITE: page(*web), FILE: error(503)}
    politeness = PolitenessSection(delay_s=5.0, jitter=0.0, adaptive_factor=0.0, backoff_s=1.0)
    config = msgspec.structs.replace(
        settings("ai-train", robots=RobotsSection(retry_s=60.0)), politeness=politeness
    )
    crawl, _ = scripted_crawl(tmp_path / "c", web, config)
    crawl.run([SITE])
    times = [each.start for each in crawl.log.exchanges if each.path == "/.well-known/tdmrep.json"]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(pages(crawl)) == number + 1
    assert len(gaps) >= 3
    for nth, gap in enumerate(gaps):
        assert 60 * 2**nth <= gap < 60 * 2**nth + 40


@pytest.mark.parametrize("second", [error(404), error(500)], ids=["404", "500"])
def test_a_file_applies_for_a_day_and_longer_only_while_its_server_fails(
    second: Response, tmp_path: Path
) -> None:
    config = settings("ai-train", refetch=RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=DAY_S))
    web = site(tdm=first(1, file_of(RESERVED), second))
    crawl, _ = scripted_crawl(tmp_path / "c", web, config)
    crawl.run([SITE])
    crawl.now += 1.5 * DAY_S
    crawl.run([])
    assert crawl.log.urls().count(FILE) == 2
    before, after = pages(crawl)[:3], pages(crawl)[3:]
    assert len(after) >= 3 and reserved(before) == {f"{SITE}art/1"}
    assert reserved(after) == (set() if second.status == 404 else {f"{SITE}art/1"})
    is_clean(crawl)


def test_max_age_shortens_its_use_and_a_later_run_uses_what_is_stored(tmp_path: Path) -> None:
    config = settings(
        "ai-train", refetch=RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=3600.0, min_s=60.0)
    )
    for age, asked in (("86400", 1), ("600", 2)):
        web = site(tdm=file_of(RESERVED, ("Cache-Control", f"max-age={age}")))
        crawl, _ = scripted_crawl(tmp_path / age, web, config)
        crawl.run([SITE])
        crawl.now += 3700
        crawl.run([])
        assert len(pages(crawl)) >= 6
        assert crawl.log.urls().count(FILE) == asked


def test_a_host_that_accepts_no_connection_for_it_waits_as_for_a_page(tmp_path: Path) -> None:
    """Nothing is learned about the file, so it is asked for when the host is back, and counts."""
    crawl, _ = scripted_crawl(tmp_path / "c", site(tdm=file_of(RESERVED)), settings("ai-train"))
    tried: list[AwayFetcher] = []

    def is_away(host: str, now: float) -> Reason | None:
        return Reason.CONNECT_REFUSED if 1.0 < now < 200.0 else None

    def wrap(inner: Fetcher) -> Fetcher:
        tried.append(AwayFetcher(inner, crawl.clock, is_away))
        return tried[-1]

    crawl.wrap = wrap
    crawl.run([SITE])
    assert crawl.log.urls()[:3] == [f"{SITE}robots.txt", FILE, SITE]
    gaps = [after - before for (_, before), (_, after) in pairwise(tried[0].tried)]
    assert 2 <= len(gaps) < 8 and all(a <= b * 1.01 for a, b in pairwise(gaps[:-1]))
    assert reserved(pages(crawl)) == {f"{SITE}art/1"} and len(pages(crawl)) == 3
    is_clean(crawl)


def test_an_operator_reads_what_the_file_says(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", site(tdm=file_of(RESERVED)), settings("ai-train"))
    crawl.run([SITE])
    reader = read_folder(crawl.folder)
    saved = load_saved_settings(reader)
    for path, said in (("art/1", "tdm-reservation: 1"), ("news", "nothing")):
        answer = explain(reader, saved, f"{SITE}{path}", 0.0)
        facts = {fact.key: fact.value for fact in answer.facts}
        assert str(facts["tdm_file"]).startswith(said), facts["tdm_file"]
        assert facts["tdm_file_status"] == 200


@pytest.mark.parametrize("seed", range(8))
def test_no_page_is_stored_without_it_when_workers_die(seed: int, tmp_path: Path) -> None:
    chance, stores = random.Random(seed), MemoryTables()
    hosts = [f"http://s{n}.example/" for n in range(8)]
    web = {url: answer for host in hosts for url, answer in site(host, file_of(RESERVED)).items()}
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings("ai-train"))
    crawl.open_table = in_memory(stores)
    deaths = 0
    for _ in range(5):
        image = tmp_path / "image"
        workers, at = chance.choice((1, 2, 4)), chance.randrange(40, 500)
        try:
            run_workers(crawl, workers, hosts, Dying(copied(crawl, image), random.Random(at), at))
        except Crash:
            deaths += 1
            stores.crash()
            shutil.rmtree(crawl.folder)
            image.rename(crawl.folder)
            are_balanced(crawl)
    run_workers(crawl, 2, hosts)
    assert deaths >= 1
    rows = pages(crawl)
    assert {row.url for row in rows} >= {f"{host}news" for host in hosts}
    assert reserved(rows) == {f"{host}art/1" for host in hosts}
    is_polite(crawl.log, crawl.config.politeness)
    are_balanced(crawl)
    assert len(records(crawl)) == len(hosts)
    for host in hosts:
        # each death repeats at most the request that was in flight
        assert crawl.log.urls().count(f"{host}.well-known/tdmrep.json") <= 1 + deaths
