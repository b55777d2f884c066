"""The hosts and sites of a crawl that stand out: most in the queue, most errors, longest wait.

A list keeps only the requested number of lines, however many hosts the crawl has.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

import msgspec

from lycosa.base.config.sections import Config
from lycosa.inspect.committed_state import TableView
from lycosa.inspect.explain.facts import owed, steady_delay, why_host
from lycosa.inspect.explain.own_facts import own_state
from lycosa.inspect.site_budget import site_budget
from lycosa.stages.admit.budgets import site_pages_of
from lycosa.stages.admit.linking_sites import linking_sites
from lycosa.stages.frontier.visit_state import HostState, VisitRecord


class Order(Enum):
    """The order of listed hosts and sites, largest first."""

    QUEUE = "queue"
    ERRORS = "errors"
    WAIT = "wait"


class HostLine(msgspec.Struct, frozen=True):
    """One host.

    ``wait_s`` is the time until it may be requested, ``needs_s`` the minimum time to fetch its
    queue. ``own`` is the state of an own host (``own_state``). ``retrying`` of the ``waiting`` URLs
    wait for the time of a retry as well. ``errors`` counts failed requests and failed DNS lookups.
    ``pages`` is the old name of ``captures``, kept for programs that read the JSON.
    """

    host: str
    state: str
    waiting: int
    parked: int
    captures: int
    pages: int
    delay_s: float
    wait_s: float
    needs_s: float
    reason: str
    last_error: str
    errors: int = 0
    retrying: int = 0
    own: str = ""


class SiteLine(msgspec.Struct, frozen=True):
    """One site: its listed hosts together.

    ``wait_s`` is the time until the first of them may be fetched. ``captures`` counts all its
    hosts, ``most_captures`` is its budget (0 is no limit); ``pages`` and ``most_pages`` are their
    old names, kept for programs that read the JSON. ``linking_sites`` is counted while it adds to
    the budget.
    """

    site: str
    hosts: int
    hosts_parked: int
    waiting: int
    parked: int
    captures: int
    pages: int
    most_captures: int
    most_pages: int
    linking_sites: int
    wait_s: float
    errors: int


_Line = TypeVar("_Line", HostLine, SiteLine)


class Top(Generic[_Line]):
    """The first ``wanted`` lines by an order."""

    def __init__(self, wanted: int, by: Order) -> None:
        self._wanted, self.by = wanted, by
        self._heap: list[tuple[float, str, _Line]] = []

    def add_line(self, line: _Line, name: str) -> None:
        """Add a line; of equal ones the later name comes first."""
        entry = (self._rank(line), name, line)
        if len(self._heap) < self._wanted:
            heapq.heappush(self._heap, entry)
        elif self._wanted:
            heapq.heappushpop(self._heap, entry)

    def lines(self) -> list[_Line]:
        """The lines in their order."""
        return [
            line for _, _, line in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)
        ]

    def _rank(self, line: _Line) -> float:
        if self.by is Order.ERRORS:
            return line.errors
        return line.wait_s if self.by is Order.WAIT else line.waiting + line.parked


class SiteLines:
    """The sites of one partition. All hosts of a site are in the same partition."""

    def __init__(self, site_of: Callable[[str], str], view: TableView, config: Config) -> None:
        self._site_of, self._view, self._section = site_of, view, config.budgets
        self._hosts: dict[str, list[HostLine]] = {}

    def add_host(self, line: HostLine) -> None:
        """Add a host to its site."""
        self._hosts.setdefault(self._site_of(line.host), []).append(line)

    def lines(self) -> list[SiteLine]:
        """One line for each site with a host."""
        return [self._line(site, hosts) for site, hosts in self._hosts.items()]

    def _line(self, site: str, hosts: list[HostLine]) -> SiteLine:
        found = site_budget(self._view, site)
        most = site_pages_of(self._section, found.linking)
        return SiteLine(
            site=site,
            hosts=len(hosts),
            hosts_parked=sum(host.state == HostState.PARKED.label for host in hosts),
            waiting=sum(host.waiting for host in hosts),
            parked=sum(host.parked for host in hosts),
            captures=found.usage.captures,
            pages=found.usage.captures,
            most_captures=most,
            most_pages=most,
            linking_sites=linking_sites(found.linking),
            wait_s=min(host.wait_s for host in hosts),
            errors=sum(host.errors for host in hosts),
        )


def failures_of(record: VisitRecord) -> int:
    """The number of failed requests and failed DNS lookups of a host."""
    return record.errors + record.dns_failures


def host_line(record: VisitRecord, config: Config, now: float) -> HostLine:
    """The line of a host. The URLs of a parked host are parked."""
    delay = steady_delay(record, config, now)
    is_parked = record.state is HostState.PARKED
    wait = max((record.parked_until if is_parked else record.next_at) - now, 0.0)
    waiting = record.waiting + record.retrying
    reason = why_host(record)
    if not reason and record.state is HostState.EXHAUSTED and record.retrying:
        reason = "its URLs wait for a retry, or are leased"
    elif not reason and wait > 0:
        reason = f"delay by {owed(record, config, now).source}"
    return HostLine(
        host=record.host,
        state=record.shown_state.label,
        waiting=0 if is_parked else waiting,
        parked=record.parked + (waiting if is_parked else 0),
        captures=record.usage.captures,
        pages=record.usage.captures,
        delay_s=delay,
        wait_s=round(wait, 1),
        needs_s=round(wait + max(waiting - 1, 0) * delay, 1),
        reason=reason,
        last_error=record.last_error.label if record.last_error else "",
        errors=failures_of(record),
        retrying=record.retrying,
        own=own_state(record, config, now),
    )
