"""Crawls with user code that die at random points: in the end each page has its rows once, links
that only user code found were followed, and the scores are those of an undisturbed crawl.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from dying import Dying, copied
from judging import are_balanced, quick_config, stored_rows, tables, urls_of
from lycosa.base.config.sections import FrontierSection, StoreSection
from lycosa.base.urls.identity import join_url
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.synthetic import Crash
from scripted import page, scripted_crawl
from several_workers import run_workers
from virtual_crawl import in_memory

HOSTS = [f"http://{name}.test/" for name in "abc"]
ANSWERS = {
    url: answer
    for at, host in enumerate(HOSTS)
    for other in [HOSTS[(at + 1) % len(HOSTS)]]
    for url, answer in {
        host: page(*(f"{host}p/{n}" for n in range(5))),
        **{f"{host}p/{n}": page(f"{other}p/{n}", text=f"page {n} of {host} ") for n in range(5)},
        f"{host}p/hidden": page(text=f"only user code finds this one of {host} "),
        f"{host}p/copy": page(f"{other}p/0", text=f"page 0 of {host} "),  # the body of p/0
    }.items()
}
CODE = """
import lycosa

class Row(lycosa.Item, frozen=True):
    url: str
    words: list[str]

@lycosa.extract(Row, match="/p/")
def rows(page):
    yield Row(page.url, page.select_one("body").text.split())
    yield Row(page.url, [])

@lycosa.links(match="/p/3")
def hidden(page):
    yield from ("hidden", "copy")

@lycosa.score
def by_length(page, link):
    return len(link.url) / 30

every = [rows, hidden, by_length]
"""
CONFIG = quick_config(
    frontier=FrontierSection(partitions=4, bands=8, head=2),
    store=StoreSection(segment_bytes=2_000_000, segment_age_s=8.0, commit_s=1.0),
)
POINTS = {1: 600, 3: 1400}
"""About how many points are reached in an undisturbed crawl, by the number of workers."""
Outcome = tuple[list[str], dict[str, int]]


def outcome_of(folder: Path, workers: int, deaths: Sequence[int] = ()) -> tuple[Outcome, int]:
    """The rows and scores of a crawl that dies when it reaches these points, one after another, and
    how often it did.
    """
    crawl, _ = scripted_crawl(folder / "c", ANSWERS, CONFIG)
    stores, died = MemoryTables(), 0
    crawl.open_table = in_memory(stores)
    (folder / "shop.py").write_text(CODE)
    crawl.code = (f"{folder / 'shop.py'}:every",)
    for at in deaths:
        image = folder / f"image-{died}"
        try:
            run_workers(crawl, workers, HOSTS, Dying(copied(crawl, image), random.Random(at), at))
        except Crash:
            died += 1
            stores.crash()
            shutil.rmtree(crawl.folder)
            shutil.move(image, crawl.folder)
            crawl.now += 20.0
    run_workers(crawl, workers, HOSTS)
    are_balanced(crawl)
    rows = sorted(str(each) for row in stored_rows(crawl.folder) for each in row.items.items())
    with tables(crawl) as opened:
        scores = {
            join_url("http", host.host, record.target): record.score
            for table in opened
            for host, _, record in urls_of(table)
        }
    return (rows, scores), died


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    (rows, scores), _ = outcome_of(tmp_path_factory.mktemp("undisturbed"), 1)
    assert len(rows) == 21 and set(scores) == set(ANSWERS)
    assert all((score >= 0) == ("/p/" in url) for url, score in scores.items())
    return rows, scores


def is_undisturbed(folder: Path, expected: Outcome, workers: int, seed: int, points: int) -> int:
    """A crawl that is to die at so many random points ends as the undisturbed one; gives how often
    it died.
    """
    chance = random.Random(f"{workers} {seed}")
    deaths = [chance.randrange(1, POINTS[workers] // (number + 1)) for number in range(points)]
    folder.mkdir()
    found, died = outcome_of(folder, workers, deaths)
    assert found == expected, (workers, seed, deaths)
    shutil.rmtree(folder)
    return died


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_links_and_scores_are_those_of_an_undisturbed_crawl(
    tmp_path: Path, undisturbed: Outcome, workers: int
) -> None:
    died = sum(
        is_undisturbed(tmp_path / str(seed), undisturbed, workers, seed, 3) for seed in range(6)
    )
    assert died >= 7


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 3])
def test_at_many_points(tmp_path: Path, undisturbed: Outcome, workers: int) -> None:
    died, seed = 0, 100
    while died < 100:
        died += is_undisturbed(tmp_path / str(seed), undisturbed, workers, seed, 3)
        seed += 1
