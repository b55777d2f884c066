"""The socket server against raw sockets and against the in-process fetcher: the same bytes, the
same manners, the same record.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from lycosa.base.model.fetched import FetchRequest, Limits
from lycosa.base.reasons import Reason
from lycosa.synthetic import (
    Misbehaviour,
    RequestLog,
    SyntheticFetcher,
    SyntheticServer,
    SyntheticWeb,
    VirtualClock,
    WebPlan,
    host_name,
    read_log,
    run_virtual,
)
from lycosa.synthetic.response_reader import ReplyReader

AT = 1_750_000_000.0
PLAN = WebPlan(
    seed=3,
    hosts=4,
    pages=12,
    latency_s=0.0,
    gzip=0.4,
    chunked=0.4,
    gone=0.1,
    robots=1.0,
    sitemaps=True,
)
# ended by our patience alone
_ENDLESS = {
    "slow-drip",
    "slow-headers",
    "never-answers",
    "stalls-in-body",
}
_LIMITS = Limits(body_bytes=1_000_000)


class Client:
    """One connection, read by the library's own HTTP reader."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def get(
        self, url: str, *extra: str, method: str = "GET", patience_s: float = 5.0
    ) -> ReplyReader:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}", *extra, "", ""]
        self.writer.write("\r\n".join(lines).encode())
        reply = ReplyReader(_LIMITS, head_only=method == "HEAD")
        try:
            async with asyncio.timeout(patience_s):
                while not reply.is_done:
                    data = await self.reader.read(65536)
                    if not data:
                        reply.close()
                    else:
                        reply.feed(data)
        except ConnectionResetError:
            reply.close(is_reset=True)
        except TimeoutError:
            reply.fail(Reason.TOTAL_TIMEOUT, "out of patience", "time")
        return reply


