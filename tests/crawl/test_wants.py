"""What pages need to be rendered, between the owners of hosts: fetched once, in turns of the hosts,
and told to each page, however many workers there are and whenever they die.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import msgspec
import pytest

from dying import Dying, copied
from judging import (
    are_balanced,
    is_polite,
    outcomes,
    tables,
)
from lycosa.base.calls import RenderVerdict
from lycosa.base.config.sections import (
    BudgetSection,
    LimitSection,
)
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.shard.counters import counters_of
from lycosa.synthetic import VIRTUAL_EPOCH, Crash, Response
from rendering import script
from scripted import error, scripted_crawl
from several_workers import run_workers
from virtual_crawl import VirtualCrawl, in_memory, sum_of
from wanting import CDN, Everywhere, settings, sites, web_of


def judge(crawl: VirtualCrawl, number: int) -> None:
    """Everything that pages needed was fetched once, by the rules of its host, and all are done."""
    asked = [url for url in crawl.log.urls() if not url.endswith("/robots.txt")]
    wanted = {
        url for url in web_of(number) if not url.endswith(("robots.txt", "no.js", "/data.json"))
    }
    assert set(asked) == wanted | {f"{site}gone.json" for site in sites(number)}
    is_polite(crawl.log, crawl.config.politeness)
    found = outcomes(crawl)
    assert found[f"{CDN}no.js"] == (UrlState.REFUSED, Reason.ROBOTS_DISALLOWED)
    counters = are_balanced(crawl)
    assert counters.wanted == 3 + 3 * number, "what pages needed, without the pages"
    with tables(crawl) as opened:
        for table in opened:
            left = [
                key for prefix in (b"v", b"d") for key, _ in table.scan(prefix, prefix_end(prefix))
            ]
            assert not [key for key in left if len(key) == 17]
    report = audit(crawl.folder)
    assert report.is_clean, report.first_breaches()


@pytest.mark.parametrize("workers", [1, 3])
def test_what_pages_of_many_sites_need_is_fetched_once(workers: int, tmp_path: Path) -> None:
    number, renderers = 6, Everywhere()
    crawl, web = scripted_crawl(tmp_path / "c", web_of(number), settings())
    run_workers(crawl, workers, sites(number), meanwhile=renderers.begin)
    judge(crawl, number)
    assert len(crawl.log.urls()) == len(set(crawl.log.urls()))
    assert set(renderers.verdicts) == {RenderVerdict.TAKEN}
    for n, site in enumerate(sites(number)):
        document = renderers.document(site)
        for text in (f"data of {n}", "lib", "more"):
            assert f"<p>{text}</p>" in document, (site, text)
        assert "forbidden" not in document and "another" not in document
    (fields,) = web.headers[f"{CDN}more.js"]
    assert (fields["accept"], fields["referer"][-9:]) == ("*/*", ".example/")
    (fields,) = web.headers["http://s0.example/own0.json"]
    assert fields["accept"] == "application/json,text/plain,*/*"
    assert fields["referer"] == "http://s0.example/"
    assert "referer" not in web.headers["http://s0.example/"][0]


@pytest.mark.parametrize(
    "seed", [1, 4, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 50))]
)
def test_no_want_is_lost_when_workers_die(seed: int, tmp_path: Path) -> None:
    chance, stores, number = random.Random(seed), MemoryTables(), 5
    crawl, _ = scripted_crawl(tmp_path / "c", web_of(number), settings())
    crawl.open_table = in_memory(stores)
    deaths = 0
    for _ in range(6):
        image = tmp_path / "image"
        workers, at = chance.choice((1, 2, 4)), chance.randrange(40, 400)
        dying = Dying(copied(crawl, image), random.Random(at), at)
        try:
            run_workers(crawl, workers, sites(number), dying, meanwhile=Everywhere().begin)
        except Crash:
            deaths += 1
            stores.crash()
            shutil.rmtree(crawl.folder)
            image.rename(crawl.folder)
            are_balanced(crawl)
    run_workers(crawl, 2, sites(number), meanwhile=Everywhere().begin)
    assert deaths >= 2
    judge(crawl, number)


@pytest.mark.parametrize(("workers", "most"), [(1, 8), (1, 2), (2, 8), (2, 2)])
def test_a_limit_on_pages_counts_pages_and_lets_them_be_rendered(
    workers: int, most: int, tmp_path: Path
) -> None:
    """Thirteen captures, of which four are pages; with a limit of two, eleven."""
    renderers = Everywhere()
    crawl, _ = scripted_crawl(
        tmp_path / "c", web_of(2), settings(limits=LimitSection(max_pages=most))
    )
    run_workers(crawl, workers, sites(2), meanwhile=renderers.begin)
    with tables(crawl) as opened:
        counters = sum_of(counters_of(table) for table in opened)
    pages = min(most, 4)
    assert (counters.captures, counters.limited_captures) == (9 + pages, pages)
    for site in sites(2):
        assert "<p>lib</p>" in renderers.document(site)
    asked = {url for url in crawl.log.urls() if url.endswith("/found")}
    assert len(asked) == pages - 2
    if most == 8:
        judge(crawl, 2)
    else:
        are_balanced(crawl)
        assert crawl.now < 200, "it ends when its pages are rendered"


def test_a_host_over_its_budget_keeps_no_page_waiting(tmp_path: Path) -> None:
    """The host of the library is parked after six captures, and the pages go on without the rest."""
    renderers, number = Everywhere(), 3
    config = settings(budgets=BudgetSection(host_pages=6, park_s=86_000.0))
    web = web_of(number)
    web[f"{CDN}lib-2.js"] = script(*(f"import ./{n}.js" for n in range(9)), "text lib")
    crawl, _ = scripted_crawl(tmp_path / "c", web, config)
    run_workers(crawl, 2, sites(number), meanwhile=renderers.begin)
    asked = [url for url in crawl.log.urls() if url.startswith(CDN) and url.endswith(".js")]
    assert len(asked) == 6, asked
    are_balanced(crawl)
    with tables(crawl) as opened:
        assert not sum(len(list(table.scan(b"v", prefix_end(b"v")))) for table in opened)
    for site in sites(number):
        assert "<p>lib</p>" in renderers.document(site)
    assert crawl.now < 600, "no page waited for what did not come"


def test_a_page_that_asks_not_to_be_followed_wants_nothing(tmp_path: Path) -> None:
    web = web_of(1)
    (site,) = sites(1)
    response = web[site]
    assert isinstance(response, Response)
    web[site] = msgspec.structs.replace(
        response, body=b'<meta name="robots" content="nofollow">' + response.body
    )
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    run_workers(crawl, 1, [site], meanwhile=Everywhere().begin)
    assert set(crawl.log.urls()) == {f"{site}robots.txt", site}


def test_a_page_does_not_wait_for_a_host_that_is_away(tmp_path: Path) -> None:
    """Its render ends without the script, whose URL stays and says who waits for it."""
    web, renderers = web_of(1), Everywhere()
    web[f"{CDN}robots.txt"] = error(503)
    (site,) = sites(1)
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    run_workers(crawl, 1, [site], meanwhile=renderers.begin)
    assert 600 < crawl.now < 2000, "render.wait_s"
    document = renderers.document(site)
    assert "<p>data of 0</p>" in document and "<p>lib</p>" not in document
    are_balanced(crawl)
    reader = read_folder(crawl.folder)
    saved, now = load_saved_settings(reader), VIRTUAL_EPOCH + crawl.now
    facts = {each.key: each.value for each in explain(reader, saved, f"{CDN}lib.js", now).facts}
    assert (facts["wanted_by"], facts["found_as"], facts["priority"]) == (1, "wanted", 1.0)
