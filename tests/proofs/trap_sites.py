"""How much of a crawl goes to a site of endless near copies, and what honest sites lose.

One trap site (``trap_site``) beside 50 honest ones, of which two are shops whose
product pages share a long template. No delays; one slot and a tenth of a second for an answer are a
budget of ten pages a second. Whole crawls in virtual time, with the judgement of near copies and
without it (``copies.probe_turns = 1``). Asserted is that at most 2 % of the fetches go to the trap
while honest hosts have waiting URLs, that no honest page is missed, and that the trap gets at most
five pages a second at most afterwards.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from crawling import QUICK, crawl_folder
from lycosa.base.config.sections import (
    CopiesSection,
    FetchSection,
    PolitenessSection,
)
from lycosa.synthetic import Responder, Response, WebPlan
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH
from trap_site import SeveralSites, TemplateShop, TrapSite

TRAP = "trap.test"
SHOPS = {"shop.test": 25, "thin-shop.test": 0}
"""Honest shops, with the number of words that describe each product."""

_MOST = 0.02
_MOST_SHORT = 0.05  # what is learned does not shrink with the crawl
_AFTER_S = 200.0


class Asked(NamedTuple):
    """A request for a page: when it was made, in seconds since the start, and its host and path."""

    at: float
    host: str
    path: str


class Watched:
    """A web that notes its requests."""

    def __init__(self, web: Responder) -> None:
        self._web = web
        self.asked: list[Asked] = []

    def respond(self, url: str, at: float, headers: dict[str, str]) -> Response:  # type: ignore[override]
        parts = urlsplit(url)
        if parts.path != "/robots.txt":
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            self.asked.append(Asked(at, parts.hostname or "", path))
        return self._web.respond(url, at, headers)


class Shares(NamedTuple):
    """What one crawl did.

    ``pages`` and ``to_trap`` count fetches until the last honest page. The second half of the time
    from then on has ``late_s`` seconds and ``lately`` fetches. ``missed`` are honest pages that were
    not fetched, by host, ``parts`` are fetches by folder of the trap.
    """

    pages: int
    to_trap: int
    late_s: float
    lately: int
    missed: dict[str, int]
    parts: dict[str, int]

    @property
    def share(self) -> float:
        return self.to_trap / max(self.pages, 1)


def crawl_beside_trap(
    folder: Path,
    hosts: int,
    pages: int,
    copies: CopiesSection = CopiesSection(),  # noqa: B008  a value without state
    seed: int = 1,
    after_s: float = _AFTER_S,
) -> Shares:
    """Crawl the trap beside so many honest hosts, two of which are shops."""
    plan = WebPlan(
        seed=seed,
        hosts=hosts - len(SHOPS),
        pages=pages,
        cross_links=0.1,
        redirects=0.0,
        distribution="lognormal",
    )
    shops = {name: TemplateShop(pages, words, seed) for name, words in SHOPS.items()}
    web = SeveralSites(plan, {TRAP: TrapSite(seed), **shops})
    watched = Watched(web)
    fronts = [web.web.seed_url(number) for number in range(hosts - len(SHOPS))]
    seeds = [*fronts, *(f"http://{name}/" for name in (*SHOPS, TRAP))]
    config = msgspec.structs.replace(
        QUICK,
        copies=copies,
        politeness=PolitenessSection(
            delay_s=0.0, jitter=0.0, adaptive_factor=0.0, address_delay_s=0.0
        ),
        fetch=FetchSection(slots=1),
    )
    time_s = hosts * pages / 10 * 1.1 + after_s
    crawl_folder(folder, watched, seeds, config, stop_after_s=time_s)  # type: ignore[arg-type]
    honest = {f"http://{name}/": shop for name, shop in shops.items()}
    wanted = web.web.reachable(fronts) | {
        f"{front}product/{page}.html"
        for front, shop in honest.items()
        for page in range(shop.pages)
    }
    return _shares(watched.asked, wanted, time_s)


def _shares(asked: list[Asked], wanted: set[str], time_s: float) -> Shares:
    fetched = {f"http://{each.host}{each.path}" for each in asked}
    missed = Counter(urlsplit(url).hostname or "" for url in wanted - fetched)
    end = max(each.at for each in asked if each.host != TRAP)
    before = [each for each in asked if each.at <= end]
    trap = [each for each in before if each.host == TRAP]
    stop = VIRTUAL_EPOCH + time_s
    middle = (end + stop) / 2
    lately = sum(each.at > middle for each in asked)
    parts = Counter(each.path.split("/")[1].partition("?")[0] for each in trap)
    return Shares(len(before), len(trap), stop - middle, lately, dict(missed), dict(parts))


def prove(work: Path, short: bool) -> list[str]:
    """Judge both crawls; raises ``AssertionError``."""
    hosts, pages = (50, 60) if short else (50, 200)
    judged = crawl_beside_trap(work / "judged", hosts, pages)
    plain = crawl_beside_trap(work / "plain", hosts, pages, CopiesSection(probe_turns=1))
    lines = [
        f"{name}: {each.to_trap:,} of {each.pages:,} fetches ({each.share:.2%}) went to the trap"
        f" {each.parts} until the last honest page, then {each.lately / each.late_s:.2f} a second;"
        f" missed: {each.missed or 'nothing'}"
        for name, each in (("judged", judged), ("without judgement", plain))
    ]
    assert not judged.missed, judged.missed
    most = _MOST_SHORT if short else _MOST
    assert judged.share <= most, f"{judged.share:.2%} of the fetches went to the trap"
    assert judged.lately <= 5.0 * judged.late_s + 1, judged
    return lines
