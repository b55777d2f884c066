"""The rows of the feeds ``pages`` and ``dlq``: the same in the topics of a cluster and in files.

A row of ``pages`` is the journal's line of a capture without its large fields. It is made from the
line, so the fields are those of ``JournalRow``. The JSON Schemas of both are generated from
the structs here (``docs/schemas``).
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import cleandoc
from typing import Annotated, Any

import msgspec

from lycosa.base.model.dead_letter import DeadLetter
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences
from lycosa.base.preferences.use_policy import RECORD_ONLY, UsePolicy
from lycosa.base.urls.identity import hash8
from lycosa.state.store.journal import is_render
from lycosa.state.store.journal_rows import PRIVATE_LINE, JournalRow, is_private_line
from lycosa.state.store.render_facts import RENDER_LINE, RenderFacts
from lycosa.state.store.usable_rows import CONTENT_FIELDS

PAGES, DEAD_LETTERS = "pages", "dlq"
FEEDS = (PAGES, DEAD_LETTERS)
_LEFT_OUT = ("links", "text", "items", "content", "render")  # large, and in the segment
_KEPT = ("url", "date_us", "status", "segment", "offset", "length", "record_id", "kind")
_MAX_BYTES = 800_000  # of a row; a record of the topics has at most 1 MB
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PAGES_TEXT = """A capture; or, with render, a render that has the better text of the capture \
original: it comes later, with its own record_id and the same url8 and fetch_number. \
A page is counted once by url8 and fetch_number, a file about \
an origin (kind 1 robots.txt, 3 tdmrep.json) by record_id. Fields with their default are left out, \
except fetch_number. A row of more than 800 kB has only the required fields, kind and may_use."""
_MEANINGS = {
    "url": "canonical URL",
    "date_us": "start of the request, microseconds since 1970",
    "status": "HTTP status",
    "kind": "0 a page, 1 a robots.txt file, 2 a sitemap",
    "segment": "stem of the segment's files; the WARC file is warc/SEGMENT.warc.gz",
    "offset": "of the response or revisit record in the WARC file",
    "length": "bytes of that record in the WARC file",
    "record_id": "WARC-Record-ID without angle brackets",
    "digest": "sha1: and base32 of the payload",
    "revisit": "empty, or the last part of the revisit profile's URI",
    "original": "the capture that a revisit refers to: URL, date_us, record_id",
    "near_duplicate_of": "an earlier capture with nearly the same text: URL, date_us, record_id",
    "reason": "reason code of the fetch, 0 if there is none",
    "parse_reason": "reason code of the parse, 0 if there is none",
    "remarks": "all there is to note about fetch and parse: reason code, detail; absent where only"
    " reason or parse_reason say it",
    "body_segment": "stem of the segment with the body of a revisit, empty if it is segment",
    "body_offset": "of the record with the body of a revisit, 0 if its place is not known",
    "change": "0 not judged, 1 new, 2 changed, 3 same, 4 gone, 5 back",
    "change_distance": "number of SimHash bits in which the text differs from that before; absent"
    " where one of them has no SimHash",
    "wants": "requisites that the page needs to be rendered: URL, destination",
    "fetch_number": "number of this fetch of the URL, from 1",
    "depth": "number of links from a seed",
    "via": "the page on which the URL was found",
    "chain": "the redirects before this URL",
    "location": "absolute target of a redirect",
    "outlinks": "number of links in the page",
    "text_characters": "length of the page's text",
    "refused_links": "number of refused links by reason code",
    "robots": "the decision by which it was fetched: allowed, version, fetched, status, group,"
    " line, rule, bound",
    "preferences": "what the site stated about the use of the page: answers by use, statements"
    " (source, text, line, answers), license, price",
    "privacy": "0 public, 2 fetched with credentials that the operator's settings share; private"
    " captures (1) are in no feed",
}
_decode_line = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_stated = msgspec.json.Decoder(Preferences).decode
_decode_facts = msgspec.json.Decoder(RenderFacts).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode

_Hash = Annotated[
    str,
    msgspec.Meta(
        pattern="^[0-9a-f]{16}$",
        description="first eight bytes of the URL's SHA-256, in hexadecimal",
    ),
]


_MAY_USE = Annotated[
    bool | None,
    msgspec.Meta(
        description="whether the purpose of the crawl may use the page; absent without a purpose"
    ),
]


class FeedRender(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a page was rendered, in a row of ``pages``."""

    end: Annotated[str, msgspec.Meta(description="how the last round ended: quiet, busy")]
    page_characters: Annotated[
        int, msgspec.Meta(description="length of the text that the page has without scripts")
    ] = 0
    page_links: Annotated[int, msgspec.Meta(description="number of its links without scripts")] = 0
    rounds: Annotated[int, msgspec.Meta(description="number of rounds")] = 0
    requests: Annotated[int, msgspec.Meta(description="URLs that the page asked for")] = 0
    missing: Annotated[int, msgspec.Meta(description="of these, URLs without an answer")] = 0
    elapsed_s: Annotated[float, msgspec.Meta(description="seconds of all rounds")] = 0.0


