"""Everything about a host that follows from its number: name, size, manners.

Nothing is stored, so a web of a billion hosts needs no memory. Random values are hashes of the seed
and the property (XXH3, never Python's salted ``hash``), so they are the same in every process.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

import xxhash

from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.word_list import LANGUAGES

_NAME = re.compile(r"h(\d{6,})\.site(\d{6,})\.(example|test)")
# eight hosts are five sites: of one, one, two, one and three hosts
_SITE_OF_EIGHT = (0, 1, 2, 2, 3, 4, 4, 4)


def number(seed: int, *what: object) -> int:
    """A 64-bit number that is a function of its arguments."""
    return xxhash.xxh3_64_intdigest(repr(what).encode(), seed & 0xFFFFFFFFFFFFFFFF)


def share(seed: int, *what: object) -> float:
    """A number in [0, 1) that is a function of its arguments."""
    return (number(seed, *what) >> 11) * 2.0**-53


def host_name(index: int) -> str:
    """The name of a host, under the reserved top-level domains of RFC 2606."""
    site = index // 8 * 5 + _SITE_OF_EIGHT[index % 8]
    return f"h{index:06d}.site{site:06d}.{'test' if site % 4 == 3 else 'example'}"


class Hosts:
    """The hosts of a plan, by number from 0."""

    def __init__(self, plan: WebPlan) -> None:
        self.plan = plan
        self.page_count = lru_cache(maxsize=4096)(self._page_count)

    def __len__(self) -> int:
        return self.plan.hosts

    def find(self, name: str) -> int | None:
        """The number of a host name, ``None`` when this web has no such host."""
        match = _NAME.fullmatch(name)
        if not match:
            return None
        index = int(match[1])
        return index if index < self.plan.hosts and host_name(index) == name else None

    def _page_count(self, index: int) -> int:
        plan = self.plan
        if index < len(plan.page_counts):
            return max(1, plan.page_counts[index])
        if plan.distribution == "fixed":
            return max(1, round(plan.pages))
        draw = 1.0 - share(plan.seed, "pages", index)
        if plan.distribution == "zipf":
            # Pareto with exponent 1.5: the mean is three times the minimum
            size = plan.pages / 3.0 * draw ** (-1.0 / 1.5)
        else:
            angle = 2.0 * math.pi * share(plan.seed, "pages-angle", index)
            normal = math.sqrt(-2.0 * math.log(draw)) * math.cos(angle)  # Box and Muller
            size = plan.pages * math.exp(normal - 0.5)
        return max(1, min(int(size), int(plan.pages * 1000)))

    def language(self, index: int) -> str:
        """The language of the host's texts; half of the hosts are English."""
        draw = share(self.plan.seed, "language", index)
        return LANGUAGES[0] if draw < 0.5 else LANGUAGES[1 + int((draw - 0.5) * 6)]

    def latency_s(self, index: int) -> float:
        """The mean time to the first byte of this host.

        Exponentially distributed over hosts, with a minimum of a tenth of the mean.
        """
        mean = self.plan.latency_s
        return mean * (0.1 - 0.9 * math.log(1.0 - share(self.plan.seed, "latency", index)))

    def is_dead(self, index: int) -> bool:
        """Whether the name does not resolve. The first host always does, as a place to begin."""
        return index > 0 and share(self.plan.seed, "dead", index) < self.plan.dead_hosts

    def hubs(self) -> tuple[int, int]:
        """Two living hosts, different if possible, that serve the robots.txt of others."""
        alive = [index for index in range(min(len(self), 20)) if not self.is_dead(index)]
        return alive[0], alive[-1]

    def robots_variant(self, index: int) -> str:
        """The name of the host's ``RobotsVariant``."""
        plan = self.plan
        if not plan.robots_variants or share(plan.seed, "robots", index) >= plan.robots:
            return "allow"
        return plan.robots_variants[
            number(plan.seed, "robots-variant", index) % len(plan.robots_variants)
        ]
