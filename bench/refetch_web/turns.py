"""Which of the waiting pages are fetched in a step: each host and each address has its turns.

Pages of a host go by band, then in the order in which they began to wait. Hosts of an address take
turns, as on the workbench.
"""

from __future__ import annotations

import numpy as np
from bench.refetch_web.made_web import Floats, Ints, MadeWeb


class Turns:
    """The turns of hosts, addresses and the crawl. Those that are not used do not add up."""

    def __init__(self, web: MadeWeb, step: float, most: float = np.inf) -> None:
        self._web, self._most = web, most * step
        self._host = web.host_turns * step
        self._is_near = np.isfinite(web.address_turns)
        self._address = np.where(self._is_near, web.address_turns * step, 0.0)
        self._of_host = np.zeros(web.hosts)
        self._of_address = np.zeros(len(web.address_turns))
        self._of_crawl = 0.0

    def choose(self, pages: Ints, band: Ints, since: Floats) -> Ints:
        """The places in ``pages`` of those that are fetched now."""
        web, host = self._web, self._web.host[pages]
        self._of_host = np.minimum(self._of_host % 1.0, 1.0) + self._host
        self._of_address = self._of_address % 1.0 + self._address
        self._of_crawl = self._of_crawl % 1.0 + self._most
        turns = np.floor(self._of_host).astype(np.int64)
        is_over = np.bincount(host, minlength=web.hosts) > turns
        places = np.arange(len(pages))
        rank = np.zeros(len(pages), np.int64)
        of_address = web.address[host]
        is_near = self._is_near[of_address]
        ranked = is_over[host] | is_near
        some = places[ranked]
        if len(some):
            order = some[np.lexsort((since[some], band[some], host[some]))]
            rank[order] = _ranks(host[order])
        kept = places[rank < turns[host]] if len(some) else places
        near = is_near[kept]
        if near.any():
            those = kept[near]
            order = those[np.lexsort((since[those], rank[those], of_address[those]))]
            within = _ranks(of_address[order]) < np.floor(self._of_address)[of_address[order]]
            kept = np.concatenate([kept[~near], order[within]])
        if len(kept) > self._of_crawl:
            kept = kept[np.argsort(since[kept], kind="stable")[: int(self._of_crawl)]]
        used = np.bincount(host[kept], minlength=web.hosts)
        self._of_host = np.where(used < turns, 0.0, self._of_host)
        return kept


def _ranks(groups: Ints) -> Ints:
    """The place of each in its group; the groups are sorted."""
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.arange(len(groups)) - np.repeat(first, np.diff(first, append=len(groups)))
