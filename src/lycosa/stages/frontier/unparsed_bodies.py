"""Stored bodies whose links are not known yet, because they were not parsed, by URL.

A body is added when its capture ends with one of ``NOT_PARSED``. It is removed when it is parsed
later, or when a later fetch of its URL brings a body that is parsed. Redirects, failures and 304
answers in between change nothing. There are few, so all are in memory.

Most are parsed again by themselves (``waits``): at the next start, and those for which the machine
was too busy also later in the same run. One that used the parser's processor time gets one more
try, at a later start. After that, and for one that killed the parser, an operator decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import Completed, UrlState
from lycosa.base.preferences.preference_model import Statement
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.due import DueQueue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    UrlRecord,
    decode_url,
    encode_record,
    encode_url,
    meta_key,
    prefix_end,
    unparsed_key,
    url_key,
)
from lycosa.state.shard.counters import Counters

NOT_PARSED = frozenset(
    {Reason.INTERNAL, Reason.PARSE_STALLED, Reason.PARSE_KILLED, Reason.PARSE_TIMEOUT}
)
"""Reasons of captures whose body was not parsed.

``INTERNAL`` is a fault of the crawler, and ``PARSE_STALLED`` one of the machine. The other two were
reported by two parse children in a row.
"""
_NO_BODY = frozenset({Reason.NOT_MODIFIED, Reason.TO_BE_CHECKED})

_KEY = 16  # bytes of host8 and url8
_LOOKED = meta_key("unparsed")


class UnparsedBody(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The location of a body, and why it was not parsed.

    ``tries`` counts the later parses that failed. ``is_seed``: its URL is a seed or the target of a
    seed's redirect. ``is_wanted``: an operator asked for another parse.
    """

    segment: str
    offset: int
    reason: Reason
    tries: int = 0
    is_seed: bool = False
    is_wanted: bool = False

    @property
    def waits(self) -> bool:
        """Whether it is parsed again at the next start."""
        if self.is_wanted or self.reason in (Reason.INTERNAL, Reason.PARSE_STALLED):
            return True
        return self.reason is Reason.PARSE_TIMEOUT and not self.tries

    @property
    def may_be_tried_now(self) -> bool:
        """Whether it may be parsed again in the run in which a parse failed."""
        return self.is_wanted or self.reason is Reason.PARSE_STALLED


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

    def find(self, is_meant: Callable[[UnparsedBody], bool]) -> list[bytes]:
        """The URLs of the bodies that are meant."""
        return [url for url, body in self._bodies.items() if is_meant(body)]

    def want(self, with_killed: bool) -> int:
        """Mark bodies for another parse, which an operator asked for; return their number.

        ``with_killed`` includes those that are not parsed again by themselves.
        """
        urls = self.find(lambda body: with_killed or body.waits)
        for url in urls:
            if not self._bodies[url].is_wanted:
                self.put(url, msgspec.structs.replace(self._bodies[url], is_wanted=True))
        return len(urls)

    def note_ended_lease(self, url: bytes, record: UrlRecord, done: Completed) -> None:
        """Add or remove the body of a URL whose lease ended; ``record`` is that of the URL."""
        if done.state is not UrlState.FETCHED or done.history is None:
            return
        if done.reason in NOT_PARSED:
            segment, offset = done.history.segment, done.history.offset
            is_seed = is_seed_record(record)
            self.put(url, UnparsedBody(segment, offset, done.reason, is_seed=is_seed))
        elif done.history.status == 200 and done.reason not in _NO_BODY:
            self.drop(url)

    def put(self, url: bytes, body: UnparsedBody) -> None:
        self._bodies[url] = body
        self._table.put(unparsed_key(url[:8], url[8:]), encode_record(body))

    def drop(self, url: bytes) -> None:
        """Remove a body that is parsed now, if it is here."""
        if self._bodies.pop(url, None) is not None:
            self._table.delete(unparsed_key(url[:8], url[8:]))

    def record_parsed(
        self,
        url: bytes,
        body: UnparsedBody,
        remark: Reason,
        markup: tuple[Statement, ...] = (),
    ) -> None:
        """Record that a body was parsed, with the new remark.

        ``markup`` is what the document says about the use of the page. A later 304 confirms it.
        """
        self.drop(url)
        self._remark(url, body.reason, remark, markup)

    def record_failed(self, url: bytes, body: UnparsedBody, reason: Reason) -> None:
        """Record that parsing a body failed again."""
        failed = msgspec.structs.replace(body, reason=reason, tries=body.tries + 1, is_wanted=False)
        self.put(url, failed)
        self._remark(url, body.reason, reason)

    def _remark(
        self, url: bytes, before: Reason, after: Reason, markup: tuple[Statement, ...] = ()
    ) -> None:
        """Change the remark on a fetched URL, unless it has another remark by now."""
        record = self._record(url)
        if record is None or record.state is not UrlState.FETCHED or record.reason is not before:
            return
        record.reason, record.detail = after, ""
        if markup and record.history is not None:
            record.history = msgspec.structs.replace(record.history, markup=markup)
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
            not any(self._counters.reasons.get(reason) for reason in NOT_PARSED)
            or self._table.get(_LOOKED) is not None
        ):
            return
        for url, body in _earlier(self._table):
            if url not in self._bodies:
                self.put(url, body)
        self._table.put(_LOOKED, b"")


def is_seed_record(record: UrlRecord) -> bool:
    """Whether a URL is a seed, or where the redirects of a seed lead."""
    return record.depth == 0 and record.kind in (LinkKind.SEED, LinkKind.REDIRECT)


def _earlier(table: Overlay) -> Iterator[tuple[bytes, UnparsedBody]]:
    for key, value in table.scan(b"U", prefix_end(b"U")):
        record = decode_url(value)
        history = record.history
        if (
            record.reason in NOT_PARSED
            and record.state is UrlState.FETCHED
            and history is not None
            and history.status == 200
        ):
            body = UnparsedBody(
                history.segment, history.offset, record.reason, is_seed=is_seed_record(record)
            )
            yield key[1 : 1 + _KEY], body
