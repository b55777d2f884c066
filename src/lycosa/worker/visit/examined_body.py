"""A body after it was examined, and the digest of a payload."""

from __future__ import annotations

import hashlib
from base64 import b32encode

import msgspec

from lycosa.base.model.fetched import Fetched
from lycosa.base.model.parsed import Parsed
from lycosa.base.model.remark import Remark
from lycosa.stages.schedule.validator_trust import NO_CONDITIONS, Conditions
from lycosa.state.seen.foreign_keys import NO_ANSWERS, ContentAnswers
from lycosa.state.store.warc_records import Packed


class ExaminedBody(msgspec.Struct, frozen=True):
    """A body after ``examine_body``.

    It has the digest, what the parser found, what other workers know of equal bodies and similar
    texts, and the response record of a large body. ``sent`` are the validators of the request,
    ``remarks`` those of sinks, which got the page before it is stored.
    """

    digest: bytes
    parsed: Parsed | None = None
    known: ContentAnswers = NO_ANSWERS
    packed: Packed | None = None
    sent: Conditions = NO_CONDITIONS
    remarks: tuple[Remark, ...] = ()


def written_digest(digest: bytes) -> str:
    """The form of WARC-Payload-Digest."""
    return "sha1:" + b32encode(digest).decode()


def payload_digest(fetched: Fetched) -> bytes:
    """SHA-1 of the body as received, without the transfer coding (WARC's payload)."""
    if not fetched.spool:
        return hashlib.sha1(fetched.body, usedforsecurity=False).digest()
    with open(fetched.spool, "rb") as file:  # noqa: PTH123 (hashlib.file_digest wants a raw file, and this is the hot path)
        return hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).digest()
