"""The names of a synthetic web: the ``Resolver`` port without a network.

Addresses are in 198.18.0.0/15, which RFC 2544 reserves for testing equipment, so that no real
machine is addressed even if one leaks out. Several hosts share an address, as on the web, because
limits per address would otherwise have no effect.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from lycosa.base.ports import Clock, ResolveError
from lycosa.base.reasons import Reason
from lycosa.synthetic.synthetic_hosts import Hosts, number

_FIRST = int(ipaddress.IPv4Address("198.18.0.1"))
_MAX = 131_000
_DEAD = (Reason.DNS_NO_SUCH_NAME, Reason.DNS_FAILED, Reason.DNS_TIMEOUT)


class SyntheticResolver:
    """Answers for the hosts of a plan after ``latency_s``.

    ``hosts_per_address`` hosts share an address on average. Dead hosts of the plan and names in
    ``failing`` raise ``ResolveError`` (a timeout takes ten seconds); other names do not exist.
    ``asked`` counts the lookups per name.
    """

    def __init__(
        self,
        hosts: Hosts,
        clock: Clock,
        *,
        hosts_per_address: float = 3.0,
        latency_s: float = 0.02,
        failing: Mapping[str, Reason] | None = None,
    ) -> None:
        self._hosts, self._clock = hosts, clock
        self._addresses = max(1, min(_MAX, round(len(hosts) / hosts_per_address)))
        self._latency_s = latency_s
        self._failing = failing or {}
        self.asked: dict[str, int] = {}

    async def resolve(self, name: str) -> Sequence[str]:
        self.asked[name] = self.asked.get(name, 0) + 1
        try:
            return [str(ipaddress.ip_address(name.strip("[]")))]
        except ValueError:  # a name
            index = self._hosts.find(name)
        reason = self._failing.get(name) or self._failure(index)
        await self._clock.sleep(10.0 if reason is Reason.DNS_TIMEOUT else self._latency_s)
        if reason or index is None:
            raise ResolveError(name, reason or Reason.DNS_NO_SUCH_NAME, "synthetic")
        return [self.address(index)]

    def address(self, index: int) -> str:
        """The address of a host, by number."""
        return str(
            ipaddress.IPv4Address(
                _FIRST + number(self._hosts.plan.seed, "address", index) % self._addresses
            )
        )

    def _failure(self, index: int | None) -> Reason:
        if index is None:
            return Reason.DNS_NO_SUCH_NAME
        if not self._hosts.is_dead(index):
            return Reason.NONE
        return _DEAD[number(self._hosts.plan.seed, "dead-how", index) % 3]

    async def close(self) -> None:
        """Do nothing: no resources are held."""
