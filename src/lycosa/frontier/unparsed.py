"""Stored bodies whose links are not known yet, because they were not parsed, by URL.

A body is added when its capture ends with ``INTERNAL`` (a fault of the crawler), ``PARSE_KILLED``
or ``PARSE_TIMEOUT``. It is removed when it is parsed later, or when a later fetch of its URL brings
a body that is parsed. Redirects, failures and 304 answers in between change nothing. There are few,
so all are in memory.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import msgspec

from lycosa.frontier.counters import Counters
from lycosa.frontier.due import DueQueue
from lycosa.kv.overlay import Overlay
from lycosa.kv.records import (
    UrlRecord,
    decode_url,
    encode_record,
    encode_url,
    meta_key,
    prefix_end,
    unparsed_key,
    url_key,
)
from lycosa.model.completed import Completed, UrlState
from lycosa.reasons import Reason

INTERNAL_FAILURES = frozenset({Reason.INTERNAL})
"""Reasons that are not the document's fault. Such bodies are parsed again automatically."""
PARSER_FAILURES = frozenset({Reason.PARSE_KILLED, Reason.PARSE_TIMEOUT})
"""Reasons that two parse children in a row reported.

Such bodies are parsed again when the operator asks for it.
"""

_KEY = 16  # bytes of host8 and url8
_LOOKED = meta_key("unparsed")


class UnparsedBody(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The location of a body, and why it was not parsed."""

    segment: str
    offset: int
    reason: Reason


_decode = msgspec.msgpack.Decoder(UnparsedBody).decode


class UnparsedBodies:
    """The unparsed bodies of one partition, and the remarks in the records of their URLs."""

    def __init__(self, table: Overlay, counters: Counters, due: DueQueue) -> None:
        self._table, self._counters, self._due = table, counters, due
        self._bodies = {
            key[1:]: _decode(value) for key, value in table.scan(b"B", prefix_end(b"B"))
        }

    def __repr__(self) -> str:
        return f"<UnparsedBodies {len(self._bodies)}>"

    def __contains__(self, url: bytes) -> bool:
        """Whether the body of ``url`` (host8 and url8, as in all methods) is unparsed."""
        return url in self._bodies

    def get(self, url: bytes) -> UnparsedBody | None:
        return self._bodies.get(url)

    def with_reasons(self, reasons: Container[Reason]) -> list[bytes]:
        """The URLs whose body was not parsed for one of these reasons."""
        return [url for url, body in self._bodies.items() if body.reason in reasons]

    def count(self, reasons: Container[Reason]) -> int:
        return sum(body.reason in reasons for body in self._bodies.values())

    def note_ended_lease(self, url: bytes, done: Completed) -> None:
        """Add or remove the body of a URL whose lease ended."""
        if done.state is not UrlState.FETCHED or done.history is None:
            return
        if done.reason in INTERNAL_FAILURES or done.reason in PARSER_FAILURES:
            self.put(url, UnparsedBody(done.history.segment, done.history.offset, done.reason))
        elif done.history.status == 200 and done.reason is not Reason.NOT_MODIFIED:
            self.drop(url)

    def put(self, url: bytes, body: UnparsedBody) -> None:
        self._bodies[url] = body
        self._table.put(unparsed_key(url[:8], url[8:]), encode_record(body))

    def drop(self, url: bytes) -> None:
        """Remove a body that is parsed now, if it is here."""
        if self._bodies.pop(url, None) is not None:
            self._table.delete(unparsed_key(url[:8], url[8:]))

    def record_parsed(self, url: bytes, body: UnparsedBody, remark: Reason) -> None:
        """Record that a body was parsed, with the new remark."""
        self.drop(url)
        self._remark(url, body.reason, remark)

    def record_failed(self, url: bytes, body: UnparsedBody, reason: Reason) -> None:
        """Record that parsing a body failed again."""
        self.put(url, msgspec.structs.replace(body, reason=reason))
        self._remark(url, body.reason, reason)

    def _remark(self, url: bytes, before: Reason, after: Reason) -> None:
        """Change the remark on a fetched URL, unless it has another remark by now."""
        record = self._record(url)
        if record is None or record.state is not UrlState.FETCHED or record.reason is not before:
            return
        record.reason, record.detail = after, ""
        self._table.put(url_key(url[:8], url[8:]), encode_url(record))
        self._counters.move_reason(before, after)

    def fetch_again(self, url: bytes, now: float) -> None:
        """Make the URL due at once, because its body cannot be read."""
        record = self._record(url)
        if record is not None and record.state is UrlState.FETCHED:
            record.due_at = int(now)
            self._table.put(url_key(url[:8], url[8:]), encode_url(record))
            self._due.add_due(record.due_at, url)

    def _record(self, url: bytes) -> UrlRecord | None:
        value = self._table.get(url_key(url[:8], url[8:]))
        return decode_url(value) if value is not None else None

    def adopt_older(self) -> None:
        """Add the unparsed bodies of a crawl that was begun before they were stored.

        This reads all records, once, and only if any URL ever ended with one of the reasons.
        """
        if (
            not any(
                self._counters.reasons.get(reason) for reason in INTERNAL_FAILURES | PARSER_FAILURES
            )
            or self._table.get(_LOOKED) is not None
        ):
            return
        for url, body in _earlier(self._table):
            if url not in self._bodies:
                self.put(url, body)
        self._table.put(_LOOKED, b"")


def _earlier(table: Overlay) -> Iterator[tuple[bytes, UnparsedBody]]:
    for key, value in table.scan(b"U", prefix_end(b"U")):
        record = decode_url(value)
        history = record.history
        is_one = record.reason in INTERNAL_FAILURES or record.reason in PARSER_FAILURES
        if (
            is_one
            and record.state is UrlState.FETCHED
            and history is not None
            and history.status == 200
        ):
            yield key[1 : 1 + _KEY], UnparsedBody(history.segment, history.offset, record.reason)
