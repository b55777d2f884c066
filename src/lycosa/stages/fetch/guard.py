"""Refuses addresses outside the public internet, so that no page can direct the crawler inward.

It judges addresses as text and never names: a name can resolve to another address a moment later.
So the fetcher asks before it connects, and again with the address that it is really connected to.
The ranges are those of the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890 and
successors), multicast, addresses not allocated for global unicast, and metadata services of clouds
on other addresses. An address that contains an IPv4 address (mapped, NAT64, 6to4, Teredo) is judged
by that one, because the packets go there.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_Network = IPv4Network | IPv6Network
_CACHE_ENTRIES = 65_536

# The most specific range first, because its name is reported.
_IPV4 = (
    ("169.254.169.254/32", "cloud metadata"),
    ("168.63.129.16/32", "cloud metadata (Azure)"),
    ("100.100.100.200/32", "cloud metadata (Alibaba)"),
    ("0.0.0.0/32", "unspecified"),
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared address space (carrier-grade NAT)"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "IETF protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112"),
    ("192.52.193.0/24", "AMT"),
    ("192.88.99.0/24", "6to4 relay anycast"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "AS112"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "limited broadcast"),
    ("240.0.0.0/4", "reserved"),
)
_IPV6 = (
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::/96", "IPv4-compatible"),
    ("64:ff9b:1::/48", "local-use NAT64"),
    ("100::/64", "discard-only"),
    ("100:0:0:1::/64", "dummy prefix"),
    ("2001:2::/48", "benchmarking"),
    ("2001:3::/32", "AMT"),
    ("2001:4:112::/48", "AS112"),
    ("2001:10::/28", "ORCHID"),
    ("2001:20::/28", "ORCHIDv2"),
    ("2001:30::/28", "drone remote identification"),
    ("2001::/23", "IETF protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2620:4f:8000::/48", "AS112"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fd00:ec2::254/128", "cloud metadata"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_RANGES_4 = tuple((IPv4Network(text), name) for text, name in _IPV4)
_RANGES_6 = tuple((IPv6Network(text), name) for text, name in _IPV6)
_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")


class Guard:
    """Decides which addresses may not be connected to.

    ``allowed`` are the operator's exceptions, CIDR ranges or single addresses. Raises
    ``ValueError`` with the entry when one cannot be parsed.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = tuple(_network(text) for text in allowed)
        self._verdicts: dict[str, str | None] = {}

    def refusal(self, address: str) -> str | None:
        """The special-purpose range that contains ``address``, or ``None`` when it is allowed."""
        try:
            return self._verdicts[address]
        except KeyError:
            pass  # not judged yet
        verdict = self._judge(address)
        if len(self._verdicts) >= _CACHE_ENTRIES:
            self._verdicts.clear()
        self._verdicts[address] = verdict
        return verdict

    def __repr__(self) -> str:
        allowed = ", ".join(map(str, self._allowed)) or "nothing special"
        return f"Guard(allowed: {allowed}; {len(self._verdicts)} judged)"

    def _judge(self, text: str) -> str | None:
        try:
            address = ip_address(text.removeprefix("[").removesuffix("]"))
        except ValueError:
            return "not an address"
        if self._is_allowed(address):
            return None
        if isinstance(address, IPv4Address):
            return _special_4(address)
        embedded = _embedded(address)
        if not embedded:
            return _special_6(address)
        kind, inner = embedded
        if self._is_allowed(inner):
            return None
        special = _special_4(inner)
        return f"{special} ({kind})" if special else None

    def _is_allowed(self, address: IPv4Address | IPv6Address) -> bool:
        return any(
            address.version == network.version and address in network for network in self._allowed
        )


def _network(text: str) -> _Network:
    try:
        return ip_network(text.strip())
    except ValueError as error:
        raise ValueError(f"not an address range (CIDR): {text!r}: {error}") from None


def _embedded(address: IPv6Address) -> tuple[str, IPv4Address] | None:
    if address.ipv4_mapped:
        return "IPv4-mapped", address.ipv4_mapped
    if address.sixtofour:
        return "6to4", address.sixtofour
    if address.teredo:
        return "Teredo", address.teredo[1]  # the client; the first is its server
    if address in _NAT64:
        return "NAT64", IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _special_4(address: IPv4Address) -> str | None:
    return next((name for network, name in _RANGES_4 if address in network), None)


def _special_6(address: IPv6Address) -> str | None:
    for network, name in _RANGES_6:
        if address in network:
            return name
    return None if address in _GLOBAL_UNICAST else "not global unicast"
