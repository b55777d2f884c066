"""Makes the WARC records of a render, in the forms that tools of archivists know.

The document as it was after its scripts ran is a ``conversion`` of the response (ISO 28500:2017,
section 6.9). The others are resources with URNs, as Browsertrix Crawler writes them:
``urn:pageinfo:URL`` lists what the page loaded, ``urn:text:URL`` is its text, ``urn:view:URL`` a
screenshot. A render without a document has only ``urn:pageinfo:``.

The IDs are drawn when a draft is made; the rest depends on nothing else, so it may be done in
another thread.
"""

from __future__ import annotations

from typing import Any

import msgspec

from lycosa.base.model.capture import Original
from lycosa.base.model.finished_render import FinishedRender, without_nonces
from lycosa.base.model.parsed import Parsed
from lycosa.state.store import layout, warc
from lycosa.state.store.journal_rows import (
    JournalRow,
    Links,
    RowBuilder,
    date_us,
    link_columns,
)
from lycosa.state.store.render_facts import (
    DOCUMENT,
    PAGE_INFO,
    PAGE_TEXT,
    VIEW,
    RenderFacts,
    RenderRecord,
)
from lycosa.state.store.warc_records import Member

HTML, JSON, TEXT, PNG = "text/html;charset=utf-8", "application/json", "text/plain", "image/png"
MOST_RECORDS = 4
_TYPES = {
    "": "fetch",
    "style": "stylesheet",
    "iframe": "document",
    "frame": "document",
    "worker": "script",
    "sharedworker": "script",
    "audio": "media",
    "video": "media",
    "track": "texttrack",
}
"""Destinations of the Fetch standard whose name in Chromium's protocol, and so in Browsertrix's
records, is another one.
"""
_encode = msgspec.json.Encoder().encode


class RenderDraft(msgspec.Struct, frozen=True):
    """A render with the IDs of its records."""

    render: FinishedRender
    record_ids: tuple[str, ...]
    warcinfo_id: str
    level: int

    def build(self) -> BuiltRender:
        """Make the records. Pure; takes tens of milliseconds for a document of ten megabytes."""
        packed, records = list[bytes](), list[RenderRecord]()
        blocks = _blocks(self.render)
        for (name, media_type, block), record_id in zip(blocks, self.record_ids, strict=False):
            data = self._record(name, media_type, block, record_id)
            digest = warc.block_digest(block)
            packed.append(data)
            records.append(RenderRecord(name, len(data), record_id, digest, media_type))
        whole, first = b"".join(packed), len(packed[0])
        member = Member((whole,), len(whole), 0, first, len(whole) - first)
        return BuiltRender(self, member, _facts(self.render, tuple(records)))

    def _record(self, name: str, media_type: str, block: bytes, record_id: str) -> bytes:
        render, is_document = self.render, name == DOCUMENT
        original = render.original
        fields = (
            ("WARC-Warcinfo-ID", warc.bracketed(self.warcinfo_id)),
            ("WARC-Target-URI", render.url if is_document else f"urn:{name}:{render.url}"),
            ("WARC-Refers-To", warc.bracketed(original.record_id) if is_document else ""),
            # not in a conversion (WARC 1.1, section 5.7)
            ("WARC-Concurrent-To", "" if is_document else warc.bracketed(original.record_id)),
            ("WARC-Payload-Digest", warc.block_digest(block)),
            ("Content-Type", media_type),
        )
        kind = "conversion" if is_document else "resource"
        moment = date_us(render.rendered_at)
        return warc.record(kind, record_id, moment, fields, (block,), self.level)


class BuiltRender(msgspec.Struct, frozen=True):
    """The records of a draft as bytes, and what the row says of them."""

    draft: RenderDraft
    member: Member
    facts: RenderFacts


def _blocks(render: FinishedRender) -> list[tuple[str, str, bytes]]:
    """Name, media type and content of each record, in order."""
    rendered, found = render.rendered, list[tuple[str, str, bytes]]()
    if rendered.end.has_document:
        found.append((DOCUMENT, HTML, rendered.html.encode("utf-8", "replace")))
    found.append((PAGE_INFO, JSON, page_info(render)))
    if render.parsed is not None and render.parsed.text:
        found.append((PAGE_TEXT, TEXT, render.parsed.text.encode("utf-8", "replace")))
    if rendered.screenshot:
        found.append((VIEW, PNG, rendered.screenshot))
    return found


