"""What the interface and the page say about stored captures."""

from __future__ import annotations

import asyncio
import html
import shlex
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
from fastapi import FastAPI

from lycosa.base.calls import ContentFound, ContentQuery
from lycosa.service.api.stored_routes import stored_router
from lycosa.service.page.rendering import _templates

ID, HASH = "d847e26d48a2f35302dd5537d58f0c1b", "02dd5537d58f0c1b"


def test_the_command_for_other_captures_is_harmless_whatever_the_url_has() -> None:
    url = "http://a.example/$(reboot)/it's!1\\?q=$HOME"
    row: dict[str, Any] = {"url": url, "others": 2, "date": 1.0, "status": 200, "offset": 0}
    values = {"rows": [row], "asked": SimpleNamespace(url=url), "listing": SimpleNamespace()}
    values |= {"path": "/captures", "state": "stopped"}
    page = _templates().get_template("captures.html").render(**values)
    command = html.unescape(page.partition("<pre>")[2].partition("</pre>")[0])
    doubled = url.replace("'", "''")
    statement = f"SELECT * FROM ccindex WHERE url = '{doubled}'"
    assert shlex.split(command) == ["lycosa", "sql", "--cluster", "FILE", statement]
    assert command.startswith("lycosa sql --cluster FILE '"), "the shell expands nothing there"


class OneBody:
    """A service with one capture, which gives a byte at a time."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def content(self, query: ContentQuery) -> ContentFound:
        self.asked.append(query.url)
        about = {"url": "http://a.example/", "id": ID, "date": 1.0, "status": 200, "digest": ""}
        about |= {"record_id": "", "reason": ""}
        return ContentFound(msgspec.json.encode(about), b"abc"[query.offset :][:1], 3, "text/html")


def test_a_body_asked_for_by_a_hash_is_searched_for_once() -> None:
    app, service = FastAPI(), OneBody()
    app.include_router(stored_router)
    app.state.service = service

    async def body() -> bytes:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return (await client.get(f"/crawl/{HASH}/content")).content

    assert asyncio.run(body()) == b"abc"
    assert service.asked == [HASH, ID, ID]
