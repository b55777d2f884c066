"""Whole crawls that go by ranks: given at the start, changed while they run, and by links alone."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import msgspec

from crawling import QUICK, Pages, crawl_folder, page
from lycosa.base.config.scope_sections import ScopeRule
from lycosa.base.config.sections import Config
from lycosa.base.urls.identity import partition_of
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.state.commit import read_logs
from lycosa.state.folder.names import log_folder
from lycosa.state.ranks.rank_set import make_rank_set
from lycosa.state.shard.folder_view import FolderView
from lycosa.synthetic import VIRTUAL_EPOCH, Faults, Response
from lycosa.worker.assemble import Assembled

A, B, C = (f"http://www.{name}.example/" for name in "abc")
DEEP = [f"{A}{number}" for number in range(12)]
WEB = {A: page(*DEEP, B, C), B: page(C), C: page(), **{each: page(B) for each in DEEP}}
LAST = DEEP[-1]


def config_of() -> Config:
    return msgspec.structs.replace(
        QUICK, scope=msgspec.structs.replace(QUICK.scope, rule=ScopeRule.ANY)
    )


def ranks_in(folder: Path) -> str:
    """Ranks of the hosts without ``www.``, as in Common Crawl's graphs, and of one page."""
    hosts = [("a.example", 0.1), ("b.example", 0.2), ("c.example", 0.7)]
    pages = [(LAST, 1.0)]
    return make_rank_set(
        folder, 3, lambda each: partition_of(site(each), 3), "a test", hosts, pages
    )


def site(host: str) -> str:
    return ".".join(host.split(".")[-2:])


def with_ranks(config: Config, digest: str) -> Config:
    return msgspec.structs.replace(
        config, priority=msgspec.structs.replace(config.priority, ranks=digest)
    )


def used(folder: Path) -> list[str]:
    return [each.ranks for _, each in read_logs(log_folder(folder))]


def facts(folder: Path, url: str) -> dict[str, object]:
    reader = CrawlReader(FolderView(folder))
    answer = explain(reader, load_saved_settings(reader), url, VIRTUAL_EPOCH + 1e6)
    return {each.key: each.value for each in answer.facts}


def test_a_crawl_takes_ranks_while_it_runs_and_its_next_run_continues_with_them(
    tmp_path: Path,
) -> None:
    folder, web, given = tmp_path / "c", Pages(WEB), list[str]()

    async def use(assembled: Assembled) -> None:
        given.append(ranks_in(folder))
        assembled.live.follow(1, {"priority.ranks": given[0]})
        while given[0] not in used(folder):  # noqa: ASYNC110  in virtual time
            await asyncio.sleep(1)
        assembled.worker.stop()

    crawl_folder(folder, web, [A], config_of(), meanwhile=use)
    (digest,) = given
    config = with_ranks(config_of(), digest)
    crawl_folder(folder, web, [], config, start=1000.0)
    assert used(folder)[-1] == digest
    assert {url for url in web.asked if "robots" not in url} == set(WEB)
    of_b = facts(folder, B)
    assert (of_b["ranks"], of_b["host_rank"], of_b["linking_hosts"]) == (digest, 128, 1)
    assert "authority" not in of_b
    assert facts(folder, LAST)["page_rank"] == 128, "it is the middle of one"
    reader = CrawlReader(FolderView(folder))
    in_use = crawl_status(reader, load_saved_settings(reader), VIRTUAL_EPOCH + 1500).ranks
    assert in_use is not None and (in_use.digest, in_use.damage) == (digest, "")
    assert in_use.hosts and in_use.pages == 1 and in_use.source
    crawl_folder(folder, web, [], with_ranks(config, ""), start=2000.0)
    assert 0.6 <= facts(folder, C)["authority"] <= 0.667, "two sites link to it"  # type: ignore[operator]


def test_the_next_crawl_goes_by_ranks_from_its_first_link_on(tmp_path: Path) -> None:
    folder, web = tmp_path / "c", Pages(WEB)
    crawl_folder(folder, web, [A], config_of(), stop_after_s=0.01)
    before = len(web.asked)
    crawl_folder(folder, web, [], with_ranks(config_of(), ranks_in(folder)), start=1000.0)
    order = [url for url in web.asked[before:] if url in DEEP]
    assert order[0] == LAST, "the page with a rank comes first, although it was found last"


def test_a_crash_and_a_set_that_is_gone_cost_nothing(tmp_path: Path) -> None:
    folder, web = tmp_path / "c", Pages(WEB)
    crawl_folder(folder, web, [A], config_of(), stop_after_s=0.01)
    config = with_ranks(config_of(), digest := ranks_in(folder))
    faults = Faults(random.Random(0), crash_at=3, crash_point="commit:logged")
    assert crawl_folder(folder, web, [], config, start=1000.0, faults=faults) is None
    assert digest in used(folder)
    crawl_folder(folder, web, [], config, start=2000.0)
    assert {url for url in web.asked if "robots" not in url} == set(WEB)
    for path in (folder / "ranks" / "files" / digest).glob("0*"):
        path.unlink()
    assert "ranks" in facts(folder, B), "explain says that they cannot be read"
    web.asked.clear()
    crawl_folder(folder, web, [f"{A}new"], config, start=3000.0)
    assert f"{A}new" in web.asked and used(folder)[-1] == "", "the crawl goes on without"


def test_what_pages_load_from_a_host_does_not_make_it_important(tmp_path: Path) -> None:
    cdn = "http://cdn.example/style.css"
    style_sheet = Response(200, [("Content-Type", "text/css")], b"p { margin: 0 }")
    style = f'<link rel="stylesheet" href="{cdn}">'
    sites = [f"http://s{number}.test/" for number in range(6)]
    web = {each: page(B, head=style) for each in sites} | {B: page(), cdn: style_sheet}
    config = config_of()
    config = msgspec.structs.replace(
        config, scope=msgspec.structs.replace(config.scope, requisites=True)
    )
    crawl_folder(tmp_path / "c", Pages(web), sites, config)
    of_cdn, of_b = facts(tmp_path / "c", cdn), facts(tmp_path / "c", B)
    assert (of_cdn.get("linking_hosts"), of_b["linking_hosts"]) == (None, 6)
    assert of_cdn["authority"] < 0.7 < of_b["authority"]  # type: ignore[operator]
