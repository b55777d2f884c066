"""DNS queries through c-ares.

It reads the hosts file and asks name servers in the order of nsswitch.conf, A and AAAA together,
and gives the TTL of each answer. There is one channel per process, created inside the running loop
at the first lookup: for each channel c-ares watches the system's configuration, and the kernel
allows few such watches. Search domains are disabled, because a link to ``intranet.example`` must
never become a query about the crawler's network.

When c-ares receives an answer that it cannot read, it fails all queries on that socket, so one
hostile name could fail others. A query that fails this way is repeated on a separate channel, where
only its own answers matter.

The ``lookups`` option, which sets the order, is not used: pycares 5 frees that string before
passing it to c-ares. In a process where that memory had been reused, no name server was asked
("Could not contact DNS servers" for every name).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import aiodns
import pycares

from lycosa.base.config.sections import DnsSection
from lycosa.base.ports import ResolveError
from lycosa.base.reasons import Reason

_NO_SEARCH_WITH_EDNS = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_EDNS
# ARES_AI_NOSORT of ares.h: we choose the order, and sorting opens a socket for each address
_NO_SORT = 1 << 7
_NO_SUCH_NAME = frozenset(
    {pycares.errno.ARES_ENOTFOUND, pycares.errno.ARES_ENODATA, pycares.errno.ARES_EBADNAME}
)
_GRACE_S = 0.5
_ALONE = 4  # additional channels at once, each with a watch and a socket or two


class _UnreadableAnswerError(ResolveError):
    """The channel received an answer that c-ares cannot read."""


class AiodnsQuery:
    """Queries to ``section.servers`` (``ADDRESS`` or ``ADDRESS:PORT``), or to the system's."""

    def __init__(self, section: DnsSection) -> None:
        self._section = section
        self._resolver: aiodns.DNSResolver | None = None
        self._alone = asyncio.Semaphore(_ALONE)

    async def query_name(self, name: str) -> Sequence[tuple[str, float]]:
        """Addresses and their TTL in seconds (0 from the hosts file). Raises ``ResolveError``."""
        try:
            return await self._ask(self._channel(), name)
        except _UnreadableAnswerError:
            pass  # perhaps the answer to another query on this channel
        async with self._alone:
            channel = self._new_channel()
            try:
                return await self._ask(channel, name)
            finally:
                await channel.close()

    async def _ask(self, channel: aiodns.DNSResolver, name: str) -> Sequence[tuple[str, float]]:
        family = socket.AF_UNSPEC if self._section.ipv6 else socket.AF_INET
        try:
            async with asyncio.timeout(self._section.timeout_s + _GRACE_S):
                result = await channel.getaddrinfo(
                    name, family=family, type=socket.SOCK_STREAM, flags=_NO_SORT
                )
        except TimeoutError:
            # c-ares limits each try; this limits the whole, so that a visit ends whatever it does.
            raise ResolveError(name, Reason.DNS_TIMEOUT, "no answer within the limit") from None
        except aiodns.error.DNSError as error:
            code, message = (*error.args, "")[:2]
            kind = _UnreadableAnswerError if code == pycares.errno.ARES_EBADRESP else ResolveError
            raise kind(name, _reason_of(int(code)), str(message)) from None
        except (UnicodeError, ValueError) as error:
            # A name that DNS cannot carry, such as one with a label of 64 characters.
            raise ResolveError(name, Reason.DNS_NO_SUCH_NAME, str(error)) from None
        addresses = [(_text(node.addr[0]), float(node.ttl)) for node in result.nodes]
        if not addresses:
            raise ResolveError(name, Reason.DNS_NO_SUCH_NAME, "the name has no address")
        return addresses

    async def close(self) -> None:
        """Cancel the queries in flight."""
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None

    def _channel(self) -> aiodns.DNSResolver:
        if self._resolver is None:
            self._resolver = self._new_channel()
        return self._resolver

    def _new_channel(self) -> aiodns.DNSResolver:
        section = self._section
        return aiodns.DNSResolver(
            nameservers=list(section.servers) or None,
            timeout=section.timeout_s
            # c-ares doubles the wait at each try, so the waits add up to the limit
            / (2**section.tries - 1),
            tries=section.tries,
            flags=_NO_SEARCH_WITH_EDNS,
        )


def _reason_of(code: int) -> Reason:
    if code in _NO_SUCH_NAME:
        return Reason.DNS_NO_SUCH_NAME
    return Reason.DNS_TIMEOUT if code == pycares.errno.ARES_ETIMEOUT else Reason.DNS_FAILED


def _text(address: bytes | str) -> str:
    return address.decode("ascii") if isinstance(address, bytes) else address
