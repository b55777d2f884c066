"""The answers of a sample's hosts and their durations, in place of DNS, sockets and bytes."""

from __future__ import annotations

import random
from typing import Protocol

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.simulate.jump_clock import SIMULATION_EPOCH
from lycosa.simulate.page_copies import Copies
from lycosa.simulate.resources import Meters
from lycosa.simulate.sample import Host, Sample
from lycosa.simulate.web_model import Web
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.politeness.robots_cache import RobotsAnswer, RobotsRecord, after_fetch
from lycosa.stages.schedule.steps import Purpose

_SMALL_BYTES = 300  # of an answer without a page
_SPREAD = 0.2  # of a host's time to answer, up and down
_ROBOTS = b"User-agent: *\nDisallow:\n"


class Witness(Protocol):
    """Gets every request as it begins and ends; its results are not the crawler's."""

    def begins(self, host: Host, now: float) -> None: ...
    def ends(self, host: Host, now: float) -> None: ...


class KnownHost(msgspec.Struct, gc=False):
    """A host of the sample with the driver's data; ``first`` is the number of its first page."""

    host: Host
    first: int
    robots: RobotsRecord | None = None

    def page(self, lease: Lease) -> int:
        """The number of a lease's page."""
        return self.first + int(lease.record.target[1:])


class Underway(msgspec.Struct, order=True, gc=False):
    """A visit in progress.

    Its request ends at ``ends_at`` with ``fetched``; ``is_answered`` when it was for a page and has
    ended.
    """

    ends_at: float
    ticket: int
    state: VisitState
    known: KnownHost
    lease: Lease | None = None
    purpose: Purpose = Purpose.PAGE
    fetched: Fetched | None = None
    is_answered: bool = False


class HostAnswers:
    """The answers of one part. Random values are drawn when a request begins."""

    def __init__(
        self,
        sample: Sample,
        web: Web,
        config: Config,
        copies: Copies,
        meters: Meters,
        witness: Witness | None = None,
    ) -> None:
        self._web, self._config, self._copies = web, config, copies
        self._meters, self._witness = meters, witness
        self._chance = random.Random(f"visits:{config.seed}")
        self.hosts: dict[str, KnownHost] = {}
        pages = 0
        for host in sample.hosts:
            self.hosts[host.name] = KnownHost(host, pages)
            pages += host.pages

    def begin(self, known: KnownHost, lease: Lease | None, now: float) -> Fetched:
        """Start a request, for robots.txt if there is no lease; returns its answer to come."""
        host = known.host
        duration_s = host.latency_s * (1.0 - _SPREAD + 2.0 * _SPREAD * self._chance.random())
        status, size = self._answer(known, lease, now + duration_s)
        duration_s += size / self._web.server_bytes_per_s
        self._meters.spend(lease is not None and status == 200, size, duration_s, now)
        if self._witness is not None:
            self._witness.begins(host, now)
        return Fetched(
            host.name,
            Reason.NONE,
            status=status,
            body_bytes=int(size),
            started=SIMULATION_EPOCH + now,
            duration_s=duration_s,
        )

    def _answer(self, known: KnownHost, lease: Lease | None, at: float) -> tuple[int, float]:
        """Status and bytes of the body."""
        look = self._chance.random()
        if look < self._web.errors:
            return (500, _SMALL_BYTES) if look < self._web.errors / 2 else (503, _SMALL_BYTES)
        if lease is None:
            return 200, _SMALL_BYTES
        has_copy = known.host.has_validators and lease.record.history is not None
        if has_copy and self._copies.is_current(known.page(lease), at):
            return 304, 0
        return 200, known.host.page_bytes

    def end(self, known: KnownHost, now: float) -> None:
        """Record that the answer has arrived."""
        if self._witness is not None:
            self._witness.ends(known.host, now)

    def read_robots(self, known: KnownHost, fetched: Fetched, time: float) -> RobotsRecord:
        """Process the answer for robots.txt at a crawl time, and remember it."""
        delay_s, config = known.host.crawl_delay_s, self._config
        body = _ROBOTS if delay_s < 0 else _ROBOTS + b"Crawl-delay: %g\n" % delay_s
        answer = RobotsAnswer(fetched.status, body)
        known.robots = after_fetch(known.robots, answer, config.agent.product, config.robots, time)
        return known.robots
