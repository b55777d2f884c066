"""Signed requests over real sockets: a verifier of another library accepts what arrives over
HTTP/1.1 and HTTP/2, and refuses whatever was changed on the way.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from http_message_signatures import InvalidSignature

from lycosa.base.config.sections import AgentSection
from lycosa.base.model.fetched import FetchKind, FetchRequest, Limits
from lycosa.base.reasons import Reason
from lycosa.base.signing.message_signature import MessageSigner
from lycosa.base.signing.signing_key import SigningKey, create_key, public_jwk
from lycosa.base.system.clock import SystemClock
from lycosa.stages.fetch.http_client import CurlFetcher, RequestHooks
from lycosa.stages.fetch.request_signer import LIFETIME_S, RequestSigner, request_signer
from raw_server import OK, RawServer, Talk, World, always, saying, to
from signature_judge import Judge, SeenRequest, seen_block, seen_fields
from tls_server import AUTHORITY, server_tls

DIRECTORY = "https://crawler.example/.well-known/http-message-signatures-directory"


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return create_key(tmp_path / "signing.pem")


@pytest.fixture
def judge(key: SigningKey) -> Judge:
    return Judge({DIRECTORY: {"keys": [public_jwk(key.public)]}})


def signing(world: World, folder: Path, ca_file: str = "") -> CurlFetcher:
    """A fetcher with the key of the test."""
    agent = AgentSection(key_file=str(folder / "signing.pem"), key_directory=DIRECTORY)
    hooks = RequestHooks(signer=request_signer(agent, SystemClock()))
    return world.fetcher(hooks=hooks, ca_file=ca_file)


@pytest.mark.parametrize("kind", list(FetchKind))
@pytest.mark.parametrize("path", ["/", "/a/b?c=d&e=%2F", "/%7Eu/a%20b?", "/a;b,c'(d)!$&*+?x=?"])
async def test_every_kind_of_request_is_accepted_over_http_1(
    world: World, tmp_path: Path, key: SigningKey, judge: Judge, kind: FetchKind, path: str
) -> None:
    server = await world.serve(always(OK))
    fetcher = signing(world, tmp_path)
    request = FetchRequest(f"http://www.example.org:{server.port}{path}", "127.0.0.1", kind)
    fetched = await fetcher.fetch(request)
    assert fetched.reason is Reason.NONE
    # What the WARC file will have is what the server got.
    assert [fetched.request_block] == server.requests
    result = judge.accept(seen_block(server.requests[0]))
    assert result.parameters["keyid"] == key.key_id


async def test_requests_over_http_2_are_accepted(
    world: World, tmp_path: Path, key: SigningKey, judge: Judge
) -> None:
    seen: list[SeenRequest] = []
    server = await world.serve(noting(seen), tls=_tls())
    fetcher = signing(world, tmp_path, _authority(tmp_path))
    for kind in FetchKind:
        url = f"https://www.example.org:{server.port}/p?q={kind.value}"
        fetched = await fetcher.fetch(FetchRequest(url, "127.0.0.1", kind))
        assert (fetched.protocol, fetched.status) == ("h2", 200), fetched
        for name in (b"signature-agent: sig1=", b"signature-input: sig1=", b"signature: sig1="):
            assert name in fetched.request_block.lower()
    assert len(seen) == len(FetchKind)
    assert {judge.accept(each).parameters["keyid"] for each in seen} == {key.key_id}


async def test_a_request_is_signed_when_it_leaves_and_for_a_short_time(
    world: World, tmp_path: Path, key: SigningKey, judge: Judge
) -> None:
    """The fetcher is given the request after all waits, so that is the moment."""
    server = await world.serve(always(OK))
    fetcher = signing(world, tmp_path)
    before = int(time.time())
    await fetcher.fetch(to(server, limits=Limits(connect_s=2.5)))
    result = judge.accept(seen_block(server.requests[0]))
    created = result.parameters["created"]
    assert before <= created <= time.time()
    assert result.parameters["expires"] - created == LIFETIME_S + 3


async def test_each_request_has_a_nonce_of_its_own_also_after_a_lost_connection(
    world: World, tmp_path: Path, key: SigningKey, judge: Judge
) -> None:
    """The server closes the kept connection instead of answering: libcurl would send it again."""

    async def closing(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await server.read_request(reader)
        writer.write(OK)
        await writer.drain()
        await server.read_request(reader)

    server = await world.serve(closing)
    fetcher = signing(world, tmp_path)
    ends = [(await fetcher.fetch(to(server, f"/{n}"))).reason for n in range(4)]
    assert ends.count(Reason.REQUEST_UNANSWERED) == 1
    assert len(server.requests) == 4
    for block in server.requests:
        judge.accept(seen_block(block))  # which takes no nonce twice


async def test_a_redirect_is_not_followed_so_each_hop_is_signed_for_itself(
    world: World, tmp_path: Path, key: SigningKey, judge: Judge
) -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n"
    server = await world.serve(saying(moved, OK))
    fetcher = signing(world, tmp_path)
    assert (await fetcher.fetch(to(server, "/first"))).status == 302
    assert len(server.requests) == 1
    await fetcher.fetch(to(server, "/next"))
    for block in server.requests:
        judge.accept(seen_block(block))


async def test_without_a_key_nothing_of_it_is_sent(world: World) -> None:
    server = await world.serve(always(OK))
    await world.fetcher().fetch(to(server))
    assert b"signature" not in server.requests[0].lower()


async def test_a_clock_that_most_servers_contradict_sends_unsigned(
    world: World, tmp_path: Path, key: SigningKey, judge: Judge
) -> None:
    wrong = _Clock(ahead_s=45.0)
    signer = RequestSigner(MessageSigner(key, DIRECTORY), wrong)
    fetcher = world.fetcher(hooks=RequestHooks(signer=signer))
    servers = [await world.serve(_dated(), f"127.0.0.{n}") for n in range(1, 9)]
    for n, server in enumerate(servers, 1):
        await fetcher.fetch(to(server, address=f"127.0.0.{n}"))
    are_signed = [seen_block(each.requests[0]).is_signed for each in servers]
    # Seven servers are heard before anything is concluded.
    assert are_signed == [True] * 7 + [False]
    assert signer.counts == {"signed": 7, "clock": 1}
    assert signer.skew_s() == pytest.approx(45, abs=2)
    wrong.ahead_s = 20.0  # the clock was set: the same answers judge it at once
    await fetcher.fetch(to(servers[0]))
    assert seen_block(servers[0].requests[1]).is_signed


def _headers(change: Callable[[dict[str, str]], None]) -> Callable[[SeenRequest], SeenRequest]:
    def tamper(request: SeenRequest) -> SeenRequest:
        headers = dict(request.headers)
        change(headers)
        return request._replace(headers=headers)

    return tamper


def _sub(name: str, pattern: str, new: str) -> Callable[[SeenRequest], SeenRequest]:
    def change(headers: dict[str, str]) -> None:
        changed = re.sub(pattern, new, headers[name], count=1)
        assert changed != headers[name], "the tampering changes nothing"
        headers[name] = changed

    return _headers(change)


def _url(old: str, new: str) -> Callable[[SeenRequest], SeenRequest]:
    def tamper(request: SeenRequest) -> SeenRequest:
        assert old in request.url
        return request._replace(url=request.url.replace(old, new, 1))

    return tamper


def _flip_signature(headers: dict[str, str]) -> None:
    text = headers["Signature"]
    at = len("sig1=:") + 10
    headers["Signature"] = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


def _aged(seconds: int) -> Callable[[SeenRequest], SeenRequest]:
    """The same signature with times moved, as one would who has a copy from the past."""

    def change(headers: dict[str, str]) -> None:
        headers["Signature-Input"] = re.sub(
            r"(created|expires)=(\d+)",
            lambda found: f"{found[1]}={int(found[2]) + seconds}",
            headers["Signature-Input"],
        )

    return _headers(change)


_INPUT = "Signature-Input"
TAMPERINGS: dict[str, Callable[[SeenRequest], SeenRequest]] = {
    "another method": lambda request: request._replace(method="POST"),
    "another host": _url("www.example.org", "www.example.com"),
    "another port": _url(".org:", ".org:1"),
    "another path": _url("/a/b", "/a/c"),
    "a longer path": _url("/a/b", "/a/b/c"),
    "an encoded path": _url("/a/b", "/a%2Fb"),
    "another query": _url("c=d", "c=e"),
    "no query": _url("?c=d", ""),
    "an added query": _url("c=d", "c=d&e=f"),
    "another directory": _sub("Signature-Agent", "crawler", "attacker"),
    "another label of the directory": _sub("Signature-Agent", "sig1", "sig2"),
    "no directory": _headers(lambda headers: headers.__delitem__("Signature-Agent")),
    "a later creation": _aged(5),
    "a longer lifetime": _sub(_INPUT, r"expires=(\d+)", r"expires=9\1"),
    "no lifetime": _sub(_INPUT, r";expires=\d+", ""),
    "another nonce": _sub(_INPUT, r'nonce="..', 'nonce="zz'),
    "no nonce": _sub(_INPUT, r';nonce="[^"]*"', ""),
    "another key": _sub(_INPUT, r'keyid="..', 'keyid="zz'),
    "another algorithm": _sub(_INPUT, "ed25519", "hmac-sha256"),
    "another tag": _sub(_INPUT, "web-bot-auth", "another-tag"),
    "a component less": _sub(_INPUT, '"@path" ', ""),
    "a component more": _sub(_INPUT, '"@path"', '"@path" "user-agent"'),
    "components in another order": _sub(_INPUT, '"@path" "@query"', '"@query" "@path"'),
    "a changed signature": _headers(_flip_signature),
    "a shorter signature": _sub("Signature", "=:....", "=:"),
    "no signature": _headers(lambda headers: headers.__delitem__("Signature")),
    "no input": _headers(lambda headers: headers.__delitem__(_INPUT)),
}


@pytest.mark.parametrize("name", TAMPERINGS)
async def test_a_tampered_request_is_refused(
    world: World, tmp_path: Path, key: SigningKey, judge: Judge, name: str
) -> None:
    server = await world.serve(always(OK))
    await signing(world, tmp_path).fetch(to(server, "/a/b?c=d"))
    request = seen_block(server.requests[0])
    with pytest.raises(InvalidSignature):
        judge.accept(TAMPERINGS[name](request))
    judge.accept(request)  # unchanged it is accepted, so the change was the reason


async def test_a_copied_request_and_one_of_a_foreign_key_are_refused(
    world: World, tmp_path: Path, key: SigningKey, judge: Judge
) -> None:
    server = await world.serve(always(OK))
    await signing(world, tmp_path).fetch(to(server))
    request = seen_block(server.requests[0])
    judge.accept(request)
    with pytest.raises(InvalidSignature, match="nonce"):
        judge.accept(request)
    other = create_key(tmp_path / "other.pem")
    foreign = Judge({DIRECTORY: {"keys": [public_jwk(other.public)]}})
    with pytest.raises(InvalidSignature):
        foreign.accept(request)


@pytest.mark.parametrize("ahead_s", [-200, 60], ids=["expired", "of the future"])
async def test_a_signature_of_another_time_is_refused(
    world: World, tmp_path: Path, key: SigningKey, judge: Judge, ahead_s: float
) -> None:
    server = await world.serve(always(OK))
    signer = RequestSigner(MessageSigner(key, DIRECTORY), _Clock(ahead_s))
    fetcher = world.fetcher(hooks=RequestHooks(signer=signer))
    await fetcher.fetch(to(server))
    with pytest.raises(InvalidSignature):
        judge.accept(seen_block(server.requests[0]))


class _Clock(SystemClock):
    """A machine whose wall clock is ahead."""

    def __init__(self, ahead_s: float) -> None:
        super().__init__()
        self.ahead_s = ahead_s

    def wall(self) -> float:
        return super().wall() + self.ahead_s


def _dated() -> Talk:
    """Answers with the time, as servers do."""

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            await server.read_request(reader)
            date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
            writer.write(OK.replace(b"\r\n", f"\r\nDate: {date}\r\n".encode(), 1))
            await writer.drain()

    return talk


def noting(seen: list[SeenRequest]) -> Talk:
    """An HTTP/2 server that notes each request with its fields, and answers it."""
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import RequestReceived

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    seen.append(seen_fields(event.headers))
                    connection.send_headers(
                        event.stream_id, [(":status", "200"), ("content-type", "text/plain")]
                    )
                    connection.send_data(event.stream_id, b"hello", end_stream=True)
            writer.write(connection.data_to_send())

    return talk


def _tls() -> ssl.SSLContext:
    return server_tls(AUTHORITY.issue_cert("www.example.org"), ("h2", "http/1.1"))


def _authority(folder: Path) -> str:
    path = folder / "authority.pem"
    AUTHORITY.cert_pem.write_to_path(str(path))
    return str(path)
