"""Examples of answers whose fields grow, and the schemas that follow from them: for the OpenAPI.

A client generator makes a type of each schema; further fields are allowed. A test compares the
fields with those of real answers.
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
    "due_pages": {"fourfold": 0, "twofold": 2, "due": 310, "probe": 1},
    "renders": {
        "waiting": {"due": 4, "waiting": 31, "lent": 2},
        "ended": {"quiet": 211, "busy": 9, "hung": 1},
        "crowded_out": 0,
        "renderers": [
            {
                "name": "this machine",
                "pages": 2,
                "at_once": 2,
                "browser": "HeadlessChrome/150.0.7871.46",
                "trouble": "",
            }
        ],
    },
    "leased": 0,
    "captures": 3063,
    "pages": 2814,
    "requests": 3459,
    "body_bytes": 20885350,
    "failures": {"http_client_error": 249},
    "refusals": {"robots_disallowed": 98},
    "refused_links": {"nofollow": 359},
    "remarks": {"near_duplicate": 75},
    "preferences": {"ai-train=no": 1310, "search=yes": 1310},
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
    "own": "",
    "id": _ID[:16],
    "partition": 6,
}
WHOLE_HOST_EXAMPLE: dict[str, Any] = HOST_EXAMPLE | {
    "site": "example.org",
    "detail": "",
    "meaning": "",
    "next_at": 1795393372.2,
    "parked_until": 0,
    "delay": {
        "seconds": 2.5,
        "source": "adaptive",
        "jitter": 0.1,
        "sources": [{"source": "floor", "seconds": 1.0}, {"source": "adaptive", "seconds": 2.5}],
    },
    "robots": [
        {
            "url": f"https://{_HOST}/robots.txt",
            "status": 200,
            "version": "YR6M6GSJYJGMLBBEGCVHLRZO6SISSJAS",
            "fetched": 1795393370.7,
            "expires": 1795479770.7,
            "outage": "",
            "group": "*",
            "crawl_delay_s": -1.0,
            "sitemaps": [f"https://{_HOST}/sitemap.xml"],
            "rules": [{"line": 2, "rule": "Disallow: /private/"}],
            "rule_count": 1,
        }
    ],
    "bytes": 10893,
    "time_s": 0.004,
    "discovered": 20,
    "failures": 0,
    "dns_failures": 0,
    "address": "192.0.2.7",
    "importance": 1.0,
    "refused": {"requisite": 4},
    "preferences": {"ai-train=no": 12, "search=yes": 12},
    "signals": [
        {
            "source": "sitemap",
            "signals": 40.0,
            "precision": 0.953,
            "recall": 0.71,
            "trusted": True,
        }
    ],
    "copies": {
        "share": 0.81,
        "exempt": False,
        "patterns": [
            {
                "pattern": "/calendar/0/0?view",
                "copies": 27.0,
                "pages": 28.0,
                "share": 0.869,
                "set_back": True,
            }
        ],
        "parameters": [
            {
                "name": "visit",
                "same": 12.0,
                "other": 0.0,
                "values": ["41aa", "97c0", "f31e"],
                "learned": True,
            }
        ],
    },
    "validators": {
        "believed": True,
        "hidden": 0,
        "agreed": 2,
        "revealed": 4,
        "other_tags": 0,
        "unasked": 0,
    },
    "missing": {"asked_at": 1795393300.0, "status": 404, "location": "", "wanted": False},
    "operator_delay_s": 10.0,
    "pause": None,
    "own_host": {
        "state": "proved",
        "asked_at": 1795393310.2,
        "proved_until": 1795397210.2,
        "meaning": "The file has its token. It counts until 2026-11-23 01:26:50 UTC, or until the"
        " crawl stops.",
    },
    "errands": 0,
    "questions": 0,
    "site_captures": 2,
    "decisions": [],
    "fetches": [
        {"url": _URL, "id": _ID, "fetched_at": 1795393372, "status": 200, "state": "fetched"}
    ],
}
URL_ROW_EXAMPLE: dict[str, Any] = {
    "url": _URL,
    "id": _ID,
    "url_hash": _ID[16:],
    "urlHash": _ID[16:],
    "partition": 6,
    "state": "fetched",
    "reason": "",
    "meaning": "",
    "detail": "",
    "depth": 1,
    "priority": 0.6353,
    "kind": "a",
    "via": f"https://{_HOST}/",
    "tries": 0,
    "found_at": 1795393371,
    "due_at": 1795998171,
    "fetches": 1,
    "fetched_at": 1795393371,
    "status": 200,
    "digest": "sha1:RHOL74KIJQHLHWYIUVLA2XHRIUN3D7OP",
    "changes": 0,
    "interval_s": 604800,
    "redirect_to": "",
    "duplicate_of": "",
}
URL_EXAMPLE: dict[str, Any] = {
    "record": URL_ROW_EXAMPLE,
    "asked": _URL,
    "url": _URL,
    "url_hash": _ID[16:],
    "urlHash": _ID[16:],
    "verdict": "fetched",
    "headline": "It was fetched on 2026-11-23 00:22:51 UTC with status 200.",
    "facts": {"state": "fetched", "status": 200, "depth": 1},
    "texts": {"state": "fetched", "status": "200", "depth": "1"},
}
FRONTIER_EXAMPLE: dict[str, Any] = {
    "discovered": 5842,
    "size": 2681,
    "states": {"queued": 2681, "fetched": 2814, "failed": 249},
    "queued": 2681,
    "due_pages": {"fourfold": 0, "twofold": 2, "due": 310, "probe": 1},
    "leased": 0,
    "failed": 249,
    "hosts": 201,
    "hosts_ready": 1,
    "next_in_s": 0.008,
    "crawl_rate": 39.682,
    "domain_queue_depths": {_HOST: 20},
}
CAPTURE_EXAMPLE: dict[str, Any] = {
    "url": _URL,
    "id": _ID,
    "date": 1795368329.0,
    "status": 200,
    "media_type": "text/html",
    "mediaType": "text/html",
    "digest": "sha1:YOA6EL3WKNCH7WDXWYAPJY75B7JRSW6T",
    "length": 4123,
    "revisit": False,
    "redirect_to": "",
    "redirectTo": "",
    "warc": "warc/a070d51e-w000-000001-20261122172505.warc.gz",
    "offset": 5318850,
}
CHANGE_EXAMPLE: dict[str, Any] = {
    "url": _URL,
    "id": _ID,
    "host": _HOST,
    "change": "changed",
    "distance": 3,
    "status": 200,
    "date": 1795368329.2,
    "noted": 1795368329,
    "partition": 6,
    "number": 17,
}
SITEMAP_EXAMPLE: dict[str, Any] = {
    "host": _HOST,
    "url": f"https://{_HOST}/sitemap.xml",
    "id": _ID,
    "kind": "sitemap",
    "read": 1795393371,
    "fetched": 1795393371,
    "next": 1795436571,
    "interval_s": 43200,
    "status": 200,
    "urls": 1250,
    "newer": 12,
    "refused": 0,
    "signals": [
        {
            "source": "sitemap",
            "signals": 40.0,
            "precision": 0.953,
            "recall": 0.71,
            "trusted": True,
        }
    ],
}
DEAD_LETTER_EXAMPLE: dict[str, Any] = {
    "url": _URL,
    "id": _ID,
    "url_hash": _ID[16:],
    "urlHash": _ID[16:],
    "host": _HOST,
    "partition": 6,
    "number": 12,
    "reason": "http_client_error",
    "meaning": "not found, or refused by the server (4xx)",
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


_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_MAPS = frozenset(
    (
        *("states", "urls", "failures", "refusals", "refused_links", "remarks", "refused", "facts"),
        "preferences",
        *("texts", "domain_queue_depths"),
    )
)
"""Objects whose names are not fixed."""
_NULLABLE = {
    *("next_in_s", "pause", "record", "operator_delay_s", "distance"),
    *("validators", "missing", "own_host", "asked_at", "proved_until"),
}


def schema_of(example: Any, title: str = "", name: str = "") -> dict[str, Any]:
    """The JSON schema of a value like this one; every field of an object may be absent."""
    if isinstance(example, dict):
        found: dict[str, Any] = {"type": "object", "additionalProperties": True}
        if name not in _MAPS:
            found["properties"] = {key: schema_of(each, "", key) for key, each in example.items()}
    elif isinstance(example, list):
        found = {"type": "array", "items": schema_of(example[0]) if example else {}}
    elif example is None:
        found = {"type": "object"}
    else:
        # A whole number in an example may be a fraction in an answer.
        found = {"type": "number" if isinstance(example, float) else _TYPES[type(example)]}
    if name in _NULLABLE:
        found["type"] = [found["type"], "null"]
    return found | ({"title": title} if title else {})


SCRAPED_EXAMPLE: dict[str, Any] = {
    "asked": _URL,
    "redirects": [],
    "url": _URL,
    "id": _ID,
    "state": "fetched",
    "reason": "",
    "meaning": "",
    "detail": "",
    "status": 200,
    "date": 1795368329.0,
    "title": "A page",
    "language": "en",
    "media_type": "text/html",
    "digest": "sha1:YOA6EL3WKNCH7WDXWYAPJY75B7JRSW6T",
    "text": "Its visible text.",
    "is_cut": False,
}


def shown_as(example: dict[str, Any], title: str) -> Documented:
    """What documents an answer with an object like this one; ``title`` names its type."""
    content = {"schema": schema_of(example, title), "example": example}
    return {200: {"content": {"application/json": content}}}


def listed_as(row: dict[str, Any], title: str) -> Documented:
    """What documents a list of such rows."""
    page = {
        "rows": [row],
        "cursor": "",
        "wall": 1795368453.1,
        "is_partial": False,
        "silent": [],
    }
    documented = shown_as(page, f"{title}Page")
    properties = documented[200]["content"]["application/json"]["schema"]["properties"]
    properties["rows"]["items"]["title"] = title
    properties["silent"]["items"] = {"type": "integer"}
    return documented