_RENDER = Annotated[
    FeedRender | None,
    msgspec.Meta(description="how the page was rendered; absent in the row of a capture"),
]


def _page_fields() -> list[Any]:
    """The fields of ``JournalRow`` that the feed has, those of a shortened row required."""
    fields: list[Any] = [("url8", _Hash)]
    for each in msgspec.structs.fields(JournalRow):
        if each.name in _LEFT_OUT:
            continue
        meaning = _MEANINGS.get(each.name)
        kind = Annotated[each.type, msgspec.Meta(description=meaning)] if meaning else each.type
        is_always = (each.required and each.name in _KEPT) or each.name == "fetch_number"
        default = "" if each.required else each.default
        if default is msgspec.NODEFAULT:
            default = msgspec.field(default_factory=each.default_factory)
        fields.append((each.name, kind) if is_always else (each.name, kind, default))
    return [*fields, ("may_use", _MAY_USE, None), ("render", _RENDER, None)]


PageFeedRow = msgspec.defstruct("PageFeedRow", _page_fields(), kw_only=True, frozen=True)
"""A row of ``pages``."""


class DeadLetterRow(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that failed for good. It is counted once by url8 and date_us."""

    url: Annotated[str, msgspec.Meta(description="canonical URL")]
    url8: _Hash
    reason: Annotated[str, msgspec.Meta(description="reason code, for example connect_timeout")]
    detail: Annotated[str, msgspec.Meta(description="what is known beyond the reason")]
    tries: Annotated[
        int, msgspec.Meta(ge=1, description="tries since the last capture, this one included")
    ]
    date_us: Annotated[
        int, msgspec.Meta(ge=0, description="when it failed, microseconds since 1970")
    ]


def page_row(line: bytes, policy: UsePolicy = RECORD_ONLY) -> tuple[bytes, bytes] | None:
    """The key and the row of ``pages`` for a line of the journal, with what the policy allows.

    ``None`` for a render that has no better text than its page, and for a private capture.
    """
    if PRIVATE_LINE in line and is_private_line(line):
        return None
    row: dict[str, Any] = _decode_line(line)
    key = hash8(_decode_text(row["url"]))
    render = None
    if RENDER_LINE in line and is_render(line):
        facts = _decode_facts(row["render"])
        if not facts.is_better:
            return None
        render = _feed_render(facts)
    for name in _LEFT_OUT:
        row.pop(name, None)
    if policy.purpose:
        stated = row.get("preferences")
        may_use = policy.allows(_decode_stated(stated) if stated else NOTHING_STATED)
        if not may_use:
            for name in CONTENT_FIELDS:
                row.pop(name, None)
        row["may_use"] = may_use
    row["url8"] = key.hex()
    if render is not None:
        row["render"] = render
    row.setdefault("fetch_number", 1)
    value = _encode(row)
    if len(value) > _MAX_BYTES:
        kept = (*_KEPT, "url8", "fetch_number", "may_use", "render")
        value = _encode({name: row[name] for name in kept if name in row})
    return key, value


def _feed_render(facts: RenderFacts) -> FeedRender:
    return FeedRender(
        end=facts.end,
        page_characters=facts.page_characters,
        page_links=facts.page_links,
        rounds=len(facts.rounds),
        requests=len(facts.requests),
        missing=sum(not each.record for each in facts.requests),
        elapsed_s=facts.elapsed_s,
    )


def dead_letter_row(letter: DeadLetter) -> tuple[bytes, bytes]:
    """The key and the row of ``dlq`` for a dead letter."""
    key = hash8(letter.url)
    row = DeadLetterRow(
        url=letter.url,
        url8=key.hex(),
        reason=letter.reason.label,
        detail=letter.detail,
        tries=letter.tries,
        date_us=int(letter.wall * 1_000_000),
    )
    return key, _encode(row)


def feed_schema(feed: str) -> Mapping[str, Any]:
    """The JSON Schema of the rows of a feed."""
    if feed == PAGES:
        found = msgspec.json.schema(PageFeedRow)
        found["$defs"]["PageFeedRow"]["description"] = _PAGES_TEXT
    else:
        found = msgspec.json.schema(DeadLetterRow)
    for struct in found["$defs"].values():
        if "description" in struct:  # a docstring, whose indentation Python 3.13 removes itself
            struct["description"] = cleandoc(struct["description"])
    return {"$schema": _DIALECT, "title": f"a row of the feed {feed}", **found}
