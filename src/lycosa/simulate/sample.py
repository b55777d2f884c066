"""Hosts of a sample, each with all that the simulation knows of it, and the pages on them by number.

Hosts are drawn with their addresses: those that share one are in the sample together, because they rest together. A sample is cut into
parts between addresses, so a part is a sample too, of fewer hosts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import numpy as np

from lycosa.simulate.web import Web, host_sizes

_LEAST_LATENCY = 0.1  # of the mean
MOST_PAGES = 5_000_000
"""Of one sample: about a kilobyte each."""


class HostRow(msgspec.Struct, frozen=True, gc=False):
    """One host of a real crawl. ``latency_s`` and ``crawl_delay_s`` are negative, ``body_bytes`` 0 and ``address`` empty when not known."""

    pages: int
    latency_s: float = -1.0
    crawl_delay_s: float = -1.0
    body_bytes: float = 0.0
    address: str = ""


class Host(msgspec.Struct, frozen=True, gc=False):
    """One host of a sample. ``latency_s`` is until the first byte, ``crawl_delay_s`` robots.txt's (negative = none), ``is_dead`` says that
    its name does not resolve, ``has_validators`` that it answers 304."""

    name: str
    pages: int
    latency_s: float
    crawl_delay_s: float
    page_bytes: float
    address: str
    is_dead: bool
    has_validators: bool


class Sample(msgspec.Struct, frozen=True):
    """Hosts that are a ``share`` of a web, and have that share of what crawls it."""

    share: float
    hosts: list[Host]

    def __len__(self) -> int:
        return len(self.hosts)

    @property
    def pages(self) -> int:
        """Pages of all its hosts."""
        return sum(host.pages for host in self.hosts)

    @property
    def typical(self) -> tuple[float, float]:
        """Mean seconds to the first byte, and mean bytes of a page."""
        pages = self.pages
        seconds = sum(host.latency_s * host.pages for host in self.hosts) / pages
        return seconds, sum(host.page_bytes * host.pages for host in self.hosts) / pages


def draw(web: Web, count: int, seed: int, hosts: Sequence[HostRow] = ()) -> Sample:
    """``count`` hosts of the web, or of a list of hosts, which then says what it knows of them. Raises ``ValueError`` when they have more
    pages than a simulation holds."""
    chance = random.Random(f"{seed}:{count}")
    rows = _listed(count, hosts, chance) if hosts else _described(web, count, chance)
    pages = sum(max(row.pages, 1) for row in rows)
    if pages > MOST_PAGES:
        raise ValueError(f"{len(rows):,} hosts have {pages:,} pages, and a sample may have {MOST_PAGES:,}: give a smaller --sample")
    dead, validators = _marked(len(rows), web.dead, chance), _marked(len(rows), web.validators, chance)
    made = [
        Host(
            name=f"h{number}.example",
            pages=max(row.pages, 1),
            latency_s=row.latency_s if row.latency_s >= 0 else _latency_s(web, chance),
            crawl_delay_s=row.crawl_delay_s,
            page_bytes=row.body_bytes or web.page_bytes,
            address=row.address or _address(number // web.hosts_per_address),
            is_dead=dead[number],
            has_validators=validators[number],
        )
        for number, row in enumerate(rows)
    ]
    return Sample(len(made) / web.hosts, made)


def parts_of(sample: Sample, count: int) -> list[Sample]:
    """The sample in ``count`` parts of about as many pages; hosts that share an address stay together."""
    groups: dict[str, list[Host]] = {}
    for host in sample.hosts:
        groups.setdefault(host.address, []).append(host)
    parts: list[list[Host]] = [[] for _ in range(min(count, len(groups)))]
    loads = [0] * len(parts)
    for group in sorted(groups.values(), key=_pages_of, reverse=True):  # the largest first, each to whom has least
        least = loads.index(min(loads))
        parts[least] += group
        loads[least] += _pages_of(group)
    return [Sample(sample.share * _pages_of(part) / sample.pages, part) for part in parts]


def _pages_of(hosts: Sequence[Host]) -> int:
    return sum(host.pages for host in hosts)


def _described(web: Web, count: int, chance: random.Random) -> list[HostRow]:
    sizes = host_sizes(web, count).tolist()
    chance.shuffle(sizes)
    slow = _marked(count, web.robots_delay, chance)
    return [HostRow(pages, crawl_delay_s=web.robots_delay_s if is_slow else -1.0) for pages, is_slow in zip(sizes, slow, strict=True)]


def _listed(count: int, hosts: Sequence[HostRow], chance: random.Random) -> list[HostRow]:
    """All, or in the order of their sizes one of each of ``count`` equal shares."""
    if count >= len(hosts):
        return list(hosts)
    ranked = sorted(hosts, key=lambda row: row.pages)
    step = len(ranked) / count
    chosen = [ranked[int((number + chance.random()) * step)] for number in range(count)]
    chance.shuffle(chosen)
    return chosen


def _marked(count: int, share: float, chance: random.Random) -> list[bool]:
    """A share of all, at random places; the number is exact to one, so that samples of different size differ in nothing else."""
    marks = np.arange(count) < round(count * share)
    chosen: list[bool] = marks.tolist()
    chance.shuffle(chosen)
    return chosen


def _latency_s(web: Web, chance: random.Random) -> float:
    return web.latency_s * (_LEAST_LATENCY + (1.0 - _LEAST_LATENCY) * chance.expovariate(1.0))


def _address(number: int) -> str:
    return f"2001:2::{number >> 16:x}:{number & 0xFFFF:x}"
