"""Turns an answer into a capture: dedup, the records, and the history of the URL.

``make_capture`` gets a body that ``examined_body`` has examined, and does not await. The pipeline
calls it in the last part of a visit, so the records, the published digest and the end of the lease
are in one commit. Hence a digest is never known before its record exists.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import msgspec

from lycosa.base.model.capture import (
    TOLD_CHANGES,
    Capture,
    Change,
    Location,
    Original,
    RobotsDecision,
    StoredOriginal,
)
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.fetched import Fetched, FetchKind, Privacy
from lycosa.base.model.parsed import Parsed
from lycosa.base.model.remark import Remark
from lycosa.base.model.url_state import Completed, History, NotedChange, UrlState
from lycosa.base.preferences.kept_markup import markup_of
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences
from lycosa.base.reasons import UNREMARKABLE, Reason
from lycosa.stages.extract.eligible import is_extracted
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.parse.page import Page, page_of
from lycosa.stages.schedule.fetch_outcome import FetchOutcome, Meaning
from lycosa.stages.schedule.page_change import (
    change_distance,
    change_of,
    text_digest_of,
    title_hash,
)
from lycosa.stages.schedule.refetch_plan import FoundContent
from lycosa.stages.schedule.soft_gone import GONE_REASONS
from lycosa.stages.schedule.validator_trust import (
    CHECK_AFTER_S,
    TO_CHECK,
    check_every,
    is_sampled,
    kept_validators,
)
from lycosa.state.seen.duplicates import Duplicates
from lycosa.state.store.segments import SegmentStore
from lycosa.worker.intake.intake import Intake
from lycosa.worker.refetch_planning import RefetchPlanner
from lycosa.worker.visit.examined_body import ExaminedBody, media_type_in, written_digest
from lycosa.worker.visit.refetch_checks import (
    Likeness,
    RefetchChecks,
    found_as,
    outcome_as,
    without_body,
)

_COMPARED = frozenset({Meaning.FETCHED, Meaning.REDIRECTED})
_REPLACED = frozenset(
    {Reason.NONE, Reason.DUPLICATE, Reason.NEAR_DUPLICATE, Reason.REDIRECTED}
)  # by a reason that says more; others say why a body has to be parsed again

_LIKE_OTHERS = frozenset({Reason.NONE, Reason.DUPLICATE, Reason.NEAR_DUPLICATE})


class _Known(NamedTuple):
    """What is known of a body: its digest, and captures with the same or nearly the same content.

    ``is_not_modified`` when the server answered that the content has not changed.
    """

    digest: bytes
    original: StoredOriginal | None = None
    near: Original | None = None
    is_not_modified: bool = False


class CaptureBuilder:
    """Makes captures; one per worker."""

    def __init__(
        self,
        planner: RefetchPlanner,
        checks: RefetchChecks,
        duplicates: Duplicates,
        store: SegmentStore,
        intake: Intake,
    ) -> None:
        self._planner = planner
        self._checks, self._clock = checks, checks.clock
        self._duplicates, self._is_judged_later = duplicates, duplicates.is_judged_later
        self._store = store
        self._intake = intake
        self.contents = {"new": 0, "duplicate": 0, "near_duplicate": 0, "earlier": 0}
        """Bodies with status 200 by what was known of their content."""

    def make_capture(
        self,
        lease: Lease,
        fetched: Fetched,
        body: ExaminedBody,
        decision: RobotsDecision,
        outcome: FetchOutcome,
        target: str,
        stated: Preferences = NOTHING_STATED,
    ) -> Completed:
        """Deduplicate the body, store the records, and return the end of the lease."""
        old, known = lease.record.history or History(), self._compare(lease, fetched, body, outcome)
        if lease.record.reason is Reason.PERHAPS_GONE:
            old = without_body(old)
        found = self._content(lease, fetched, body.parsed, known, outcome, target)
        alike, likeness, is_304 = known.original or known.near, Likeness.UNLIKE, False
        if old.fetches or lease.host.record.missing is not None:
            likeness = self._likeness(lease, old, found, target, alike)
            outcome, found = outcome_as(likeness, outcome), found_as(likeness, found, old)
        if old.fetches and likeness is Likeness.UNLIKE:
            is_304 = self._checks.note_answer(lease, old, found, fetched, body.sent)
        capture = self._capture(lease, fetched, body.parsed, decision, known, stated)
        capture = self._noted_in(capture, old, found, body.remarks, likeness)
        if body.items or body.scores:
            capture = msgspec.structs.replace(capture, items=body.items, scores=body.scores)
        location = self._append(lease, capture, body, known)
        is_missing = likeness is Likeness.LIKE
        plan = self._planner.plan(lease, body.parsed, old, found, self._store.formats, is_missing)
        history = self._history(lease, capture, known, location, target)
        history = plan.kept_in(history, old, found.text_digest)
        if likeness is not Likeness.UNLIKE:
            # Not modified would mean that it is as before, which says nothing about what it is.
            history = msgspec.structs.replace(history, etag="", last_modified="")
        state, reason = self._state(outcome, body.parsed, known.original, known.near, lease)
        if plan.is_gone:
            state = UrlState.GONE
            reason = Reason.GONE if likeness is Likeness.UNLIKE else Reason.SOFT_GONE
        elif is_304 and plan.interval_s and self._is_checked(lease, history):
            reason = Reason.TO_BE_CHECKED
        else:
            reason = _noted_reason(reason, likeness, bool(plan.interval_s), bool(capture.remarks))
        interval = min(plan.interval_s, CHECK_AFTER_S if reason in TO_CHECK else inf)
        due = int(self._clock.time() + interval) if interval else 0
        is_failed = outcome.meaning is Meaning.FAILED
        detail = fetched.detail or (f"status {fetched.status}" if is_failed else "")
        if reason is Reason.EXTENSION_FAILED:
            detail = capture.remarks[0].detail
        host8, url8 = lease.host.host8, lease.entry.url8
        noted = self._noted(capture)
        title = self._title(body.parsed, known)
        items = self._store.count_items(capture.items) if capture.items else {}
        return Completed(
            host8, url8, lease.number, state, reason, detail, due, history, noted, title, items
        )

    def _title(self, parsed: Parsed | None, known: _Known) -> int:
        """The hash of the title, where it may be compared with that of a near copy; else 0."""
        is_compared = known.near is not None or self._is_judged_later
        return title_hash(parsed.title) if is_compared and parsed is not None else 0

    def _append(
        self, lease: Lease, capture: Capture, body: ExaminedBody, known: _Known
    ) -> Location:
        """Store the records of a capture, and make its content and its licence known."""
        location = self._store.append_capture(capture, body.packed)
        if capture.preferences.license:
            self._intake.take_license(lease, capture.preferences)
        if capture.fetched.status == 200:
            original = known.original
            kind = "near_duplicate" if known.near is not None else "new"
            if original is not None:
                kind = "earlier" if original.is_elsewhere else "duplicate"
            self.contents[kind] += 1
            is_first = original is None or original.is_elsewhere
            if is_first and not capture.fetched.privacy:
                self._remember(lease, capture.fetched, body, known, location)
        return location

    def _is_checked(self, lease: Lease, history: History) -> bool:
        """Whether a 304 is in the sample of those that are checked."""
        every = check_every(lease.host.record.validators, self._planner.section.check_every)
        return is_sampled(lease.entry.url8, history.fetches, every)

    def _likeness(
        self, lease: Lease, old: History, found: FoundContent, target: str, alike: Original | None
    ) -> Likeness:
        """How an answer with content compares with that for a path that does not exist."""
        if found.meaning not in _COMPARED or self._store.formats < LATE_FIELDS:
            return Likeness.UNLIKE
        return self._checks.likeness(self._planner.section, lease, old, found, target, alike)

    def _remember(
        self, lease: Lease, fetched: Fetched, body: ExaminedBody, known: _Known, location: Location
    ) -> None:
        """File the content of a capture that was just stored.

        The digest refers to its record and is in the same commit. So a digest is never known before
        its record exists. That of a body which an earlier crawl has is not filed: this crawl has no
        record of it, and its archive may be gone at the next start.
        """
        made = StoredOriginal(
            lease.url,
            _date_us(fetched),
            location.record_id,
            location.segment,
            location.offset,
        )
        is_near = known.near is not None
        simhash = body.parsed.simhash if body.parsed is not None else 0
        if known.original is None:
            self._duplicates.remember_capture(known.digest, simhash, made, body.known, is_near)
        else:
            page = Original(made.url, made.date_us, made.record_id)
            self._duplicates.remember_text(simhash, page, body.known, is_near)

    def is_extracted(
        self, lease: Lease, fetched: Fetched, body: ExaminedBody, stated: Preferences
    ) -> bool:
        """Whether user code gets the page, if it wants its URL."""
        original = self._original(fetched, body)
        return is_extracted(
            FetchKind.SITEMAP if self._intake.is_sitemap(lease) else FetchKind.PAGE,
            fetched.status,
            lease.url,
            original.url if original is not None and not original.is_elsewhere else "",
            self._store.policy.verdict(stated),
        )

    def page_of_visit(
        self,
        lease: Lease,
        fetched: Fetched,
        body: ExaminedBody,
        decision: RobotsDecision,
        stated: Preferences,
    ) -> Page:
        """The page as sinks get it, before its capture; of duplicates those by equal body."""
        original = self._original(fetched, body)
        known = _Known(body.digest, original, is_not_modified=fetched.status == 304)
        capture = self._capture(lease, fetched, body.parsed, decision, known, stated)
        return page_of(capture, self._store.policy)

    def _original(self, fetched: Fetched, body: ExaminedBody) -> StoredOriginal | None:
        """The capture with an equal body, if the request carried no credentials."""
        if fetched.privacy or fetched.status != 200 or not fetched.body_bytes:
            return None
        return self._duplicates.find_original(body.digest, 0, body.known)[0]

    def _noted_in(
        self,
        capture: Capture,
        old: History,
        found: FoundContent,
        remarks: tuple[Remark, ...],
        likeness: Likeness,
    ) -> Capture:
        """The capture with its remarks and how it differs from the one before.

        Formats without changes have neither, and a page that may be gone has no change yet.
        """
        if self._store.formats < LATE_FIELDS:
            return capture
        if likeness is Likeness.UNKNOWN:
            return msgspec.structs.replace(capture, remarks=remarks) if remarks else capture
        meaning, text = found.meaning, found.text_digest
        change = change_of(old, meaning, found.status, found.digest, text, found.was_gone)
        distance = change_distance(old, meaning, found.simhash)
        return msgspec.structs.replace(
            capture, change=change, change_distance=distance, remarks=remarks
        )

    def _noted(self, capture: Capture) -> NotedChange | None:
        """The change of a page, if it is one that is reported."""
        is_told = capture.kind is FetchKind.PAGE and capture.change in TOLD_CHANGES
        if not is_told or capture.fetched.privacy is Privacy.PRIVATE:
            return None
        return NotedChange(
            Change(capture.change),
            int(self._clock.wall()),
            _date_us(capture.fetched),
            capture.fetched.status,
            capture.change_distance,
        )

    def _capture(
        self,
        lease: Lease,
        fetched: Fetched,
        parsed: Parsed | None,
        decision: RobotsDecision,
        known: _Known,
        stated: Preferences,
    ) -> Capture:
        """The capture from which the records are made."""
        record, intake = lease.record, self._intake
        return Capture(
            fetched=fetched,
            kind=FetchKind.SITEMAP if intake.is_sitemap(lease) else FetchKind.PAGE,
            host=lease.host.name,
            site=intake.site_of(lease.host.name),
            depth=record.depth,
            via=lease.via,
            link_kind=record.kind,
            payload_digest=written_digest(known.digest),
            parsed=parsed,
            robots=decision,
            original=known.original,
            not_modified=known.is_not_modified,
            near_duplicate_of=known.near,
            chain=lease.chain,
            fetch_number=lease.number,
            media_type="" if known.is_not_modified else media_type_in(fetched, parsed),
            preferences=stated,
        )

    def _compare(
        self, lease: Lease, fetched: Fetched, body: ExaminedBody, outcome: FetchOutcome
    ) -> _Known:
        """Look up an earlier capture with the same body, or one with nearly the same text."""
        old = lease.record.history or History()
        if outcome.meaning is Meaning.NOT_MODIFIED:
            # Refer to the capture that has the body. It belongs to another URL if this URL's body
            # was a duplicate. A revisit record never refers to a revisit record.
            return _Known(old.digest, _with_content(lease.url, old), None, True)
        if fetched.status != 200 or not fetched.body_bytes:
            return _Known(body.digest)
        if fetched.privacy:
            # It is compared with captures of the same URL alone.
            is_same = old.digest == body.digest and old.status == 200 and not old.is_same
            return _Known(body.digest, _with_content(lease.url, old) if is_same else None)
        simhash = body.parsed.simhash if body.parsed is not None else 0
        page = Original(lease.url, _date_us(fetched))
        original, near = self._duplicates.find_original(body.digest, simhash, body.known, page)
        if original is not None and not original.offset and original.record_id == old.record_id:
            original = _with_content(lease.url, old)  # of a program that stored no place
        return _Known(body.digest, original, near if near and near.url != lease.url else None)

    def _history(
        self,
        lease: Lease,
        capture: Capture,
        known: _Known,
        location: Location,
        target: str,
    ) -> History:
        """What the URL's record remembers of its capture, apart from the next fetch."""
        old, fetched, parsed = lease.record.history or History(), capture.fetched, capture.parsed
        is_old, original = known.is_not_modified, known.original
        other = _other(original or known.near, lease.url)
        kept = kept_validators(fetched)
        # As the digest of the text, the SimHash is that of the last content.
        is_error = bool(old.text_digest) and capture.change in (Change.NONE, Change.GONE)
        body = "", 0
        if original is not None and self._store.formats >= LATE_FIELDS:
            body = original.place_beside(location.segment)
        return History(
            fetches=old.fetches + 1,
            fetched_at=int(self._clock.wall()),
            status=old.status if is_old else fetched.status,
            digest=known.digest,
            simhash=old.simhash if is_old or is_error else (parsed.simhash if parsed else 0),
            etag=kept.etag or (old.etag if is_old else ""),
            last_modified=kept.last_modified or (old.last_modified if is_old else ""),
            date_us=original.date_us if original else _date_us(fetched),
            record_id=original.record_id if original else location.record_id,
            segment=location.segment,
            offset=location.offset,
            redirect_to=target,
            duplicate_of=old.duplicate_of if is_old else other,
            is_same=original is not None and original.url != lease.url,
            body_segment=body[0],
            body_offset=body[1],
            markup=markup_of(stated) if (stated := capture.preferences).statements else (),
        )

    def _content(
        self,
        lease: Lease,
        fetched: Fetched,
        parsed: Parsed | None,
        known: _Known,
        outcome: FetchOutcome,
        target: str,
    ) -> FoundContent:
        """The content, for the comparison with that of the capture before.

        The digest of the last content stays while there is none, for the time when it is back.
        """
        old, text = lease.record.history or History(), b""
        if self._store.formats >= LATE_FIELDS:
            if known.is_not_modified or outcome.meaning is Meaning.FAILED:
                text = old.text_digest
            else:
                words = parsed.text if parsed is not None else ""
                # A server that compresses by chance sends several payloads for one content.
                content = parsed.content_digest if parsed is not None else b""
                text = text_digest_of(words, target, content or known.digest)
        if known.is_not_modified:
            is_copy = bool(old.copy_of)
        else:
            is_copy = known.near is not None or _is_other(known.original, lease)
        found = FoundContent(
            outcome.meaning,
            self._clock.wall(),
            known.digest,
            text,
            parsed.simhash if parsed is not None else 0,
            fetched.status,
            lease.record.reason in GONE_REASONS,
            is_copy=is_copy,
            is_check=lease.record.reason in TO_CHECK,
        )
        # At a first fetch there is nothing to compare, and mostly nothing that was learned.
        if not (old.fetches or lease.host.record.signals or self._checks.knows_dates):
            return found
        return self._checks.with_date(lease, old, found, fetched)

    @staticmethod
    def _state(
        outcome: FetchOutcome,
        parsed: Parsed | None,
        original: StoredOriginal | None,
        near: Original | None,
        lease: Lease,
    ) -> tuple[UrlState, Reason]:
        if outcome.meaning is Meaning.FAILED:
            return UrlState.FAILED, outcome.reason
        if outcome.meaning is Meaning.REDIRECTED:
            return UrlState.REDIRECTED, Reason.REDIRECTED
        if (
            outcome.reason is Reason.NONE
            and parsed is not None
            and parsed.reason not in UNREMARKABLE
        ):
            return UrlState.FETCHED, parsed.reason
        if outcome.reason is Reason.NONE and _is_other(original, lease):
            return UrlState.FETCHED, Reason.DUPLICATE
        if outcome.reason is Reason.NONE and near is not None:
            return UrlState.FETCHED, Reason.NEAR_DUPLICATE
        if outcome.reason is Reason.NONE and parsed is not None:
            return UrlState.FETCHED, parsed.reason
        return UrlState.FETCHED, outcome.reason


