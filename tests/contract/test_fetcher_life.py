"""Spooling, cancelling and closing transfers, and a thousand of them in a row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from http_answers import ANSWERS
from lycosa.base.model.fetched import FetchRequest, Limits
from lycosa.base.reasons import Reason
from raw_server import OK, PATIENCE_S, RawServer, World, always, flooding, saying, to


async def test_a_large_body_is_spooled(world: World) -> None:
    body = bytes(range(256)) * 1000
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    fetched = await world.get(saying(head + body), Limits(spool_bytes=100_000))
    assert (fetched.body, fetched.body_bytes, fetched.reason) == (b"", len(body), Reason.NONE)
    assert [Path(fetched.spool)] == world.spooled()
    assert world.spooled()[0].read_bytes() == body


async def test_open_transfers_share_a_budget_of_memory(world: World) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 900001\r\n\r\n"

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await server.read_request(reader)
        writer.write(head + b"x" * 900_000)
        await finish.wait()
        writer.write(b"x")

    finish = asyncio.Event()
    server = await world.serve(talk)
    fetcher = world.fetcher(open_bytes=1_000_000)
    requests = (
        FetchRequest(f"http://h{number}.example:{server.port}/", "127.0.0.1") for number in range(5)
    )
    tasks = [asyncio.ensure_future(fetcher.fetch(request)) for request in requests]
    async with asyncio.timeout(PATIENCE_S):
        while fetcher.snapshot().spooled < 4:
            assert fetcher.snapshot().open_bytes <= 1_000_000
            await asyncio.sleep(0)
    finish.set()
    done = await asyncio.gather(*tasks)
    assert all(fetched.reason is Reason.NONE and fetched.body_bytes == 900_001 for fetched in done)
    assert sum(bool(fetched.spool) for fetched in done) >= 4
    assert fetcher.snapshot() == fetcher.snapshot().__class__(0, 0, 0, 5, 5)


async def test_a_spool_that_cannot_be_written_is_our_failure(world: World) -> None:
    (world.folder / "spool").write_text("in the way")
    server = await world.serve(
        always(b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n" + b"x" * 3000)
    )
    fetcher = world.fetcher()
    fetched = await fetcher.fetch(to(server, limits=Limits(spool_bytes=1024)))
    assert (fetched.reason, fetched.status, fetched.spool, fetched.body) == (
        Reason.INTERNAL,
        0,
        "",
        b"",
    )
    assert "spool" in fetched.detail
    assert (await fetcher.fetch(to(server))).status == 200


async def test_cancelling_ends_the_transfer_and_deletes_the_spool(world: World) -> None:
    server = await world.serve(flooding(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 10_000))
    fetcher = world.fetcher()
    task = asyncio.ensure_future(
        fetcher.fetch(to(server, limits=Limits(spool_bytes=50_000, body_bytes=1 << 40)))
    )
    async with asyncio.timeout(PATIENCE_S):
        while not world.spooled():  # noqa: ASYNC110  a folder sends no events
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.closed_by_client.wait()
    assert world.spooled() == []
    assert (
        fetcher.snapshot().open_transfers,
        fetcher.snapshot().open_bytes,
        fetcher.snapshot().spooled,
    ) == (0, 0, 0)
    other = await world.serve(always(OK))
    assert (await fetcher.fetch(to(other))).status == 200


async def test_cancelling_many_leaves_nothing_open(world: World) -> None:
    server = await world.serve(saying(b"", keep_open=True))
    fetcher = world.fetcher()
    requests = [
        FetchRequest(f"http://h{number}.example:{server.port}/", "127.0.0.1")
        for number in range(50)
    ]
    tasks = [asyncio.ensure_future(fetcher.fetch(request)) for request in requests]
    async with asyncio.timeout(PATIENCE_S):
        for _ in tasks:
            await server.arrived.acquire()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
    assert fetcher.snapshot().open_transfers == 0


async def test_closing_ends_open_transfers(world: World) -> None:
    server = await world.serve(saying(b"", keep_open=True))
    fetcher = world.fetcher()
    task = asyncio.ensure_future(fetcher.fetch(to(server, limits=Limits())))
    async with asyncio.timeout(PATIENCE_S):
        await server.arrived.acquire()
        await fetcher.close()
        fetched = await task
        await fetcher.close()
    assert (fetched.reason, fetched.status) == (Reason.INTERNAL, 0)
    assert (await fetcher.fetch(to(server))).reason is Reason.INTERNAL
    assert "open_transfers=0" in repr(fetcher)


async def _answer_by_path(
    server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """The last digit of the path chooses between a page, a page in a spool, a cut page, silence,
    and a reset.
    """
    while True:
        request = await server.read_request(reader)
        kind = int(request.split(b" ", 2)[1][-1:])
        if kind < 5:
            writer.write(OK)
        elif kind < 7:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000)
        elif kind == 7:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 500)
            return
        elif kind == 9:
            writer.transport.abort()
            return
        await writer.drain()


async def _soak(world: World) -> None:
    server = await world.serve(_answer_by_path)
    fetcher = world.fetcher(connections=16)
    limits = Limits(first_byte_s=0.05, spool_bytes=1024)
    seen: set[Reason] = set()

    async def one(number: int) -> None:
        task = asyncio.ensure_future(
            fetcher.fetch(
                FetchRequest(
                    f"http://h{number % 97}.example:{server.port}/{number}",
                    "127.0.0.1",
                    limits=limits,
                )
            )
        )
        if number % 11 == 0:
            await asyncio.sleep(0)
            task.cancel()
        try:
            fetched = await task
        except asyncio.CancelledError:
            return
        seen.add(fetched.reason)
        if fetched.spool:
            Path(fetched.spool).unlink()  # noqa: ASYNC240  a file of this test

    for start in range(0, 1000, 50):
        await asyncio.gather(*(one(start + number) for number in range(50)))
    snapshot = fetcher.snapshot()
    assert (snapshot.open_transfers, snapshot.open_bytes, snapshot.spooled) == (0, 0, 0)
    assert Reason.NONE in seen
    assert Reason.FIRST_BYTE_TIMEOUT in seen
    assert Reason.CONNECTION_LOST in seen
    assert world.spooled() == []
    await world.close()


def _open_files() -> list[Path]:
    folder = Path("/proc/self/fd")
    return list(folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_thousand_good_and_bad_exchanges_leave_nothing_behind(
    tmp_path: Path, run: Callable[..., None]
) -> None:
    before = len(_open_files())
    run(_soak(World(tmp_path)))
    assert len(_open_files()) <= before + 3


@pytest.mark.parametrize(
    "name",
    ["length too long", "length 0 body", "pipelined extra", "204 body", "204 chunked", "304 body"],
)
async def test_what_is_left_of_an_answer_is_not_the_next_one(world: World, name: str) -> None:
    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            request = await server.read_request(reader)
            path = request.split(b" ", 2)[1]
            writer.write(
                ANSWERS[name][0]
                if path == b"/first"
                else b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(path), path)
            )
            await writer.drain()

    server, fetcher = await world.serve(talk), world.fetcher()
    first = await fetcher.fetch(to(server, "/first"))
    assert first.status in [wanted[0] for wanted in ANSWERS[name][1:] if wanted]
    for path in ("/a", "/b"):
        answer = await fetcher.fetch(to(server, path))
        assert (answer.reason, answer.status, answer.body) == (Reason.NONE, 200, path.encode())