def page_info(render: FinishedRender) -> bytes:
    """What the page loaded, as Browsertrix lists it.

    ``ts`` is the time of the capture, at which replay tools find the page. A request that was not
    answered has the status 0 and ``error``.
    """
    urls: dict[str, dict[str, Any]] = {}
    for each in render.rendered.requests:
        kind = _TYPES.get(each.destination, each.destination)
        said: dict[str, Any] = {"status": each.status, "mime": each.media_type, "type": kind}
        urls[each.url] = said | ({"error": each.refusal} if each.refusal else {})
    urls.setdefault(render.url, {"status": render.status, "mime": "text/html", "type": "document"})
    rendered = render.rendered
    info = {
        "pageid": render.original.record_id.rpartition(":")[2],
        "urls": urls,
        "url": render.url,
        "ts": warc.warc_date(render.original.date_us),
        "tsStatus": render.status,
        "counts": {"jsErrors": len(rendered.errors)},
    }
    return msgspec.json.format(_encode(info), indent=2)


def _facts(render: FinishedRender, records: tuple[RenderRecord, ...]) -> RenderFacts:
    rendered, rounds = render.rendered, render.rounds
    has_document = rendered.end.has_document
    steady = without_nonces(rendered.html).encode("utf-8", "replace")
    return RenderFacts(
        end=rendered.end.value,
        is_better=render.is_better,
        page_characters=render.page_characters,
        page_links=render.page_links,
        shown_url=rendered.url if rendered.url != render.url else "",
        browser=rendered.browser,
        fonts=rendered.fonts,
        elapsed_s=sum(each.elapsed_s for each in rounds) or rendered.elapsed_s,
        processor_s=sum(each.processor_s for each in rounds) or rendered.processor_s,
        memory_bytes=rendered.memory_bytes,
        steady_digest=warc.block_digest(steady) if has_document else "",
        rounds=rounds,
        records=records,
        requests=rendered.requests,
        more_wants=rendered.more_wants,
        refused=rendered.refused,
        changed=rendered.changed,
        console=rendered.console,
        errors=rendered.errors,
    )


def render_row(rows: RowBuilder, built: BuiltRender, segment: str, offset: int) -> JournalRow:
    """The row of a render whose first record is at ``offset`` of a segment."""
    render, facts, member = built.draft.render, built.facts, built.member
    parsed = render.parsed or _UNPARSED
    surt, registry, private = rows.names_of(render.url, render.host)
    first, original = facts.records[0], render.original
    body = original.place_beside(layout.warc_name(segment))
    return JournalRow(
        url=render.url,
        surt=surt,
        host=render.host,
        site=render.site,
        date_us=date_us(render.rendered_at),
        status=render.status,
        segment=segment,
        offset=offset,
        length=member.main_length,
        record_id=first.record_id,
        metadata_length=member.metadata_length,
        registry_suffix=registry,
        private_suffix=private,
        digest=first.digest,
        original=Original(original.url, original.date_us, original.record_id),
        reason=render.reason,
        detail=render.detail,
        parse_reason=parsed.reason,
        media_type="text/html" if first.name == DOCUMENT else "",
        media_type_detected=parsed.media_type,
        charset=parsed.charset,
        language=parsed.language,
        title=parsed.title or render.rendered.title,
        description=parsed.description,
        canonical=parsed.canonical,
        simhash=parsed.simhash,
        depth=render.depth,
        via=render.via,
        link_kind=render.link_kind,
        fetch_number=render.fetch_number,
        noindex=parsed.directives.noindex,
        nofollow=parsed.directives.nofollow,
        noarchive=parsed.directives.noarchive,
        decoded_bytes=parsed.decoded_bytes,
        parse_s=parsed.elapsed_s,
        outlinks=len(parsed.links),
        links=link_columns(parsed.links) if rows.has_links and parsed.links else Links(),
        refused_links=parsed.refused_links,
        text_characters=len(parsed.text),
        text=parsed.text if rows.has_text else "",
        is_cut=parsed.is_cut,
        preferences=render.preferences,
        body_segment=layout.stem_of(body[0]) if body[0] else "",
        body_offset=body[1],
        content=parsed.content,
        render=facts,
        privacy=render.privacy,
    )


_UNPARSED = Parsed()
