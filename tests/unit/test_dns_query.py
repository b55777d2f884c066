"""Questions over real UDP to an authoritative server of our own on loopback."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from dnslib import AAAA, CNAME, QTYPE, RCODE, RR, SOA, A, DNSRecord

from lycosa.base.config.sections import DnsSection
from lycosa.base.ports import ResolveError
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.stages.fetch.dns import CachingResolver
from lycosa.stages.fetch.dns_query import AiodnsQuery

Respond = Callable[[DNSRecord], DNSRecord | None]


class NameServer(asyncio.DatagramProtocol):
    """Answers as ``respond`` says; ``None`` means silence."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.asked: list[tuple[str, str]] = []

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]  # a selector transport is not one by class
        self.transport = transport

    def datagram_received(self, data: bytes, address: tuple[str | int, ...]) -> None:
        request = DNSRecord.parse(data)
        self.asked.append((str(request.q.qname), QTYPE[request.q.qtype]))
        if str(request.q.qname).endswith("garbage.test."):
            self.transport.sendto(data[:2] + b"\xff" * 300, address)
            return
        reply = self._respond(request)
        if reply is not None:
            self.transport.sendto(reply.pack(), address)

    @property
    def where(self) -> str:
        host, port = self.transport.get_extra_info("sockname")[:2]
        return f"{host}:{port}"


def zone(request: DNSRecord) -> DNSRecord | None:
    name, kind = str(request.q.qname).rstrip("."), QTYPE[request.q.qtype]
    reply = request.reply()
    if name == "both.test":
        rdata = A("192.0.2.1") if kind == "A" else AAAA("2001:db8::1")
        reply.add_answer(RR(name, request.q.qtype, rdata=rdata, ttl=120))
    elif name == "alias.test":
        reply.add_answer(RR(name, QTYPE.CNAME, rdata=CNAME("both.test"), ttl=30))
        if kind == "A":
            reply.add_answer(RR("both.test", QTYPE.A, rdata=A("192.0.2.1"), ttl=500))
    elif name == "broken.test":
        reply.header.rcode = RCODE.SERVFAIL
    elif name == "silent.test":
        return None
    elif name == "empty.test":
        reply.add_auth(
            RR("test", QTYPE.SOA, rdata=SOA("ns.test", "x.test", (1, 2, 3, 4, 5)), ttl=5)
        )
    else:
        reply.header.rcode = RCODE.NXDOMAIN
    return reply


@pytest.fixture
async def server() -> AsyncIterator[NameServer]:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(
        lambda: NameServer(zone), local_addr=("127.0.0.1", 0)
    )
    yield protocol
    transport.close()


def section_of(server: NameServer, **settings: object) -> DnsSection:
    return DnsSection(servers=(server.where,), **settings)  # type: ignore[arg-type]


async def reason_of(query: AiodnsQuery, name: str) -> Reason:
    with pytest.raises(ResolveError) as raised:
        await query.query_name(name)
    await query.close()
    return raised.value.reason


async def test_both_families_come_with_their_ttl(server: NameServer) -> None:
    query = AiodnsQuery(section_of(server))
    assert sorted(await query.query_name("both.test")) == [
        ("192.0.2.1", 120.0),
        ("2001:db8::1", 120.0),
    ]
    await query.close()


async def test_ipv6_is_not_asked_for_when_it_is_off(server: NameServer) -> None:
    query = AiodnsQuery(section_of(server, ipv6=False))
    assert list(await query.query_name("both.test")) == [("192.0.2.1", 120.0)]
    assert server.asked == [("both.test.", "A")]
    await query.close()


async def test_an_alias_is_followed(server: NameServer) -> None:
    query = AiodnsQuery(section_of(server, ipv6=False))
    answer = await query.query_name("alias.test")
    assert [address for address, _ in answer] == ["192.0.2.1"]
    await query.close()


@pytest.mark.parametrize("name", ["missing.test", "empty.test", "a..b"])
async def test_a_name_without_an_address_does_not_exist(server: NameServer, name: str) -> None:
    assert await reason_of(AiodnsQuery(section_of(server)), name) is Reason.DNS_NO_SUCH_NAME


