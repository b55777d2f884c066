"""A crawl by hosts whose seeds redirect to other hosts, while machines die.

Each seed is a door: its host has no page, and it redirects to a page of another host, which joins
the scope by that. All links stay on their host. So every page behind every door must be fetched:
its owner has to know the place before it judges the page's links, although the place was found by
another shard, and although either may die in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from lycosa.base.config.sections import ScopeRule, ScopeSection
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.synthetic.oracle import Truth
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.synthetic_web import Responder
from nodes.history import NodesHistory
from nodes.plugin import Plugin

_DOORS = 14


class WebWithDoors:
    """A web with doors in front of it: the URLs that redirect, and where they lead."""

    def __init__(self, web: Responder, leads: Mapping[str, str]) -> None:
        self._web, self._leads = web, leads

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        if (target := self._leads.get(url)) is not None:
            return Response(302, [("Location", target)], latency_s=0.05)
        return self._web.respond(url, at, headers)


class Doors(Plugin):
    """The seeds are given one by one, so that some are met while a shard has no owner."""

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        web = history.web = SyntheticWeb(
            WebPlan(
                seed=history.seed,
                hosts=2 * _DOORS,
                pages=8,
                page_bytes=300,
                links=6,
                cross_links=0.0,
                redirects=0.0,
                gone=0.0,
                robots=0.0,
            )
        )
        history.surveyed = [web.seed_url(_DOORS + number) for number in range(_DOORS)]
        doors = [f"{web.seed_url(number)}door" for number in range(_DOORS)]
        self._leads = dict(zip(doors, history.surveyed, strict=True))
        history.seeds, self._later = doors[:1], doors[1:]
        history.answers = WebWithDoors(web, self._leads)
        history.config = msgspec.structs.replace(
            history.config, scope=ScopeSection(rule=ScopeRule.HOST)
        )

    async def operate(self) -> None:
        for number, url in enumerate(self._later):
            await asyncio.sleep(self.history.chance.uniform(1.0, 25.0))
            await self.world.give_seeds([url], f"seeds-{number}")

    def expect(self, truth: Truth) -> None:
        truth.redirected |= self._leads
