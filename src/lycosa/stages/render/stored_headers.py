"""What becomes of the header fields of a stored response when a browser gets it.

Fields of the transfer are gone with it. Fields that keep a page out of frames, that make the
browser report, connect or reload, or that would hold for later pages are left out. What a request
across origins needs is added: the page got it when it was live, and no user's data is at stake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

HeaderFields = list[tuple[str, str]]

_OF_TRANSFER = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "www-authenticate",
    }
)
_HEADERS = (
    "accept-ch",
    "alt-svc",
    "clear-site-data",
    "critical-ch",
    "cross-origin-embedder-policy",
    "cross-origin-opener-policy",
    "expect-ct",
    "link",
    "nel",
    "no-vary-search",
    "origin-agent-cluster",
    "public-key-pins",
    "refresh",
    "report-to",
    "reporting-endpoints",
    "speculation-rules",
    "strict-transport-security",
)
_LEFT_OUT = {
    **dict.fromkeys(_HEADERS, "header"),
    "x-frame-options": "framing",
    "cross-origin-resource-policy": "cors",
}
_POLICIES = ("content-security-policy", "content-security-policy-report-only")
_OF_POLICY = frozenset(
    {"frame-ancestors", "report-uri", "report-to", "sandbox", "upgrade-insecure-requests"}
)
_ALLOWED = "GET, HEAD, OPTIONS"


def as_answered(
    stored: Iterable[tuple[str, str]], origin: str, changed: Counter[str]
) -> HeaderFields:
    """The fields to answer with, in order. ``origin`` is that of a request across origins."""
    fields: HeaderFields = []
    for name, value in stored:
        key = name.lower()
        if key in _OF_TRANSFER or (origin and key.startswith("access-control-")):
            continue
        if key in _LEFT_OUT:
            changed[_LEFT_OUT[key]] += 1
            continue
        if key in _POLICIES:
            kept = _without_reports(value)
            changed["framing"] += kept != value
            value = kept
        # No control character may pass into a field that is written again.
        if value and value.isprintable() and name.isascii() and name.isprintable():
            fields.append((name, value))
    return fields + _cross_origin(origin, changed)


def preflight_answer(origin: str, wanted_headers: str) -> HeaderFields:
    """The answer to a preflight request (Fetch standard, CORS protocol)."""
    fields = [*_cross_origin(origin, Counter()), ("access-control-allow-methods", _ALLOWED)]
    if wanted_headers:
        fields.append(("access-control-allow-headers", wanted_headers))
    return fields


def _cross_origin(origin: str, changed: Counter[str]) -> HeaderFields:
    if not origin:
        return []
    changed["cors"] += 1
    return [
        ("access-control-allow-origin", origin),
        ("access-control-allow-credentials", "true"),
        ("access-control-expose-headers", "*"),
    ]


def _without_reports(policy: str) -> str:
    parts = [each.strip() for each in policy.split(";")]
    return "; ".join(each for each in parts if each.split(" ")[0].lower() not in _OF_POLICY)
