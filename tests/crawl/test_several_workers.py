"""Crawls by two and three workers: equal and alike pages are found whichever worker owns them,
and nothing is lost or doubled.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from dying import Dying, copied
from judging import (
    are_balanced,
    asked,
    host_states,
    is_polite,
    outcomes,
    quick_config,
    stored_rows,
    tables,
    urls_of,
)
from lycosa.base.config.sections import BudgetSection, FrontierSection
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import join_url
from lycosa.state.exchange.exchange_errors import ExchangeError
from lycosa.state.exchange.exchange_port import ExchangeEnds, Lateness, Parcel
from lycosa.state.exchange.topic import MemoryTopics, TopicPost
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.state.seen.content_seen import decode_original
from lycosa.synthetic import Crash
from scripted import Answer, page, scripted_crawl
from several_workers import SlowExchange, run_workers
from virtual_crawl import VirtualCrawl, in_memory

SITES = [f"http://s{n}.test/" for n in range(5)]
PAGES = 6
CONFIG = quick_config(frontier=FrontierSection(partitions=5, bands=4, head=6))


def prose(seed: int, odd: str = "") -> str:
    chance = random.Random(seed)
    return " ".join([odd, *(f"word{chance.randrange(5000)}" for _ in range(800))])


def twins(change: str = "") -> dict[str, Answer]:
    """Five sites with the same pages, or with nearly the same text; each site's pages come
    seconds after those of the site before.
    """
    answers: dict[str, Answer] = {}
    for number, site in enumerate(SITES):
        links = [f"{site}{n}" for n in range(PAGES)]
        after = [SITES[number + 1]] if number + 1 < len(SITES) else []
        answers[site] = page(*links, text=f"home of {number}", latency_s=1.0)
        for n, link in enumerate(links):
            odd = f"{change}{number}" if change else ""
            answers[link] = page(
                *(after if n == PAGES - 1 else []), text=prose(n, odd), latency_s=0.2
            )
    last = {f"{site}{PAGES - 1}" for site in SITES}
    return {url: answer for url, answer in answers.items() if url not in last} | {
        url: answers[url] for url in last
    }


def captures(crawl: VirtualCrawl) -> dict[str, bool]:
    """Pages that were stored, and whether as a revisit of an equal one; each once."""
    rows = [row for row in stored_rows(crawl.folder) if row.kind is FetchKind.PAGE]
    assert len({row.url for row in rows}) == len(rows)
    return {row.url: bool(row.revisit) for row in rows}


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_equal_bodies_are_found_whichever_worker_owns_them(workers: int, tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", twins(), CONFIG)
    run_workers(crawl, workers, SITES[:1])
    found = captures(crawl)
    assert set(found) == set(asked(crawl.log)) and len(found) == len(SITES) * (PAGES + 1)
    body = [f"{site}{n}" for site in SITES for n in range(PAGES - 1)]
    assert [found[url] for url in body] == [False] * (PAGES - 1) + [True] * (PAGES - 1) * (
        len(SITES) - 1
    )
    assert sum(reason is Reason.DUPLICATE for _, reason in outcomes(crawl).values()) == (
        PAGES - 1
    ) * (len(SITES) - 1)
    are_balanced(crawl)
    is_polite(crawl.log, crawl.config.politeness)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_texts_much_alike_are_found_whichever_worker_owns_them(
    workers: int, tmp_path: Path
) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", twins("odd"), CONFIG)
    run_workers(crawl, workers, SITES[:1])
    near = {url for url, (_, reason) in outcomes(crawl).items() if reason is Reason.NEAR_DUPLICATE}
    rows = {row.url: row for row in stored_rows(crawl.folder)}
    alone, _ = scripted_crawl(tmp_path / "alone", twins("odd"), CONFIG)
    run_workers(alone, 1, SITES[:1])
    assert near == {
        url for url, (_, reason) in outcomes(alone).items() if reason is Reason.NEAR_DUPLICATE
    }
    assert len(near) > 12
    origins = [rows[url].near_duplicate_of for url in near if not url.startswith(SITES[0])]
    assert all(origin is not None and origin.url.startswith(SITES[0]) for origin in origins)


def test_without_answers_everything_is_stored_in_full(tmp_path: Path) -> None:
    exchange = SlowExchange()
    exchange.is_deaf = True
    crawl, _ = scripted_crawl(tmp_path / "c", twins(), CONFIG)
    run = run_workers(crawl, 2, SITES[:1], exchange=exchange)
    found = captures(crawl)
    assert len(found) == len(SITES) * (PAGES + 1)
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    # those that the worker owns itself
    assert 0 < sum(found.values()) < (PAGES - 1) * (len(SITES) - 1)
    assert run


def test_what_one_worker_stored_is_found_by_a_later_run_with_another_number_of_workers(
    tmp_path: Path,
) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", twins(), CONFIG)
    answers = twins()
    half = {url: answer for url, answer in answers.items() if url.startswith(tuple(SITES[:2]))}
    crawl.answers.answers = half  # type: ignore[attr-defined]
    run_workers(crawl, 3, SITES[:1])
    crawl.answers.answers = answers  # type: ignore[attr-defined]
    crawl.now += 100_000
    run_workers(crawl, 2, SITES[2:3])
    crawl.now += 1000
    run_workers(crawl, 1, ["http://s4.test/0"])
    rows = [
        row for row in stored_rows(crawl.folder) if row.kind is FetchKind.PAGE and row.status == 200
    ]
    whole = {
        row.url
        for row in rows
        if not row.revisit and row.url[-1].isdigit() and not row.url.endswith(f"/{PAGES - 1}")
    }
    assert whole <= {f"{SITES[0]}{n}" for n in range(PAGES)}
    are_balanced(crawl)


@pytest.mark.parametrize("seed", range(4))
def test_crashes_and_other_numbers_of_workers_lose_nothing_and_point_at_nothing_lost(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    crawl, _ = scripted_crawl(
        tmp_path / "c",
        twins("odd" if seed % 2 else ""),
        quick_config(seed=seed, frontier=CONFIG.frontier),
    )
    stores = MemoryTables()
    crawl.open_table = in_memory(stores)
    deaths = 0
    for _ in range(5):
        image = tmp_path / "image"
        try:
            run_workers(
                crawl,
                chance.randint(1, 3),
                SITES[:1],
                Dying(copied(crawl, image), chance, chance.randrange(50, 1500)),
            )
        except Crash:
            deaths += 1
            stores.crash()
            shutil.rmtree(crawl.folder)
            image.rename(crawl.folder)
        crawl.now += 60
    run_workers(crawl, 2, SITES[:1])
    run_workers(crawl, 1, SITES[:1])
    assert deaths >= 2
    assert len(captures(crawl)) == len(SITES) * (PAGES + 1)
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    are_balanced(crawl)
    rows = stored_rows(crawl.folder)
    known = {row.record_id for row in rows}
    pointed = [
        origin.record_id
        for row in rows
        for origin in (row.original, row.near_duplicate_of)
        if origin is not None
    ]
    assert len(pointed) > 8 and set(pointed) <= known
    with tables(crawl) as opened:
        for table in opened:
            keys = [*table.scan(b"C", b"D"), *table.scan(b"s", b"t")]
            assert {decode_original(value).record_id for _, value in keys} <= known
            assert not [key for key, _ in table.scan(b"O", b"P") if len(key) > 5], (
                "every parcel arrived"
            )


def test_links_from_sites_of_other_workers_earn_pages_too(tmp_path: Path) -> None:
    names = [f"http://n{n}.test/" for n in range(10)]
    answers: dict[str, Answer] = {"http://big.example/": page(*[f"/{n}" for n in range(30)])}
    answers |= {f"http://big.example/{n}": page() for n in range(30)} | {
        url: page("http://big.example/") for url in names
    }
    budgets = BudgetSection(site_pages=3, pages_per_linking_site=2, park_s=100.0)
    crawl, _ = scripted_crawl(
        tmp_path / "c", answers, quick_config(frontier=CONFIG.frontier, budgets=budgets)
    )
    run_workers(crawl, 2, ["http://big.example/", *names])
    crawl.now += 10_000
    run_workers(crawl, 3, [])
    assert host_states(crawl)["big.example"].usage.captures == 3 + 10 * 2
    assert are_balanced(crawl).count_in(UrlState.PARKED) == 31 - 23


# -- through topics


class TopicExchange(SlowExchange):
    """Parcels go through topics, which outlive the workers: each worker is of one partition.
    Some appends are lost, late or repeated.
    """

    def __init__(
        self, chance: random.Random | None = None, lateness: Lateness | None = None
    ) -> None:
        super().__init__()
        self.topics, self._chance, self._lateness = MemoryTopics(), chance, lateness

    def ends(self, number: int) -> ExchangeEnds:
        return ExchangeEnds(
            TopicPost(self._append), self, self.topics.inbound(number), self._lateness
        )

    async def _append(self, parcel: Parcel) -> int:
        kind = (
            self._chance.choices(("", "lost", "unanswered", "twice", "late"), (30, 20, 15, 15, 20))[
                0
            ]
            if self._chance
            else ""
        )
        if kind == "late":
            await asyncio.sleep(self._chance.uniform(0.0, 3.0) if self._chance else 0.0)
        if kind == "lost":
            raise ExchangeError("lost")
        if kind == "twice":
            await self.topics.append_parcel(parcel)
        position = await self.topics.append_parcel(parcel)
        if kind == "unanswered":
            raise ExchangeError("the acknowledgement was lost")
        return position


@pytest.mark.parametrize("lateness", [None, Lateness(seconds=3.0)])
@pytest.mark.parametrize("has_faults", [False, True])
def test_workers_that_hand_over_by_topics_crawl_what_others_crawl(
    has_faults: bool, lateness: Lateness | None, tmp_path: Path
) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", twins(), CONFIG)
    exchange = TopicExchange(random.Random(5) if has_faults else None, lateness)
    running = run_workers(crawl, len(SITES), SITES[:1], exchange=exchange)
    assert len(captures(crawl)) == len(SITES) * (PAGES + 1)
    are_balanced(crawl)
    is_polite(crawl.log, crawl.config.politeness)
    ends = [exchange.topics.last_position(number) for number in range(len(SITES))]
    assert [each.topic.position for each in running] == ends and sum(ends) > 10
    assert all(each.outgoing.is_idle and not each.topic.uncommitted for each in running)
    assert any(each.incoming.stepped_over for each in running) == has_faults


def test_a_worker_without_work_sends_what_it_found_at_once(tmp_path: Path) -> None:
    """The crawl of one host after the other takes no longer than without a lateness."""
    took = []
    for name, lateness in (("late", Lateness(seconds=60.0)), ("at once", None)):
        crawl, _ = scripted_crawl(tmp_path / name, twins(), CONFIG)
        run_workers(crawl, len(SITES), SITES[:1], exchange=TopicExchange(None, lateness))
        assert len(captures(crawl)) == len(SITES) * (PAGES + 1)
        took.append(max(each.end for each in crawl.log.exchanges))
    assert took[0] < took[1] + 60.0, took


@pytest.mark.parametrize("has_faults", [False, True])
def test_verdicts_of_near_duplicates_arrive_by_topics(has_faults: bool, tmp_path: Path) -> None:
    """The records name the originals in the end, whether or not the row of the capture did."""
    crawl, _ = scripted_crawl(tmp_path / "c", twins("odd"), CONFIG)
    exchange = TopicExchange(random.Random(5) if has_faults else None, Lateness(seconds=3.0))
    run_workers(crawl, len(SITES), SITES[:1], exchange=exchange)
    near = {url for url, (_, reason) in outcomes(crawl).items() if reason is Reason.NEAR_DUPLICATE}
    alone, _ = scripted_crawl(tmp_path / "alone", twins("odd"), CONFIG)
    run_workers(alone, 1, SITES[:1])
    assert near == {
        url for url, (_, reason) in outcomes(alone).items() if reason is Reason.NEAR_DUPLICATE
    }
    assert are_balanced(crawl).reasons[Reason.NEAR_DUPLICATE] == len(near) > 12
    with tables(crawl) as opened:
        originals = {
            join_url("https" if record.secure else "http", host.host, record.target): (
                record.history.duplicate_of
            )
            for table in opened
            for host, _, record in urls_of(table)
            if record.history is not None and record.history.duplicate_of
        }
    assert originals.keys() == near
    assert all(url.startswith(SITES[0]) for url in originals.values())
