"""Live settings as a resource with versions (RFC 9110 sections 8.8.3 and 13.1.1).

A client whose change depends on the settings that it read sends the ``ETag`` that came with them as
``If-Match``. Without the header a change is unconditional.
"""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec
from fastapi import Header, Request, Response

from lycosa.service.api.answers import SettingsChanged
from lycosa.service.api.models import SettingsAnswer, SettingsRequest
from lycosa.service.api.problems import Problem
from lycosa.service.api.request_context import caller_name, service_of

IfMatch = Annotated[
    str,
    Header(
        max_length=500,
        description="The `ETag` of the settings on which the change is based: 412 if one of them"
        " has another value now",
    ),
]


def tagged_settings(response: Response, values: dict[str, str], prefix: str = "") -> SettingsAnswer:
    """The answer with those settings that begin with ``prefix``; the ``ETag`` is that of all."""
    response.headers["etag"] = _tag_of(values)
    return SettingsAnswer(values={k: v for k, v in values.items() if k.startswith(prefix)})


async def change_tagged(request: Request, body: SettingsRequest, if_match: str) -> None:
    """Make the change if the present settings are those of ``if_match``, or if it is empty.

    Raises ``Problem`` 412, and as ``CrawlService.change_settings`` does.
    """
    service = service_of(request)
    shown: dict[str, str] = {}
    if if_match and if_match.strip() != "*":
        shown = await service.settings()
        if _tag_of(shown) not in [tag.strip() for tag in if_match.split(",")]:
            now = ", ".join(f"{key}={shown[key]}" for key in body.values if key in shown)
            given = ", ".join(f"{key}={value}" for key, value in body.values.items())
            raise Problem(
                412,
                f"the settings were changed since that ETag, so nothing was changed: now {now}; the"
                f" request gives {given}. GET /actions says who; GET the settings again",
            )
    try:
        await service.change_settings(body.values, caller_name(request), body.why, shown)
    except SettingsChanged as error:
        if not if_match:
            raise
        raise Problem(412, str(error)) from error


def _tag_of(values: dict[str, str]) -> str:
    text = msgspec.json.encode(sorted(values.items()))
    return f'"{hashlib.sha256(text).hexdigest()[:16]}"'
