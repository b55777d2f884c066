"""The stored body that the HTTP interface gives in pieces."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from fastapi import Request

from lycosa.base.calls import ContentFound, ContentQuery
from lycosa.service.api.stored_routes import read_content

BODIES = {100: b"the earlier body", 200: b"the later body.."}


class TwoCaptures:
    """A service whose URL is captured again after the first piece."""

    def __init__(self) -> None:
        self.newest = 100

    async def content(self, asked: ContentQuery) -> ContentFound:
        date = max(each for each in BODIES if each <= (asked.at or self.newest))
        self.newest = 200
        piece = BODIES[date][asked.offset : asked.offset + 5]
        about = {"id": "0" * 32, "url": "https://example.org/", "date": date, "status": 200}
        about |= {"digest": "sha1:A", "record_id": f"<urn:uuid:{date}>", "reason": ""}
        return ContentFound(json.dumps(about).encode(), piece, len(BODIES[date]), "text/plain")


async def test_all_pieces_are_of_one_capture_when_the_url_is_captured_again_meanwhile() -> None:
    state = SimpleNamespace(service=TwoCaptures())
    request = cast(Request, SimpleNamespace(app=SimpleNamespace(state=state)))
    answer = await read_content(request, "0" * 16)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body of the request is not read")

    async def send(message: Any) -> None:
        sent.append(message)

    await answer({"type": "http"}, receive, send)
    assert b"".join(each.get("body", b"") for each in sent) == BODIES[100]
