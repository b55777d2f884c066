"""Name servers that lie and TLS servers with bad certificates, on loopback, on a loop of their
own.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from dnslib import CNAME, QTYPE, RR, A, DNSError, DNSRecord

_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 34\r\nConnection:"
    b" close\r\n\r\n<title>Secure</title><p>A page</p>"
)
PRIVATE = "169.254.169.254"
DNS_CASES = (
    "changes",
    "both",
    "private",
    "silent",
    "alias-loop",
    "garbage",
    "wrong-question",
    "refuses",
)
TLS_CASES = (
    "expired",
    "not-yet",
    "self-signed",
    "wrong-name",
    "unknown-authority",
    "old-protocol",
    "weak-key",
    "no-tls",
    "silent",
    "good",
)


class Network(NamedTuple):
    """Where the name server is, the port of each TLS case, and the authority that the crawl is
    told to trust.
    """

    name_server: str
    ports: dict[str, int]
    ca_file: Path


class _NameServer(asyncio.DatagramProtocol):
    """Answers for ``CASE.dns.example``; every second answer of ``changes`` is a private address,
    and none may be kept.
    """

    def __init__(self) -> None:
        self._asked = 0

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]  # a selector transport is not one by class
        self._transport = transport

    def datagram_received(self, data: bytes, address: tuple[str | int, ...]) -> None:
        try:
            request = DNSRecord.parse(data)
        except DNSError:
            return
        case = str(request.q.qname).partition(".")[0].lower()
        if case == "silent":
            return
        if case == "garbage":
            self._transport.sendto(data[:2] + b"\xff" * 300, address)
            return
        self._transport.sendto(self._reply(case, request).pack(), address)

    def _reply(self, case: str, request: DNSRecord) -> DNSRecord:
        reply, name = request.reply(), str(request.q.qname)
        if case == "refuses":
            reply.header.rcode = 5
        elif case == "alias-loop":
            reply.add_answer(RR(name, QTYPE.CNAME, rdata=CNAME(name), ttl=0))
        elif case == "wrong-question":
            reply.add_answer(RR("other.example", QTYPE.A, rdata=A("127.0.0.1"), ttl=0))
        elif request.q.qtype == QTYPE.A:
            for text in self._addresses(case):
                reply.add_answer(RR(name, QTYPE.A, rdata=A(text), ttl=0))
        return reply

    def _addresses(self, case: str) -> list[str]:
        if case == "changes":
            self._asked += 1
            return ["127.0.0.1" if self._asked % 2 else PRIVATE]
        return [PRIVATE] if case == "private" else ["127.0.0.1", PRIVATE]


async def _talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_PAGE)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass  # the client did not like the certificate
    finally:
        writer.close()


async def _never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(4096):
        pass
    writer.close()


def _context(case: str, authority: trustme.CA) -> ssl.SSLContext | None:
    if case in ("no-tls", "silent"):
        return None
    name, now = f"{case}.tls.example", datetime.now(UTC)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if case == "expired":
        issued = authority.issue_cert(
            name, not_before=now - timedelta(days=9), not_after=now - timedelta(days=1)
        )
    elif case == "not-yet":
        issued = authority.issue_cert(
            name, not_before=now + timedelta(days=1), not_after=now + timedelta(days=9)
        )
    elif case == "wrong-name":
        issued = authority.issue_cert("other.example")
    elif case == "unknown-authority":
        issued = trustme.CA().issue_cert(name)
    else:
        issued = authority.issue_cert(name)
    if case in ("self-signed", "weak-key"):
        _configure_own(context, name, 1024 if case == "weak-key" else 2048)
    else:
        issued.configure_cert(context)
    if case == "old-protocol":
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            # that it is out of date is why it is here
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    return context


def _configure_own(context: ssl.SSLContext, name: str, bits: int) -> None:
    """A certificate that vouches for itself, made with a key of so many bits."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    subject, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(
            subject,
            subject,
            key.public_key(),
            x509.random_serial_number(),
            now - timedelta(1),
            now + timedelta(9),
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else our own side would refuse a weak key
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(private + certificate.public_bytes(pem))
        file.flush()
        context.load_cert_chain(file.name)


class _Servers:
    """All of them, on the loop that runs ``start``."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []

    async def start(self, ca_file: Path) -> Network:
        loop, authority, ports = asyncio.get_running_loop(), trustme.CA(), {}
        authority.cert_pem.write_to_path(str(ca_file))
        loop.set_exception_handler(lambda *_: None)  # handshakes that fail are what it is for
        self._names, _ = await loop.create_datagram_endpoint(
            _NameServer, local_addr=("127.0.0.1", 0)
        )
        for case in TLS_CASES:
            server = await asyncio.start_server(
                _never if case == "silent" else _talk, "127.0.0.1", 0, ssl=_context(case, authority)
            )
            ports[case] = server.sockets[0].getsockname()[1]
            self._servers.append(server)
        host, port = self._names.get_extra_info("sockname")
        return Network(f"{host}:{port}", ports, ca_file)

    async def stop(self) -> None:
        self._names.close()
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the loop's next turn


@contextmanager
def hostile_network(folder: Path) -> Iterator[Network]:
    """Serves until the block ends."""
    loop, servers = asyncio.new_event_loop(), _Servers()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(servers.start(folder / "ca.pem"), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(servers.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
