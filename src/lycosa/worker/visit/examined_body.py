"""Examines a body before its capture is made: its digest, and what is known of equal ones.

This may await: it asks other workers what they stored, and has large bodies digested and compressed
in a thread.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from typing import Any

import msgspec

from lycosa.base.model.capture import Capture
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Fetched, FetchKind, FetchRequest
from lycosa.base.model.parsed import Parsed
from lycosa.base.model.remark import Remark
from lycosa.base.ports import Offload
from lycosa.stages.parse.identify import identify
from lycosa.stages.schedule.validator_trust import NO_CONDITIONS, Conditions
from lycosa.state.seen.content_seen import content_key, encode_original
from lycosa.state.seen.duplicates import Duplicates
from lycosa.state.seen.foreign_keys import NO_ANSWERS, ContentAnswers
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.warc_records import Packed
from lycosa.worker.earlier_captures import EarlierCaptures

LARGE_BYTES = 65_536
"""A larger body is digested and compressed in a thread.

That would take 0.3 ms in the loop, while handing it to a thread and back costs 0.1 ms.
"""


class ExaminedBody(msgspec.Struct, frozen=True):
    """A body after ``BodyExaminer.examine``.

    It has the digest, what the parser found, what other workers and earlier crawls know of equal
    bodies and similar texts, and the response record of a large body. ``sent`` are the validators
    of the request, ``remarks`` those of user code, which got the page before it is stored.
    ``items`` are its rows by extractor, and ``scores`` those of links by URL, of the code of that
    ``generation`` (0: user code was not asked).
    """

    digest: bytes
    parsed: Parsed | None = None
    known: ContentAnswers = NO_ANSWERS
    packed: Packed | None = None
    sent: Conditions = NO_CONDITIONS
    remarks: tuple[Remark, ...] = ()
    items: dict[str, list[list[Any]]] = {}
    scores: dict[str, int] = {}
    generation: int = 0


def written_digest(digest: bytes) -> str:
    """The form of WARC-Payload-Digest."""
    return "sha1:" + b32encode(digest).decode()


def payload_digest(fetched: Fetched) -> bytes:
    """SHA-1 of the body as received, without the transfer coding (WARC's payload)."""
    if not fetched.spool:
        return hashlib.sha1(fetched.body, usedforsecurity=False).digest()
    with open(fetched.spool, "rb") as file:  # noqa: PTH123 (hashlib.file_digest wants a raw file, and this is the hot path)
        return hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).digest()


def media_type_in(fetched: Fetched, parsed: Parsed | None) -> str:
    return (parsed.media_type if parsed else "") or identify(fetched)


class BodyExaminer:
    """One per worker."""

    def __init__(
        self,
        duplicates: Duplicates,
        store: SegmentStore,
        offload: Offload,
        earlier: EarlierCaptures | None = None,
    ) -> None:
        self._duplicates, self._store, self._offload = duplicates, store, offload
        self._earlier = earlier

    async def examine(
        self, fetched: Fetched, parsed: Parsed | None, request: FetchRequest
    ) -> ExaminedBody:
        """Examine the body of the answer to a request for ``make_capture``.

        Waits a short time for other workers, and for the thread that compresses a large body.
        """
        is_large = len(fetched.body) > LARGE_BYTES or bool(fetched.spool)
        digest = (
            await self._offload.run(lambda: payload_digest(fetched))
            if is_large
            else payload_digest(fetched)
        )
        known, is_compared = NO_ANSWERS, not fetched.privacy
        if parsed is not None and self._duplicates.must_ask and is_compared:
            known = await self._duplicates.ask_owners(digest, parsed.simhash)
        if (
            self._earlier is not None
            and fetched.status == 200
            and fetched.body_bytes
            and is_compared
        ):
            known = await self._with_earlier(self._earlier, fetched, digest, known)
        packed = (
            await self._pack(fetched, parsed, digest, known)
            if is_large and fetched.header_block
            else None
        )
        sent = NO_CONDITIONS
        if request.etag or request.last_modified:
            sent = Conditions(request.etag, request.last_modified)
        return ExaminedBody(digest, parsed, known, packed, sent)

    async def _with_earlier(
        self, earlier: EarlierCaptures, fetched: Fetched, digest: bytes, known: ContentAnswers
    ) -> ContentAnswers:
        """The answers with the original of an earlier crawl, unless this crawl has the body."""
        if self._duplicates.find_original(digest, 0, known)[0] is not None:
            return known
        original = await earlier.find_original(fetched, digest)
        if original is None:
            return known
        return {**known, content_key(digest): encode_original(original)}

    async def _pack(
        self, fetched: Fetched, parsed: Parsed | None, digest: bytes, known: ContentAnswers
    ) -> Packed | None:
        """The response record of a large body, or ``None`` if a revisit record is enough.

        ``make_capture`` decides again, by what is known then.
        """
        is_compared = not fetched.privacy
        if is_compared and self._duplicates.find_original(digest, 0, known)[0] is not None:
            return None
        # The response record uses only the fields of the capture that are set here.
        draft = self._store.draft_capture(
            Capture(
                fetched=fetched,
                kind=FetchKind.PAGE,
                host="",
                site="",
                depth=0,
                via="",
                link_kind=LinkKind.OTHER,
                payload_digest=written_digest(digest),
                parsed=parsed,
                media_type=media_type_in(fetched, parsed),
            )
        )
        return await self._offload.run(draft.pack)
