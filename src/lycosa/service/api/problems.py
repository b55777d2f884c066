"""Errors as problem details of RFC 9457: one JSON object for every answer that is not a success."""

from __future__ import annotations

import math
from typing import Any

import msgspec

PROBLEM_TYPE = "application/problem+json"

TITLES = {
    303: ("log-in", "Log in first"),
    400: ("bad-request", "The request cannot be understood"),
    401: ("no-token", "A valid token is needed"),
    403: ("forbidden", "The request is not allowed"),
    404: ("not-found", "There is no such thing"),
    405: ("bad-method", "The method is not one of this address"),
    406: ("not-acceptable", "The crawl cannot answer in that form"),
    408: ("too-slow", "The request did not arrive in time"),
    409: ("refused", "The crawl refuses the request"),
    412: ("changed", "The settings are others than those that the request names"),
    413: ("too-large", "The request is too large"),
    414: ("too-long", "The address is too long"),
    415: ("bad-media-type", "The body is not of a form that is read here"),
    421: ("wrong-host", "The name of this server is another one"),
    422: ("invalid", "A value is not allowed"),
    431: ("head-too-large", "The head of the request is too large"),
    429: ("too-many", "There are too many requests"),
    500: ("internal", "The server made an error"),
    503: ("not-now", "The crawl cannot answer now"),
}
"""The name and the title of the problem for each status."""


class Problem(Exception):
    """An answer that is not a success. ``retry_s`` says when to try again (negative = never)."""

    def __init__(
        self,
        status: int,
        detail: str,
        retry_s: float = -1.0,
        headers: dict[str, str] | None = None,
        errors: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_s = status, detail, retry_s
        self.headers, self.errors = headers or {}, errors

    def body(self, instance: str) -> bytes:
        """The JSON object; ``instance`` is the path of the request."""
        name, title = TITLES.get(self.status, ("problem", "The request failed"))
        content: dict[str, Any] = {
            "type": f"urn:lycosa:problem:{name}",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
        }
        if self.errors is not None:
            content["errors"] = self.errors
        return msgspec.json.encode(content)

    def header_lines(self) -> dict[str, str]:
        """The headers of the answer, without its length."""
        found = {"content-type": PROBLEM_TYPE, "cache-control": "no-store", **self.headers}
        if self.retry_s >= 0:
            found["retry-after"] = str(max(math.ceil(self.retry_s), 1))
        return found
