"""What the owner of a URL must know travels with it: redirect chains, and who vouches for a
sitemap, whatever the number of workers.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from judging import are_balanced, outcomes, quick_config, stored_rows
from lycosa.base.config.sections import FrontierSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.state.kv.table_records import UrlRecord, decode_url, encode_url
from lycosa.synthetic import Response
from scripted import Answer, first, moved, page, robots, scripted_crawl
from several_workers import run_workers

CONFIG = quick_config(frontier=FrontierSection(partitions=8, bands=4, head=6))
CHAINS, HOPS = 30, 5


def chain_urls(number: int) -> list[str]:
    """The URLs of one chain; no two of them are of one site."""
    return [f"http://c{number}.s{number}x{hop}.example/{hop}" for hop in range(HOPS + 1)]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_chains_of_redirects_across_hosts_are_whole(workers: int, tmp_path: Path) -> None:
    answers: dict[str, Answer] = {}
    for number in range(CHAINS):
        urls = chain_urls(number)
        answers |= {url: moved(target) for url, target in pairwise(urls)}
        answers[urls[-1]] = page()
    crawl, _ = scripted_crawl(tmp_path / "c", answers, CONFIG)
    run_workers(crawl, workers, [chain_urls(number)[0] for number in range(CHAINS)])
    told = {
        row.url: list(row.chain) for row in stored_rows(crawl.folder) if row.kind is FetchKind.PAGE
    }
    short = sum(
        told[url] != chain_urls(n)[:hop]
        for n in range(CHAINS)
        for hop, url in enumerate(chain_urls(n))
    )
    print(f"{workers} workers: {short} of {len(told)} chains lack a hop")
    assert short == 0 and len(told) == CHAINS * (HOPS + 1)
    are_balanced(crawl)


def test_a_chain_survives_the_time_until_its_end_is_fetched_again(tmp_path: Path) -> None:
    urls = chain_urls(0)
    answers: dict[str, Answer] = {url: moved(target) for url, target in pairwise(urls)}
    answers[urls[-1]] = first(1, page(text="one"), page(text="two"))
    crawl, _ = scripted_crawl(tmp_path / "c", answers, CONFIG)
    run_workers(crawl, 3, urls[:1])
    crawl.now += 60 * 86_400
    run_workers(crawl, 2, [])
    ends = [row.chain for row in stored_rows(crawl.folder) if row.url == urls[-1]]
    assert len(ends) >= 2 and set(ends) == {tuple(urls[:-1])}


XML = ("Content-Type", "application/xml")
SITES = 10


def urlset(*urls: str) -> Response:
    return Response(
        200,
        [XML],
        f"<urlset>{''.join(f'<url><loc>{url}</loc></url>' for url in urls)}</urlset>".encode(),
        0.05,
    )


def index(*urls: str, latency_s: float = 0.05) -> Response:
    listed = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return Response(200, [XML], f"<sitemapindex>{listed}</sitemapindex>".encode(), latency_s)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_what_a_sitemap_of_an_index_on_another_host_may_list_is_the_same(
    workers: int, tmp_path: Path
) -> None:
    """Each site's robots.txt names an index at a keeper's; the index lists a sitemap on the site's
    second host, which vouches by naming the index too; that one is reached by a redirect to a
    third. Each sitemap lists pages of its site, and one of a stranger.
    """
    answers: dict[str, Answer] = {}
    wanted: set[str] = set()
    seeds = []
    for n in range(SITES):
        site, second, keeper = f"http://s{n}.example/", f"http://m{n}.test/", f"http://k{n}.com/"
        lines = f"Sitemap: {keeper}index.xml"
        answers |= {
            site: page(),
            second: page(),
            f"{site}robots.txt": robots(lines),
            f"{second}robots.txt": robots(lines),
            f"{keeper}index.xml": index(
                f"{second}old.xml", f"{keeper}deep/own.xml", latency_s=15.0
            ),
            f"{second}old.xml": moved(f"{keeper}moved/new.xml"),
            f"{keeper}moved/new.xml": urlset(f"{site}1", f"{second}2", "http://stranger.com/3"),
            f"{keeper}deep/own.xml": urlset(
                f"{site}4", f"{keeper}5", f"{keeper}deep/6", "http://stranger.com/7"
            ),
        }
        wanted |= {f"{site}1", f"{second}2", f"{site}4", f"{keeper}deep/6"}
        seeds += [site, second]
    crawl, _ = scripted_crawl(tmp_path / "c", answers, CONFIG)
    run_workers(crawl, workers, seeds)
    # The pages do not exist: that they were asked for is what counts.
    found = {url for url, (state, _) in outcomes(crawl).items() if state is UrlState.FAILED}
    print(
        f"{workers} workers: {len(found & wanted)} of {len(wanted)} listed pages were requested,"
        f" and {len(found - wanted)} others"
    )
    assert found == wanted
    are_balanced(crawl)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_sitemap_in_two_indexes_is_vouched_for_by_both(workers: int, tmp_path: Path) -> None:
    a, b, keeper = "http://a.example/", "http://b.test/", "http://keeper.com/"
    answers: dict[str, Answer] = {
        a: page(),
        b: page(),
        f"{a}robots.txt": robots(f"Sitemap: {keeper}one.xml"),
        f"{b}robots.txt": robots(f"Sitemap: {keeper}two.xml"),
        f"{keeper}one.xml": index(f"{keeper}both.xml"),
        f"{keeper}two.xml": index(f"{keeper}both.xml"),
        f"{keeper}both.xml": urlset(f"{a}1", f"{b}2"),
    }
    crawl, _ = scripted_crawl(tmp_path / "c", answers, CONFIG)
    run_workers(crawl, workers, [a, b])
    assert {f"{a}1", f"{b}2"} <= set(outcomes(crawl))


# -- what it costs


def test_ordinary_links_and_records_are_no_larger() -> None:
    """Against the same values in the form of records that know no chain."""
    link = Discovered(
        "http://a.example/1", b"hosthost", b"urlurlur", LinkKind.A, 3, "http://b.example/", 0, 0.25
    )
    before = msgspec.msgpack.encode(
        [link.url, link.host8, link.url8, int(link.kind), 3, link.via, 0, 0.25, 0, -1.0, 0]
    )
    assert len(msgspec.msgpack.encode(link)) < len(before)
    assert msgspec.msgpack.decode(before, type=Discovered) == link
    record = UrlRecord(UrlState.QUEUED, False, "/1", 1, 128, LinkKind.A, 1_700_000_000, "/")
    fields = list(msgspec.structs.astuple(record))[:15]  # to its importance
    assert encode_url(record) == msgspec.msgpack.encode(fields)
    assert decode_url(encode_url(record)) == record


def test_records_keep_their_chain_and_their_history() -> None:
    chain = ("http://a.example/", "http://b.example/")
    for history in (None, History(fetches=1, fetched_at=1_700_000_000, status=200)):
        for kept in ((), chain):
            record = UrlRecord(
                UrlState.QUEUED,
                False,
                "/1",
                1,
                128,
                LinkKind.REDIRECT,
                1,
                "/",
                3,
                history=history,
                chain=kept,
            )
            assert decode_url(encode_url(record)) == record
