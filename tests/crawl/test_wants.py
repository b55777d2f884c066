"""What pages need to be rendered, between the owners of hosts: fetched once, in turns of the hosts,
and told to each page, however many workers there are and whenever they die.
"""

from __future__ import annotations

import asyncio
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
    quick_config,
    tables,
)
from lycosa.base.calls import Call, CallReply, RenderVerdict
from lycosa.base.config.sections import (
    BudgetSection,
    Config,
    FrontierSection,
    LimitSection,
    PolitenessSection,
    RenderMode,
    RenderSection,
    ScopeRule,
    ScopeSection,
)
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.shard.counters import counters_of
from lycosa.synthetic import Crash, Response
from lycosa.worker.assemble import Assembled
from rendering import Renderers, script, shell
from scripted import Answer, moved, page, robots, scripted_crawl
from several_workers import run_workers
from virtual_crawl import VirtualCrawl, in_memory, sum_of

CDN = "http://cdn.test/"
DELAY_S = 2.0


def settings(**sections: object) -> Config:
    """All pages are rendered, and only pages of the seeds' hosts are crawled."""
    found: dict[str, object] = {
        "frontier": FrontierSection(partitions=8, bands=4, head=6),
        "politeness": PolitenessSection(delay_s=DELAY_S, jitter=0.0, adaptive_factor=0.0),
        "scope": ScopeSection(rule=ScopeRule.HOST),
        "render": RenderSection(mode=RenderMode.ALWAYS),
        **sections,
    }
    return quick_config(**found)


def sites(number: int) -> list[str]:
    return [f"http://s{n}.example/" for n in range(number)]


def data(text: str) -> Response:
    return Response(200, [("Content-Type", "application/json")], text.encode(), 0.05)


def web_of(number: int) -> dict[str, Answer]:
    """Pages that load a script of another site, which asks for more, and scripts of their own."""
    web: dict[str, Answer] = {
        f"{CDN}robots.txt": robots("User-agent: *\nDisallow: /no"),
        f"{CDN}lib.js": moved("/lib-2.js"),
        f"{CDN}lib-2.js": script("import ./more.js", "import ./no.js", "text lib"),
        f"{CDN}more.js": script("load /data.json", "text more"),
        f"{CDN}no.js": script("text forbidden"),
        f"{CDN}data.json": data("data of another site"),
    }
    for n, site in enumerate(sites(number)):
        web |= {
            site: shell(f"{CDN}lib.js", "/own.js"),
            f"{site}own.js": script(f"load /own{n}.json", "load /gone.json", "link /found"),
            f"{site}own{n}.json": data(f"data of {n}"),
            f"{site}found": page(text="found by a script"),
        }
    return web


class Everywhere(Renderers):
    """A renderer for each worker of a run. It finds captures at all workers."""

    def __init__(self) -> None:
        super().__init__(0.3)
        self.workers: list[Assembled] = []
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, assembled: Assembled) -> None:
        """As ``meanwhile`` of ``run_workers``."""
        self.workers.append(assembled)
        owner_of, first = assembled.intake.partition_of_host, _partitions(assembled)[0]
        self._tasks.append(asyncio.ensure_future(self.run(self._call, owner_of, first)))

    async def _call(self, partition: int, call: Call) -> CallReply:
        owner = next(each for each in self.workers if partition in _partitions(each))
        return await owner.calls.answer(partition, call)

    def document(self, url: str) -> str:
        """What the last round of a page gave."""
        return [rendered.html for lent, rendered in self.given if lent.task.url == url][-1]


def _partitions(assembled: Assembled) -> list[int]:
    return list(assembled.worker.frontier.partitions)


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
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 50))]
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


@pytest.mark.parametrize("workers", [1, 2])
def test_what_pages_need_does_not_count_for_the_limit_on_pages(
    workers: int, tmp_path: Path
) -> None:
    """Thirteen captures, of which four are pages."""
    crawl, _ = scripted_crawl(tmp_path / "c", web_of(2), settings(limits=LimitSection(max_pages=8)))
    run_workers(crawl, workers, sites(2), meanwhile=Everywhere().begin)
    judge(crawl, 2)
    with tables(crawl) as opened:
        counters = sum_of(counters_of(table) for table in opened)
    assert (counters.captures, counters.limited_captures) == (13, 4)


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
