"""Rendering: built examples of frameworks and documentation are crawled with ``--render auto``, and
each rendered page is loaded in Chromium with a network, which asks the same server.

**Equal**: the visible text without white space, and the set of links, are those of that browser.
**Hits**: the share of the requests of a render whose record was stored before its first round,
for the tenth page of each site and later ones. A request is *shared* if an earlier page of the site
made it too, and the page's *own* otherwise: its data, which nobody could know, unless pages like it
have shown where it is. **Threshold**: 0.95 of the shared ones.
**Replay**: with the server stopped, pywb shows each page from the archive in Chromium. Every request
is answered from it, and the text is that of the live page.

``PROVE_SITES`` names a folder of built sites (``tests/built_sites.py``), ``PROVE_BROWSER`` the
browser that renders them, if it is not where Debian has it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from playwright.async_api import async_playwright

from browser_pages import chromium
from built_sites import SiteServer, built_sites
from free_ports import free_port
from live_pages import FLAGS, LivePage, read_settled, see_live, squeezed
from lycosa.base.config.sections import CanonicalSection
from lycosa.base.urls.cache_busters import without_busters
from lycosa.base.urls.canonical import Canonicalizer
from proofs.crawls import FAST, crawl, lycosa
from proofs.wayback import pywb_programs

SHARED_HITS = 0.95
_FROM = 9  # pages of a site before the hits count
_RENDERS = (
    "SELECT url, text, is_better, fetch_time, elapsed_s, processor_s, outlinks,"
    " [x.processor_s for x in rounds] AS seconds, epoch(rounds[1].began) AS began,"
    " rounds[1].found AS found, rounds[1].wants AS wants,"
    " [[r.url, r.record_id, r.status::VARCHAR] for r in requests] AS requests"
    " FROM renders ORDER BY render_time"
)
_LINKS = (
    "SELECT source_url, list(DISTINCT target_url) AS links FROM links"
    " WHERE kind IN ('a', 'area') GROUP BY source_url"
)


class RenderedPage(NamedTuple):
    """What a crawl stored of a rendered page; ``requests`` has the URLs that were answered in its
    last round, ``failed`` those that could not be fetched, ``absent`` those that the server
    answered with 404.
    """

    url: str
    text: str
    links: frozenset[str]
    began: float
    rounds: int
    elapsed_s: float
    processor_s: float
    first_found: int
    first_wants: int
    requests: tuple[str, ...]
    failed: frozenset[str]
    absent: frozenset[str]


class Rates(NamedTuple):
    """Shares of requests that were stored before the first round, by what they are for."""

    everything: float
    shared: float
    own: float


def rendered_pages(folder: Path) -> list[RenderedPage]:
    """The pages of a crawl that were rendered, in the order in which that ended."""
    links = {row["source_url"]: row["links"] for row in _rows(folder, _LINKS)}
    return [
        RenderedPage(
            row["url"],
            row["text"],
            frozenset(links.get(row["url"], ())),
            row["began"],
            len(row["seconds"]),
            row["elapsed_s"],
            row["processor_s"],
            row["found"],
            row["wants"],
            tuple(url for url, record, _ in row["requests"] if record),
            frozenset(url for url, record, _ in row["requests"] if not record),
            frozenset(url for url, _, status in row["requests"] if status == "404"),
        )
        for row in _rows(folder, _RENDERS)
    ]


def _rows(folder: Path, statement: str) -> list[dict[str, Any]]:
    done = lycosa("sql", str(folder), statement, "--json")
    assert done.code == 0, done
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def differences(page: RenderedPage, live: LivePage) -> list[str]:
    """What a browser with a network shows and the crawl does not have, or the other way round."""
    said = []
    text = squeezed(page.text)
    if text != live.text:
        at = sum(
            1
            for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, live.text, strict=False))
        )
        said.append(f"text at {at}: {text[at : at + 50]!r} for {live.text[at : at + 50]!r}")
    canonical = Canonicalizer(CanonicalSection()).canonical
    links = frozenset(map(canonical, live.links))
    for name, urls in (("links missing", links - page.links), ("only here", page.links - links)):
        if urls:
            said.append(f"{name}: {sorted(urls)[:3]} of {len(urls)}")
    return said


def hit_rates(pages: Iterable[RenderedPage], fetched: Mapping[str, float]) -> Rates:
    """Of the tenth page of each site and later ones."""
    hits: dict[bool, list[bool]] = {True: [], False: []}
    for of_site in by_site(pages).values():
        known: set[str] = set()
        for number, page in enumerate(of_site):
            if number >= _FROM:
                for url in page.requests:
                    if url != page.url:
                        at = fetched[without_busters(url) or url]
                        hits[url in known].append(at < page.began)
            known.update(page.requests)
    everything = hits[True] + hits[False]
    return Rates(*(mean(each or [True]) for each in (everything, hits[True], hits[False])))


def by_site(pages: Iterable[RenderedPage]) -> dict[str, list[RenderedPage]]:
    """Pages by the start of their URL."""
    found: dict[str, list[RenderedPage]] = defaultdict(list)
    for page in pages:
        found["/".join(page.url.split("/")[:3])].append(page)
    return found


def _seconds(pages: Iterable[RenderedPage], number: int) -> str:
    chosen = [each[number] for each in by_site(pages).values() if len(each) > number]
    return (
        f"{mean(each.rounds for each in chosen):.1f} rounds, {mean(each.elapsed_s for each in chosen):.1f} s,"
        f" {mean(each.processor_s for each in chosen):.2f} s of processor time"
    )


def _compare(pages: list[RenderedPage], names: Mapping[str, str]) -> list[str]:
    live = see_live([each.url for each in pages])
    lines, unequal = [], 0
    for site, of_site in sorted(by_site(pages).items()):
        different = [
            (each, said) for each in of_site if (said := differences(each, live[each.url]))
        ]
        unequal += len(different)
        lines.append(
            f"{names[site]}: {len(of_site) - len(different)} of {len(of_site)} pages equal in text"
            f" and links ({sum(len(each.links) for each in of_site)} links,"
            f" {sum(len(live[each.url].text) for each in of_site):,} characters)"
        )
        lines += [f"  {each.url}: {'; '.join(said)}" for each, said in different[:5]]
    assert not unequal, "\n".join(lines)
    return lines


@contextmanager
def _proxy(folder: Path, programs: Path, work: Path) -> Iterator[str]:
    """pywb as a proxy over a crawl, without any rewriting. In its other mode it wraps scripts so
    that modules are errors of syntax (pywb 2.10).
    """
    work.mkdir()
    places = {"index_paths": f"{folder}/cdxj/", "archive_paths": f"{folder}/"}
    off = dict.fromkeys(("enable_banner", "enable_wombat", "enable_content_rewrite"), False)
    settings = {"collections": {"crawl": places}, "proxy": {"coll": "crawl", **off}}
    (work / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    port = free_port(["127.0.0.1"])
    command = [str(programs / "wayback"), "-p", str(port), "-b", "127.0.0.1"]
    with (work / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=work, stdout=log, stderr=log)
    try:
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            with suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"pywb ended with {process.wait(0.1)}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


async def _replay(pages: list[RenderedPage], proxy: str) -> list[str]:
    """The text of each page, and the requests that are not answered from the archive."""
    lacking: list[str] = []
    answered = failed = 0
    flags = [*FLAGS, f"--proxy-server={proxy}", "--proxy-bypass-list=<-loopback>"]
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium(), args=flags)
        for each in pages:
            context = await browser.new_context(viewport={"width": 1280, "height": 1024})
            page = await context.new_page()
            seen: list[tuple[str, int]] = []
            page.on("response", lambda got, seen=seen: seen.append((got.url, got.status)))  # type: ignore[misc]
            page.on("requestfailed", lambda bad, seen=seen: seen.append((bad.url, 0)))  # type: ignore[misc]
            await page.goto(each.url)
            live = await read_settled(page.main_frame)
            await context.close()
            if live.text != squeezed(each.text):
                lacking.append(f"{each.url}: another text: {live.text[:200]}")
            for url, status in seen:
                answered += status == 200
                if status == 200:
                    continue
                failed += 1
                path = url.partition("?")[0]
                is_absent = any(known.partition("?")[0] == path for known in each.absent)
                if url not in each.failed and not is_absent:
                    lacking.append(f"{each.url}: {url} ({status})")
        await browser.close()
    assert not lacking, (len(lacking), lacking[:10])
    return [
        f"replay: {len(pages)} pages from pywb, the server stopped: {answered} requests answered"
        f" from the archive, {failed} fail as they did when the page was live; the text of each page"
        " is that of the live one"
    ]


def prove(work: Path, short: bool, pages: int = 0) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    given = os.environ.get("PROVE_SITES")
    if not given:
        return ["PROVE_SITES names no folder of built sites: nothing rendered"]
    sites = built_sites(Path(given))
    folder = work / "crawl"
    lines = []
    with SiteServer(sites) as server:
        names = {base: name for name, base in server.bases.items()}
        seeds = [
            server.bases[site.name] + path
            for site in sites
            for path in site.paths[: pages or (12 if short else 16)]
        ]
        browser = ["--set", f"render.browser={os.environ.get('PROVE_BROWSER', '')}"]
        options = ["--render", "auto", "--max-pages", str(len(seeds)), *browser]
        done = crawl(folder, *seeds, *FAST, *options)
        assert done.code in (0, 3), done  # at the limit of pages
        rendered = rendered_pages(folder)
        assert len(rendered) > len(sites), done
        lines += [f"{len(rendered)} pages of {len(by_site(rendered))} sites rendered"]
        lines += _compare(rendered, names)
    fetched = {
        row["url"]: row["at"]
        for row in _rows(folder, "SELECT url, min(epoch(fetch_time)) AS at FROM pages GROUP BY url")
    }
    rates = hit_rates(rendered, fetched)
    lines += [
        f"first page of a site: {_seconds(rendered, 0)}",
        f"tenth page of a site: {_seconds(rendered, _FROM)}",
        f"requests stored before the first round, from the tenth page on: {rates.everything:.1%}"
        f" (shared {rates.shared:.1%}, own {rates.own:.1%})",
    ]
    assert rates.shared >= SHARED_HITS, lines[-1]
    programs = pywb_programs(work, may_install=not short)
    if programs is None:
        return [*lines, "pywb: not there, nothing replayed"]
    step = 5 if short else 2
    chosen = [each for of_site in by_site(rendered).values() for each in of_site[::step]]
    with _proxy(folder.resolve(), programs, work / "pywb") as proxy:
        return lines + asyncio.run(_replay(chosen, proxy))