def _noted_reason(
    reason: Reason, likeness: Likeness, is_fetched_again: bool, has_failures: bool
) -> Reason:
    """The reason of a stored page after what its answer shows, and failures of users' code."""
    if likeness is Likeness.LIKE and reason in _REPLACED:
        return Reason.LIKE_MISSING
    if likeness is Likeness.UNKNOWN and is_fetched_again and reason in _REPLACED:
        return Reason.PERHAPS_GONE
    if has_failures and reason in _LIKE_OTHERS:
        return Reason.EXTENSION_FAILED  # the copy is in the history, the failure only here
    return reason


def _is_other(original: StoredOriginal | None, lease: Lease) -> bool:
    """Whether another URL of this crawl has the body."""
    return original is not None and original.url != lease.url and not original.is_elsewhere


def _other(alike: Original | None, url: str) -> str:
    """The URL of an equal or similar capture, if it is not ``url``."""
    return alike.url if alike is not None and alike.url != url else ""


def _with_content(url: str, old: History) -> StoredOriginal:
    """The capture that has the content of ``url``, as its history knows it."""
    # An older program that stored a revisit of another URL did not keep the place.
    place = old.body_place if old.body_offset or not old.is_same else ("", 0)
    return StoredOriginal(
        old.duplicate_of if old.is_same else url, old.date_us, old.record_id, *place
    )


def _date_us(fetched: Fetched) -> int:
    return int(fetched.started * 1_000_000)
