"""The body of a revisit that only the owner of another URL can find.

Records of programs before formats 2 name the capture that has the body, and not its place. Where
the owner of the revisit's URL cannot find that capture, the owner of the original's URL is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec

from lycosa.base.calls import ContentFound, ContentQuery
from lycosa.service.api.answers import OwnerSilent, ServiceRefusal

_OF_BODY = frozenset(
    ("record_id", "headers", "reason", "title", "language", "parse_reason", "links", "outlinks")
)
"""What an answer says of the record with the body, and not of the capture that was asked for."""


async def with_referred_body(
    asked: ContentQuery,
    found: ContentFound,
    ask: Callable[[ContentQuery], Awaitable[ContentFound]],
) -> ContentFound:
    """``found``, with the body of the capture that it refers to, if it has none itself.

    ``ask`` asks the owner of the URL in a question.
    """
    about: dict[str, Any] = msgspec.json.decode(found.about)
    reference = about.pop("refers_to", None)
    if reference is None:
        return found
    at = datetime.fromisoformat(reference["date"]).timestamp()
    try:
        other = await ask(msgspec.structs.replace(asked, url=reference["url"], at=at))
    except (OwnerSilent, ServiceRefusal):
        other = ContentFound(b"{}")  # the answer says that there is no body
    its: dict[str, Any] = msgspec.json.decode(other.about)
    if other.total_bytes < 0 or its.get("record_id") != reference["record_id"]:
        return msgspec.structs.replace(found, about=msgspec.json.encode(about))
    own = {name: value for name, value in about.items() if name not in _OF_BODY}
    return msgspec.structs.replace(other, about=msgspec.json.encode({**its, **own}))