@asynccontextmanager
async def connected(server: SyntheticServer, address: str = "127.0.0.1") -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(address, server.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def fetch(
    server: SyntheticServer, url: str, *extra: str, patience_s: float = 5.0
) -> ReplyReader:
    async with connected(server) as client:
        return await client.get(url, *extra, patience_s=patience_s)


async def until(condition: Callable[[], bool]) -> None:
    """Let the server go on until it has got so far; a minute at most."""
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("the server did not get there")


def seed_url(server: SyntheticServer, host: int = 0) -> str:
    return f"http://{host_name(host)}:{server.port}/"


async def test_every_page_over_a_socket_is_the_page_in_process() -> None:
    async with (
        SyntheticServer(SyntheticWeb(PLAN), wall=lambda: AT) as server,
        connected(server) as client,
    ):
        web = SyntheticWeb(PLAN)
        truth = web.survey([seed_url(server)])
        urls = sorted(
            truth.requested | {seed_url(server, host) + "robots.txt" for host in range(4)}
        )
        over_socket = [await client.get(url, "Accept-Encoding: gzip, br, zstd") for url in urls]
    statuses = {reply.status for reply in over_socket}
    assert {200, 404} <= statuses and any(b"chunked" in reply.header_block for reply in over_socket)
    assert len(truth.pages) > 30

    async def in_process() -> None:
        fetcher = SyntheticFetcher(web, VirtualClock(epoch=AT))
        for url, reply in zip(urls, over_socket, strict=True):
            fetched = await fetcher.fetch(FetchRequest(url, "127.0.0.1"))
            assert (fetched.status, fetched.header_block, fetched.body) == (
                reply.status,
                reply.header_block,
                bytes(reply.body),
            ), url

    await asyncio.to_thread(run_virtual, in_process(), seed=None)


async def test_every_misbehaviour_over_a_socket_is_as_its_table_says() -> None:
    async with SyntheticServer(SyntheticWeb(PLAN), pace=0.2) as server:
        replies = await asyncio.gather(
            *(
                fetch(
                    server,
                    seed_url(server) + "bad/" + each.value,
                    patience_s=1.0 if each.value in _ENDLESS else 60.0,
                )
                for each in Misbehaviour
            )
        )
    for misbehaviour, reply in zip(Misbehaviour, replies, strict=True):
        expected = Reason.TOTAL_TIMEOUT if misbehaviour.value in _ENDLESS else misbehaviour.reason
        assert reply.reason is expected, (misbehaviour, reply, reply.detail)


async def test_a_slow_drip_comes_a_byte_at_a_time_and_silence_is_silent() -> None:
    async with SyntheticServer(SyntheticWeb(PLAN), pace=0.1) as server:
        drip, silence = await asyncio.gather(
            fetch(server, seed_url(server) + "bad/slow-drip", patience_s=2.5),
            fetch(server, seed_url(server) + "bad/never-answers", patience_s=0.75),
        )
    assert 2 <= len(drip.body) <= 27 and drip.status == 200
    assert silence.status == 0 and not silence.header_block


async def test_one_connection_serves_many_requests_and_closes_when_asked() -> None:
    async with SyntheticServer(SyntheticWeb(PLAN)) as server, connected(server) as client:
        for _ in range(5):
            assert (await client.get(seed_url(server))).status == 200
        assert (await client.get(seed_url(server), "Connection: close")).status == 200
        assert await client.reader.read() == b""


async def test_head_has_the_headers_and_no_body_and_other_methods_are_refused() -> None:
    async with (
        SyntheticServer(SyntheticWeb(PLAN), wall=lambda: AT) as server,
        connected(server) as client,
    ):
        head = await client.get(seed_url(server), method="HEAD")
        body = await client.get(seed_url(server))
        assert head.header_block == body.header_block and not head.body and body.body
        assert (await client.get(seed_url(server), method="POST")).status == 405


async def test_a_request_that_is_none_gets_400_and_an_unknown_host_404() -> None:
    async with SyntheticServer(SyntheticWeb(PLAN)) as server:
        async with connected(server) as client:
            client.writer.write(b"nonsense\r\n\r\n")
            assert (await client.reader.read()).startswith(b"HTTP/1.1 400 ")
        assert (await fetch(server, f"http://www.elsewhere.example:{server.port}/")).status == 404


async def test_validators_give_304_without_a_body_and_the_connection_lives() -> None:
    async with SyntheticServer(SyntheticWeb(PLAN)) as server, connected(server) as client:
        seen = set()
        for url in sorted(SyntheticWeb(PLAN).reachable([seed_url(server)])):
            first = await client.get(url)
            fields = dict(
                line.split(": ", 1)
                for line in first.header_block.decode().split("\r\n")[1:]
                if line
            )
            again = await client.get(url, f"If-None-Match: {fields.get('ETag', 'none')}")
            seen.add(again.status)
            assert bool(again.body) == (again.status == 200)
        assert seen == {200, 304}


async def test_the_log_sees_overlaps_per_host_and_parallel_requests_per_address() -> None:
    web = SyntheticWeb(WebPlan(hosts=3, latency_s=0.1))
    async with SyntheticServer(web, addresses=("127.0.0.1", "127.0.0.2")) as server:
        async with (
            connected(server) as one,
            connected(server) as two,
            connected(server, "127.0.0.2") as three,
        ):
            await asyncio.gather(
                one.get(seed_url(server)), two.get(seed_url(server)), three.get(seed_url(server, 1))
            )
            await one.get(seed_url(server, 1))
            await one.get(seed_url(server, 2))
        log = server.log
        assert log.overlaps(host_name(0)) == 1 and log.overlaps(host_name(1)) == 0
        assert log.max_parallel("127.0.0.1") == 2 and log.max_parallel("127.0.0.2") == 1
        assert len(log) == 5 and all(exchange.end > exchange.start for exchange in log.exchanges)


async def test_the_log_ends_an_exchange_when_the_client_goes_away() -> None:
    async with SyntheticServer(SyntheticWeb(PLAN)) as server:
        for name in ("never-answers", "slow-drip", "endless-body"):
            await fetch(server, seed_url(server) + "bad/" + name, patience_s=0.1)
        await until(lambda: all(exchange.end < float("inf") for exchange in server.log.exchanges))
        assert all(exchange.end - exchange.start < 30.0 for exchange in server.log.exchanges)


async def test_the_log_file_has_a_line_per_request(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    file = tmp_path_factory.mktemp("log") / "requests.tsv"
    async with SyntheticServer(SyntheticWeb(PLAN), log=RequestLog(file)) as server:
        for host in range(4):
            await fetch(server, seed_url(server, host))
    assert [exchange.host for exchange in read_log(file).exchanges] == [
        f"{host_name(host)}:{server.port}" for host in range(4)
    ]


async def test_stopping_cuts_open_connections() -> None:
    server = SyntheticServer(SyntheticWeb(PLAN))
    await server.start()
    hanging = asyncio.create_task(fetch(server, seed_url(server) + "bad/never-answers"))
    await until(lambda: len(server.log) > 0)
    await server.stop()
    assert (await hanging).reason in (Reason.EMPTY_RESPONSE, Reason.CONNECTION_LOST)
