"""Verdicts that pages of a partition are near-duplicates, which come after the page is stored.

The partition keeps the verdict of each such page (``Y`` rows) and states it in the record of the
URL. A page may get several, from the owners of its buckets. The earliest original counts, in
whatever order they arrive. A verdict about content that the page no longer has changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from lycosa.base.model.capture import Original
from lycosa.base.model.parcel_items import Verdict
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.lease import Lease
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    UrlRecord,
    alike_key,
    decode_url,
    encode_record,
    encode_url,
    url_key,
)
from lycosa.state.shard.counters import Counters

_decode = msgspec.msgpack.Decoder(Verdict).decode


class AlikePages:
    """The verdicts about one partition's pages. ``leased`` are its open leases."""

    def __init__(
        self,
        table: Overlay,
        counters: Counters,
        leased: Mapping[bytes, Lease],
        note_copy: Callable[[bytes, bytes, UrlRecord], None] = lambda _host8, _url8, _record: None,
    ) -> None:
        """``note_copy`` is called with a page that had counted as none."""
        self._table, self._counters, self._leased = table, counters, leased
        self._note_copy = note_copy

    def note_verdict(self, verdict: Verdict) -> None:
        """Keep a verdict if the page still has this content, and no earlier original is known."""
        host8, url8 = hash8(host_of(verdict.url)), hash8(verdict.url)
        value = self._table.get(url_key(host8, url8))
        record = decode_url(value) if value is not None else None
        if (
            record is None
            or record.history is None
            or record.history.simhash != verdict.simhash
            or record.history.is_same  # its body is that of another page, which says more
        ):
            return
        original, was_copy = self.keep_verdict(verdict).original, record.history.duplicate_of
        record.history = msgspec.structs.replace(record.history, duplicate_of=original.url)
        if record.state is UrlState.FETCHED and record.reason is Reason.NONE:
            record.reason = Reason.NEAR_DUPLICATE
            self._counters.move_reason(Reason.NONE, Reason.NEAR_DUPLICATE)
        self._table.put(url_key(host8, url8), encode_url(record))
        if not was_copy:
            self._note_copy(host8, url8, record)
        if (lease := self._leased.get(host8 + url8)) is not None:
            # Otherwise the end of a lease without a capture would restore the old history.
            lease.record.history = record.history

    def keep_verdict(self, verdict: Verdict) -> Verdict:
        """Keep a verdict, or the one about the same content that is kept already and counts."""
        key = alike_key(hash8(host_of(verdict.url)), hash8(verdict.url))
        known = self._table.get(key)
        if known is not None:
            before = _decode(known)
            if before.simhash == verdict.simhash and before.rank < verdict.rank:
                return before
        self._table.put(key, encode_record(verdict))
        return verdict


def find_alike(get: Callable[[bytes], bytes | None], url: str, simhash: int) -> Original | None:
    """The original of a page with this content, by the verdict in its partition's table."""
    value = get(alike_key(hash8(host_of(url)), hash8(url)))
    verdict = _decode(value) if value is not None else None
    return verdict.original if verdict is not None and verdict.simhash == simhash else None
