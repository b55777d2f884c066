"""Examples of answers whose objects have no schema, because their fields grow: for the OpenAPI.

A test compares their fields with those of real answers.
"""

from __future__ import annotations

from typing import Any

Documented = dict[int | str, dict[str, Any]]
_HOST, _URL = "www.example.org", "https://www.example.org/about"
_ID = "d847e26d48a2f35302dd5537d58f0c1b"

STATS_EXAMPLE: dict[str, Any] = {
    "crawl": "79376cae-904c-4f75-82e1-d29e18e4f4de",
    "state": "running",
    "end": "",
    "waits_for": "",
    "urls": {"discovered": 5842, "queued": 2681, "fetched": 2814, "refused": 98, "failed": 249},
    "leased": 0,
    "captures": 3063,
    "pages": 2814,
    "requests": 3459,
    "body_bytes": 20885350,
    "failures": {"http_client_error": 249},
    "refusals": {"robots_disallowed": 98},
    "refused_links": {"nofollow": 359},
    "remarks": {"near_duplicate": 75},
    "rates": {"current": 39.682, "mean": 40.551, "peak": 49.385},
    "hosts": {"known": 201, "ready": 1, "snoozed": 137, "paused": 1, "retired": 0},
    "fetching": 3,
    "next_in_s": 0.008,
    "slowest_hosts": [
        {"host": _HOST, "waiting": 20, "delay_s": 57.6, "next_in_s": 55.2, "reason": ""}
    ],
    "storage": {"commits": 75, "unparsed": 0, "free_bytes": 63419949056},
    "memory": {"held_bytes": 131694592, "bound_bytes": 1500000000},
    "workers": [{"shard": 0, "node": "this machine", "state": "running", "captures": 3063}],
    "nodes": [{"name": "this machine", "is_lost": False, "shards": [0]}],
    "settings_version": 1,
}
HOST_EXAMPLE: dict[str, Any] = {
    "host": _HOST,
    "state": "snoozed",
    "waiting": 19,
    "parked": 0,
    "captures": 12,
    "pages": 12,
    "delay_s": 2.506,
    "wait_s": 22.0,
    "needs_s": 67.1,
    "reason": "the server asks to slow down (status 429)",
    "last_error": "",
    "errors": 3,
    "retrying": 1,
    "id": _ID[:16],
    "partition": 6,
}
CAPTURE_EXAMPLE: dict[str, Any] = {
    "url": _URL,
    "id": _ID,
    "date": 1795368329.0,
    "status": 200,
    "mediaType": "text/html",
    "digest": "sha1:YOA6EL3WKNCH7WDXWYAPJY75B7JRSW6T",
    "length": 4123,
    "revisit": False,
    "redirectTo": "",
    "warc": "warc/a070d51e-w000-000001-20261122172505.warc.gz",
    "offset": 5318850,
}
LETTER_EXAMPLE: dict[str, Any] = {
    "url": _URL,
    "id": _ID,
    "urlHash": _ID[16:],
    "host": _HOST,
    "partition": 6,
    "number": 12,
    "reason": "http_client_error",
    "meaning": "the server says that the request is wrong (4xx)",
    "detail": "status 410",
    "tries": 1,
    "date": 1795368380.5,
}
ACTION_EXAMPLE: dict[str, Any] = {
    "by": "alice",
    "date": 1795368451.5,
    "action": "pause",
    "subject": _HOST,
    "why": "mail of 3 May",
    "changed": 1,
    "call": "api 0f7f354a345043dda64563dab2c00bc2",
    "partition": 6,
    "number": 1,
    "partitions": 1,
}


def shown_as(example: dict[str, Any]) -> Documented:
    """What documents an answer with this object."""
    return {200: {"content": {"application/json": {"example": example}}}}


def listed_as(row: dict[str, Any]) -> Documented:
    """What documents a list of such rows."""
    page = {
        "rows": [row],
        "cursor": "",
        "wall": 1795368453.1,
        "is_partial": False,
        "silent": [],
    }
    return shown_as(page)
