"""The client of the DevTools protocol, against a browser that is a socket."""

from __future__ import annotations

import asyncio
import socket

import msgspec
import pytest

from lycosa.stages.render.devtools import BrowserEnded, DevTools, DevToolsError


async def _connected(events: list[tuple[str, str]]) -> tuple[DevTools, socket.socket]:
    ours, theirs = socket.socketpair()
    client = DevTools(lambda session, method, _: events.append((session, method)))
    await client.open(ours)
    return client, theirs


async def test_answers_events_and_refusals_in_any_pieces() -> None:
    events: list[tuple[str, str]] = []
    client, browser = await _connected(events)
    with browser:
        first = asyncio.ensure_future(client.call("A.b", {"x": 1}, "s1"))
        second = asyncio.ensure_future(client.call("C.d"))
        await asyncio.sleep(0)
        sent = await asyncio.to_thread(browser.recv, 4096)
        assert msgspec.json.decode(sent.split(b"\0")[0]) == {
            "id": 1,
            "method": "A.b",
            "params": {"x": 1},
            "sessionId": "s1",
        }
        data = (
            b'{"method":"E.f","params":{},"sessionId":"s2"}\0{"id":99,"result":{}}\0no json\0'
            b'{"id":2,"error":{"message":"no such thing"}}\0{"id":1,"result":{"y":2}}\0'
        )
        for at in range(0, len(data), 7):
            browser.send(data[at : at + 7])
            await asyncio.sleep(0)
        assert await first == msgspec.Raw(b'{"y":2}')
        with pytest.raises(DevToolsError, match="no such thing"):
            await second
    assert events == [("s2", "E.f")]
    client.close()


async def test_an_answer_that_is_no_text_is_a_refusal() -> None:
    client, browser = await _connected([])
    with browser:
        call = asyncio.ensure_future(client.call("A.b"))
        await asyncio.sleep(0)
        browser.send(b'{"id":1,"result":{"x":"\xff"},"oops"}\0')
        with pytest.raises(DevToolsError, match="no JSON text"):
            await call
    client.close()


async def test_all_commands_fail_when_the_browser_ends() -> None:
    client, browser = await _connected([])
    call = asyncio.ensure_future(client.call("A.b"))
    await asyncio.sleep(0)
    browser.close()
    with pytest.raises(BrowserEnded):
        await call
    assert client.ended.is_set()
    with pytest.raises(BrowserEnded):
        await client.call("A.b")
    client.tell("A.b")  # nobody listens, and nothing happens
    client.close()