async def test_an_error_of_the_server_is_a_failure(server: NameServer) -> None:
    assert (
        await reason_of(AiodnsQuery(section_of(server, timeout_s=1.0)), "broken.test")
        is Reason.DNS_FAILED
    )


async def test_silence_is_a_timeout(server: NameServer) -> None:
    query = AiodnsQuery(section_of(server, timeout_s=0.3, tries=2))
    assert await reason_of(query, "silent.test") is Reason.DNS_TIMEOUT


async def test_an_unreadable_answer_fails_its_own_name_and_no_other(server: NameServer) -> None:
    query = AiodnsQuery(section_of(server, timeout_s=2.0, tries=2, ipv6=False))
    names = [
        name
        for number in range(10)
        for name in (f"{number}.garbage.test", "both.test", f"{number}.missing.test")
    ]
    outcomes = await asyncio.gather(
        *(query.query_name(name) for name in names), return_exceptions=True
    )
    await query.close()
    assert outcomes[1::3] == [[("192.0.2.1", 120.0)]] * 10
    assert [outcome.reason for outcome in outcomes[::3] if isinstance(outcome, ResolveError)] == [
        Reason.DNS_FAILED
    ] * 10
    assert [outcome.reason for outcome in outcomes[2::3] if isinstance(outcome, ResolveError)] == [
        Reason.DNS_NO_SUCH_NAME
    ] * 10


async def test_search_domains_are_never_tried(server: NameServer) -> None:
    await reason_of(AiodnsQuery(section_of(server)), "intranet")
    assert {name for name, _ in server.asked} <= {"intranet."}


async def test_names_are_asked_for_when_freed_memory_is_overwritten(server: NameServer) -> None:
    """Settings of a channel that are freed too early work by luck until something else lies
    there.
    """
    program = (
        "import asyncio, sys\n"
        "from lycosa.base.config.sections import DnsSection\n"
        "from lycosa.stages.fetch.dns_query import AiodnsQuery\n"
        "async def main():\n"
        "    query = AiodnsQuery(DnsSection(servers=(sys.argv[1],), timeout_s=20.0))\n"
        "    print(sorted(address for address, _ in await query.query_name('both.test')))\n"
        "    await query.close()\n"
        "asyncio.run(main())\n"
    )
    overwriting = {
        "GLIBC_TUNABLES": (
            "glibc.malloc.perturb=170:glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"
        )
    }
    asking = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        server.where,
        env={**os.environ, **overwriting},
        stdout=subprocess.PIPE,
    )
    out, _ = await asking.communicate()
    assert out.decode().strip() == "['192.0.2.1', '2001:db8::1']"


async def test_the_hosts_file_is_honoured(server: NameServer) -> None:
    name, address = _hosts_entry()
    query = AiodnsQuery(section_of(server))
    assert address in [found for found, _ in await query.query_name(name)]
    assert server.asked == []
    await query.close()


def _hosts_entry() -> tuple[str, str]:
    for line in Path("/etc/hosts").read_text(encoding="utf-8").splitlines():
        fields = line.partition("#")[0].split()
        for name in fields[1:]:
            if fields[0].count(".") == 3 and "localhost" not in name:
                return name, fields[0]
    pytest.skip("the hosts file names nothing but localhost")


async def test_many_names_at_once_all_get_an_answer(server: NameServer) -> None:
    section = section_of(server, concurrency=32)
    resolver = CachingResolver(section, SystemClock(), AiodnsQuery(section))
    outcomes = await asyncio.gather(
        *(resolver.resolve(f"{number}.missing.test") for number in range(300)),
        return_exceptions=True,
    )
    assert {outcome.reason for outcome in outcomes if isinstance(outcome, ResolveError)} == {
        Reason.DNS_NO_SUCH_NAME
    }
    assert await resolver.resolve("both.test") == ("192.0.2.1", "2001:db8::1")
    await resolver.close()
