"""Histories of a crawl by hosts whose seeds redirect to other hosts, while machines die.

Each seed is a door: its host has no page, and it redirects to a page of another host, which joins
the scope by that. All links stay on their host. So every page behind every door must be fetched:
its owner has to know the place before it judges the page's links, although the place was found by
another shard, and although either may die in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from judging import asked, is_balanced, state_of, urls_of
from lycosa.base.config.sections import ScopeRule, ScopeSection
from lycosa.base.model.completed import UrlState
from lycosa.base.urls.identity import join_url
from lycosa.inspect.audit.crawl_audit import AuditedCrawl, audit_crawl
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.synthetic_web import Responder
from nodes.history import LEAST_FAULTS, NodesHistory

_DOORS = 14


class Doors:
    """A web with doors in front of it: the URLs that redirect, and where they lead."""

    def __init__(self, web: Responder, leads: Mapping[str, str]) -> None:
        self._web, self._leads = web, leads

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        if (target := self._leads.get(url)) is not None:
            return Response(302, [("Location", target)], latency_s=0.05)
        return self._web.respond(url, at, headers)


class DoorsHistory(NodesHistory):
    """The seeds are given one by one, so that some are met while a shard has no owner."""

    def __init__(
        self, seed: int, folder: Path, shards: int = 0, nodes: int = 0, plant: str = ""
    ) -> None:
        super().__init__(seed, folder, shards, nodes, plant)
        self.web = SyntheticWeb(
            WebPlan(
                seed=seed,
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
        self._targets = [self.web.seed_url(_DOORS + number) for number in range(_DOORS)]
        self.seeds = [f"{self.web.seed_url(number)}door" for number in range(_DOORS)]
        self.answers = Doors(self.web, dict(zip(self.seeds, self._targets, strict=True)))
        self.config = msgspec.structs.replace(self.config, scope=ScopeSection(rule=ScopeRule.HOST))

    async def _seed(self) -> None:
        for number, url in enumerate(self.seeds):
            await self.world.give_seeds([url], f"seeds-{number}")
            await asyncio.sleep(self.chance.uniform(1.0, 25.0))
        while not self.world.newest.coordinator.is_over:
            self.world.no_more_seeds()
            await asyncio.sleep(5.0)

    def judge(self) -> None:
        """Raises ``AssertionError`` for the first promise that does not hold."""
        opened = self._final_tables()
        behind = self.web.survey(self._targets).requested
        requested = set(asked(self.world.log))
        lost = sorted(behind - requested)
        assert not lost, f"{len(lost)} of {len(behind)} pages behind doors were lost: {lost[:5]}"
        assert requested == behind | set(self.seeds)
        states = {
            join_url("https" if record.secure else "http", host.host, record.target): state_of(
                host, record
            )
            for table in opened.values()
            for host, _, record in urls_of(table)
        }
        redirected = {url for url, state in states.items() if state is UrlState.REDIRECTED}
        assert redirected == set(self.seeds)
        for table in opened.values():
            is_balanced(table)
        self._hosts_rested()
        report = audit_crawl(AuditedCrawl(self._view(), is_running=False))
        assert report.is_clean, report.first_breaches()
        assert sum(self.world.faults.values()) >= LEAST_FAULTS
