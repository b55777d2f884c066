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
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from playwright.async_api import async_playwright

from browser_pages import chromium
from built_sites import SiteServer, built_sites
from live_pages import FLAGS, LivePage, read_settled, see_live, squeezed
from lycosa.base.config.sections import CanonicalSection
from lycosa.base.urls.cache_busters import without_busters
from lycosa.base.urls.canonical import Canonicalizer
from proofs.crawls import FAST, crawl, lycosa
from proofs.replay import Archive, replaying
from proofs.wayback import pywb_programs

SHARED_HITS = 0.95
_FROM = 9  # pages of a site before the hits count
_RENDERS = (
    "SELECT url, text, is_better, fetch_time, elapsed_s, processor_s, outlinks,"
    " [x.processor_s for x in rounds] AS seconds, epoch(rounds[1].began) AS began,"
    " rounds[1].found AS found, rounds[1].wants AS wants,"
    " [[r.url, r.record_id, r.refusal] for r in requests] AS requests"
    " FROM renders ORDER BY render_time"
)
_LINKS = (
    "SELECT source_url, list(DISTINCT target_url) AS links FROM links"
    " WHERE kind IN ('a', 'area') GROUP BY source_url"
)


class RenderedPage(NamedTuple):
    """What a crawl stored of a rendered page; ``requests`` has the URLs that were answered in its
    last round, ``failed`` those that could not be fetched.
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


async def _replay_all(pages: list[RenderedPage], archive: Archive, collection: str) -> list[str]:
    """The text of each page in pywb; the requests that it does not answer."""
    lacking: list[str] = []
    texts: dict[str, LivePage] = {}
    answered = failed = 0
    place = collection.rpartition("/crawl/")[0]
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        for each in pages:
            context = await browser.new_context(viewport={"width": 1280, "height": 1024})
            page = await context.new_page()
            seen: list[tuple[str, int]] = []
            page.on("response", lambda got, seen=seen: seen.append((got.url, got.status)))  # type: ignore[misc]
            page.on("requestfailed", lambda bad, seen=seen: seen.append((bad.url, 0)))  # type: ignore[misc]
            await page.goto(f"{collection}{archive.stamp_of(each.url)}/{each.url}")
            handle = await page.wait_for_selector("#replay_iframe")
            frame = await handle.content_frame() if handle is not None else None
            assert frame is not None, each.url
            await frame.wait_for_load_state("load")
            texts[each.url] = await read_settled(frame)
            answered += sum(status in (200, 307) for _, status in seen)
            for url, status in seen:
                original = url.partition("_/")[2]
                if status in (200, 304, 307) and url.startswith(place):
                    continue
                if original in each.failed:
                    failed += 1  # as it did when the page was live
                else:
                    lacking.append(f"{each.url}: {url} ({status})")
            await context.close()
        await browser.close()
    assert not lacking, lacking[:10]
    other = [each.url for each in pages if texts[each.url].text != squeezed(each.text)]
    assert not other, (other[:5], texts[other[0]].text[:300])
    return [
        f"replay: {len(pages)} pages in pywb, the server stopped: {answered} requests answered from"
        f" the archive, {failed} not, which could not be fetched; the text of each page is that of"
        " the live one"
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
    done = lycosa("export", str(folder), "wacz", "--output", str(work / "crawl.wacz"), "--json")
    assert done.code == 0, done
    archive = Archive(work / "crawl.wacz")
    chosen = [
        each for of_site in by_site(rendered).values() for each in of_site[:: 5 if short else 2]
    ]
    with replaying(str(folder), programs=programs) as collection:
        lines += asyncio.run(_replay_all(chosen, archive, collection))
    return lines
