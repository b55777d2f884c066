"""Hosts of a sample, with all that the simulation knows about them, and their pages by number.

Hosts are drawn with their addresses: hosts that share one are in the sample together, because they
share its delay. A sample is divided into parts between addresses, so a part is a sample too, of
fewer hosts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.simulate.web_model import Web, host_sizes

_MIN_LATENCY = 0.1  # of the mean
_DRAWINGS = 32
MAX_PAGES = 5_000_000
"""Maximum of one sample: each takes about a kilobyte."""


class HostRow(msgspec.Struct, frozen=True, gc=False):
    """One host of a real crawl.

    Unknown values: ``latency_s`` and ``crawl_delay_s`` negative, ``body_bytes`` 0, ``address``
    empty, ``is_dead`` ``None``.
    """

    pages: int
    latency_s: float = -1.0
    crawl_delay_s: float = -1.0
    body_bytes: float = 0.0
    address: str = ""
    is_dead: bool | None = None


class Host(msgspec.Struct, frozen=True, gc=False):
    """One host of a sample.

    ``latency_s`` is the time to the first byte, ``crawl_delay_s`` that of robots.txt (negative =
    none). ``is_dead`` says that its name does not resolve, ``has_validators`` that it answers 304.
    """

    name: str
    pages: int
    latency_s: float
    crawl_delay_s: float
    page_bytes: float
    address: str
    is_dead: bool
    has_validators: bool


class Sample(msgspec.Struct, frozen=True):
    """Hosts that are a ``share`` of a web; the same share of the crawl visits them."""

    share: float
    hosts: list[Host]

    def __len__(self) -> int:
        return len(self.hosts)

    @property
    def pages(self) -> int:
        """The number of pages of all its hosts."""
        return sum(host.pages for host in self.hosts)

    @property
    def typical(self) -> tuple[float, float]:
        """Mean seconds to the first byte, and mean bytes of a page."""
        pages = self.pages
        seconds = sum(host.latency_s * host.pages for host in self.hosts) / pages
        return seconds, sum(host.page_bytes * host.pages for host in self.hosts) / pages


def draw(web: Web, count: int, seed: int, hosts: Sequence[HostRow] = ()) -> Sample:
    """``count`` hosts of the web, or of a list of hosts, whose known values are used.

    Raises ``ValueError`` when they have more pages than a simulation can hold.
    """
    chance = np.random.default_rng([seed, count])
    rows = _listed(count, hosts, chance) if hosts else _described(web, count, chance)
    pages = np.array([max(row.pages, 1) for row in rows])
    if pages.sum() > MAX_PAGES:
        raise ValueError(
            f"{len(rows):,} hosts have {pages.sum():,} pages, and a sample may have {MAX_PAGES:,}:"
            " use a smaller --sample"
        )
    dead, validators = _marked(pages, web.dead, chance), _marked(pages, web.validators, chance)
    latencies = _latencies(web, pages, chance)
    made = [
        Host(
            name=f"h{number}.example",
            pages=max(row.pages, 1),
            latency_s=row.latency_s if row.latency_s >= 0 else latencies[number],
            crawl_delay_s=row.crawl_delay_s,
            page_bytes=row.body_bytes or web.page_bytes,
            address=row.address or _address(number // web.hosts_per_address),
            is_dead=dead[number] if row.is_dead is None else row.is_dead,
            has_validators=validators[number],
        )
        for number, row in enumerate(rows)
    ]
    return Sample(len(made) / web.hosts, made)


def parts_of(sample: Sample, count: int) -> list[Sample]:
    """The sample in ``count`` parts with similar numbers of pages.

    Hosts that share an address stay together.
    """
    groups: dict[str, list[Host]] = {}
    for host in sample.hosts:
        groups.setdefault(host.address, []).append(host)
    parts: list[list[Host]] = [[] for _ in range(min(count, len(groups)))]
    loads = [0] * len(parts)
    # the largest first, each to the part with the fewest pages
    for group in sorted(groups.values(), key=_pages_of, reverse=True):
        least = loads.index(min(loads))
        parts[least] += group
        loads[least] += _pages_of(group)
    return [Sample(sample.share * _pages_of(part) / sample.pages, part) for part in parts]


def _pages_of(hosts: Sequence[Host]) -> int:
    return sum(host.pages for host in hosts)


def _described(web: Web, count: int, chance: np.random.Generator) -> list[HostRow]:
    sizes = chance.permutation(host_sizes(web, count))
    slow = _marked(sizes, web.robots_delay, chance)
    delays = [web.robots_delay_s if is_slow else -1.0 for is_slow in slow]
    return [
        HostRow(pages, crawl_delay_s=delay_s)
        for pages, delay_s in zip(sizes.tolist(), delays, strict=True)
    ]


def _listed(count: int, hosts: Sequence[HostRow], chance: np.random.Generator) -> list[HostRow]:
    """All hosts, or in the order of their sizes one of each of ``count`` equal shares."""
    if count >= len(hosts):
        return list(hosts)
    ranked = sorted(hosts, key=lambda row: row.pages)
    step = len(ranked) / count
    chosen = [
        ranked[int((number + place) * step)] for number, place in enumerate(chance.random(count))
    ]
    return [chosen[number] for number in chance.permutation(count)]


def _marked(pages: NDArray[np.int64], share: float, chance: np.random.Generator) -> list[bool]:
    """A share of all hosts, at random places.

    Of several draws, the one whose share of the pages is nearest is used. Otherwise one giant that
    is dead in a small sample, and not in the next, would hide other differences between them.
    """
    wanted, total = round(len(pages) * share), int(pages.sum())
    drawn = (chance.permutation(len(pages))[:wanted] for _ in range(_DRAWINGS))
    best = min(drawn, key=lambda places: abs(int(pages[places].sum()) / total - share))
    marks = np.zeros(len(pages), bool)
    marks[best] = True
    return list(map(bool, marks))


def _latencies(web: Web, pages: NDArray[np.int64], chance: np.random.Generator) -> list[float]:
    """Exponential, all at least a tenth of the mean.

    Of several draws, the one whose mean over the pages is nearest is used.
    """
    ranks = (np.arange(len(pages)) + 0.5) / len(pages)
    times = -np.log1p(-ranks)
    drawn = (chance.permutation(times) for _ in range(_DRAWINGS))
    best = min(drawn, key=lambda each: abs(float((each * pages).sum()) / float(pages.sum()) - 1.0))
    return list(map(float, web.latency_s * (_MIN_LATENCY + (1.0 - _MIN_LATENCY) * best)))


def _address(number: int) -> str:
    return f"2001:2::{number >> 16:x}:{number & 0xFFFF:x}"
