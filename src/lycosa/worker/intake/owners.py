"""Finds the partition that owns a URL's host, here or at another worker."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lycosa.base.model.discovered import Discovered
from lycosa.base.model.parsed import Link
from lycosa.base.urls.identity import Canonicalizer, Sites, host_of, partition_of

MOST_HOSTS = 100_000
"""Hosts whose owner is cached, if the memory plan allows as many."""


class Addressing(msgspec.Struct, frozen=True):
    """From URL to owner: canonical form, site, partition.

    The owners of at most ``most_hosts`` hosts are cached.
    """

    canonicalizer: Canonicalizer
    sites: Sites
    partitions: int
    most_hosts: int = MOST_HOSTS


class UrlOwner:
    """A partition, here or elsewhere, and the links of one page that it is about to get."""

    __slots__ = ("links", "partition")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.links: list[Link] = []


class Owners:
    """One per worker."""

    def __init__(self, addressing: Addressing) -> None:
        self._addressing = addressing
        self._by_host: dict[bytes, UrlOwner] = {}
        self._by_partition: dict[int, UrlOwner] = {}

    def __repr__(self) -> str:
        return f"<Owners hosts={len(self._by_host)} of {self._addressing.most_hosts}>"

    def drop_caches(self) -> None:
        """Drop what is kept only to save lookups."""
        self._by_host.clear()

    def partition_of_host(self, host: str) -> int:
        """The partition that owns a host."""
        site = self._addressing.sites.site_of(host)
        return partition_of(site, self._addressing.partitions)

    def find(self, found: Discovered | Link) -> UrlOwner:
        """The owner of a URL's host."""
        owner = self._by_host.get(found.host8)
        if owner is None:
            number = self.partition_of_host(host_of(found.url))
            owner = self._by_partition.get(number)
            if owner is None:
                owner = self._by_partition[number] = UrlOwner(number)
            # All at once: an order of use would cost at every link, finding an owner again once per
            # host.
            if len(self._by_host) >= self._addressing.most_hosts:
                self._by_host.clear()
            self._by_host[found.host8] = owner
        return owner

    def route_links(self, links: Sequence[Link]) -> list[UrlOwner]:
        """Add each link to its owner; return the owners that have links.

        The caller empties them.
        """
        known = self._by_host
        for link in links:
            try:
                known[link.host8].links.append(link)
            except KeyError:
                # Most hosts are known, and since Python 3.11 a `try` that raises nothing costs
                # nothing.
                self.find(link).links.append(link)
        return [owner for owner in self._by_partition.values() if owner.links]
