"""Turns the journal row of a stored capture back into the values of its fetch.

The state of a URL follows from these values as it did from the answer. Only the importance of the
link by which the URL was found is in no row.
"""

from __future__ import annotations

from base64 import b32decode

from lycosa.base.model.capture import Change
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.discovered import REDIRECT_KINDS, Discovered, LinkKind
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.parsed import Directives, Link, Parsed
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.preferences.kept_markup import markup_of
from lycosa.base.reasons import UNREMARKABLE, Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.schedule.fetch_outcome import FetchOutcome, Meaning
from lycosa.stages.schedule.page_change import text_digest_of
from lycosa.stages.schedule.refetch_plan import FoundContent
from lycosa.state.store import layout
from lycosa.state.store.journal_rows import JournalRow, original_url

NO_HISTORY = History()
"""That of a URL without captures."""


def history_of(
    row: JournalRow,
    before: History | None,
    outcome: FetchOutcome,
    target: str,
    is_soft: bool = False,
) -> History:
    """What the record of a URL remembers of a capture, apart from the next fetch.

    ``is_soft`` says that the page was judged as gone (``is_soft_gone_row``).
    """
    old, original = before or NO_HISTORY, row.original
    is_old = outcome.meaning is Meaning.NOT_MODIFIED
    is_error = outcome.meaning is Meaning.FAILED and bool(old.text_digest)
    other = _other_in(row)
    return History(
        fetches=row.fetch_number,
        fetched_at=int(ended_at(row)),
        status=old.status if is_old else row.status,
        digest=digest_in(row),
        simhash=old.simhash if is_old or is_error else row.simhash,
        etag="" if is_soft else row.etag or (old.etag if is_old else ""),
        last_modified="" if is_soft else row.last_modified or (old.last_modified if is_old else ""),
        date_us=original.date_us if original else row.date_us,
        record_id=original.record_id if original else row.record_id,
        segment=layout.warc_name(row.segment),
        offset=row.offset,
        redirect_to=target,
        duplicate_of=old.duplicate_of if is_old else other,
        is_same=original is not None and original.url != row.url,
        body_segment=layout.warc_name(row.body_segment) if row.body_segment else "",
        body_offset=row.body_offset,
        markup=markup_of(row.preferences),
    )


def _other_in(row: JournalRow) -> str:
    """The URL of the page with the same content or nearly the same; empty without one."""
    alike = row.original or row.near_duplicate_of
    return alike.url if alike is not None and alike.url != row.url else ""


def _is_copy(row: JournalRow) -> bool:
    return row.near_duplicate_of is not None or original_url(row) not in ("", row.url)


def state_of_row(row: JournalRow, outcome: FetchOutcome) -> tuple[UrlState, Reason]:
    """The state of the URL after the capture, with its reason."""
    if outcome.meaning is Meaning.FAILED:
        return UrlState.FAILED, outcome.reason
    if outcome.meaning is Meaning.REDIRECTED:
        return UrlState.REDIRECTED, Reason.REDIRECTED
    if outcome.reason is Reason.NONE and row.parse_reason not in UNREMARKABLE:
        return UrlState.FETCHED, row.parse_reason
    if outcome.reason is Reason.NONE and original_url(row) not in ("", row.url):
        return UrlState.FETCHED, Reason.DUPLICATE
    if outcome.reason is Reason.NONE and row.near_duplicate_of is not None:
        return UrlState.FETCHED, Reason.NEAR_DUPLICATE
    return UrlState.FETCHED, outcome.reason or row.parse_reason


def is_soft_gone_row(row: JournalRow, before: Reason) -> bool:
    """Whether a capture is of a page that was judged as gone, whatever its status.

    ``before`` is the reason in the record of the URL before the capture.
    """
    if row.status >= 400:
        return False
    is_still = row.change is Change.NONE and before is Reason.SOFT_GONE
    return is_still or row.change is Change.GONE


def content_in(
    row: JournalRow,
    old: History,
    outcome: FetchOutcome,
    target: str,
    formats: int,
    was_gone: bool = False,
) -> FoundContent:
    """The content, as ``CaptureBuilder`` had it for the comparison with the capture before.

    ``target`` is that of a redirect, ``formats`` are those in force (``model.compatibility``). The
    digest of the text is empty when the text is in no row. ``was_gone`` as in ``FoundContent``.
    """
    digest, text = digest_in(row), b""
    if outcome.meaning is Meaning.NOT_MODIFIED or (
        outcome.meaning is Meaning.FAILED and formats >= LATE_FIELDS
    ):
        text = old.text_digest
    elif formats >= LATE_FIELDS and (row.text or not row.text_characters):
        text = text_digest_of(row.text, target, digest)
    is_old = outcome.meaning is Meaning.NOT_MODIFIED
    is_copy = bool(old.copy_of) if is_old else _is_copy(row)
    return FoundContent(
        outcome.meaning, ended_at(row), digest, text, row.simhash, row.status, was_gone, is_copy
    )


def found_in(row: JournalRow) -> Discovered:
    """How the URL of a capture was found. The importance of the link is in no row."""
    # Others than REDIRECT have a chain only if they are the target of a redirect.
    is_redirect = row.link_kind in REDIRECT_KINDS
    return Discovered(
        row.url,
        hash8(host_of(row.url)),
        hash8(row.url),
        row.link_kind,
        row.depth,
        row.via,
        len(row.chain) if is_redirect else 0,
        chain=row.chain[:-1] if is_redirect else (),
    )


def answer_in(row: JournalRow) -> Fetched:
    """The answer as far as its meaning depends on it."""
    head = f"HTTP/1.1 {row.status}\r\n"
    head += f"location: {row.location}\r\n" if row.location else ""
    return Fetched(
        row.url,
        row.reason,
        row.detail,
        row.status,
        header_block=f"{head}\r\n".encode("latin-1", "replace"),
        body_bytes=row.body_bytes,
        truncated=row.truncated,
        started=row.date_us / 1e6,
        duration_s=row.duration_s,
    )


def parsed_in(row: JournalRow) -> Parsed:
    """What the row has of what the parser found: all that the intake of links needs."""
    links, nofollow = row.links, set(row.links.nofollow)
    return Parsed(
        media_type=row.media_type_detected,
        simhash=row.simhash,
        directives=Directives(row.noindex, row.nofollow, row.noarchive),
        links=[
            Link(url, hash8(host_of(url)), hash8(url), LinkKind(kind), anchor, at in nofollow)
            for at, (url, kind, anchor) in enumerate(
                zip(links.urls, links.kinds, links.anchors, strict=True)
            )
        ],
        refused_links=row.refused_links,
    )


def digest_in(row: JournalRow) -> bytes:
    """The SHA-1 of the payload; empty when the row has none."""
    return b32decode(row.digest.removeprefix("sha1:")) if row.digest else b""


def ended_at(row: JournalRow) -> float:
    """Wall time at which the request ended."""
    return row.date_us / 1e6 + row.duration_s
