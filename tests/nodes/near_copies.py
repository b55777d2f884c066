"""Judges near-duplicates after a history: fingerprints and verdicts arrived, each once, whatever
happened on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from judging import urls_of
from lycosa.base.model.parcel_items import Verdict
from lycosa.base.model.url_state import History
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import join_url
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.seen.simhash import MAX_DISTANCE
from lycosa.state.store.journal_rows import JournalRow


class _Page(NamedTuple):
    """A stored page with a text, and what its record says of it."""

    url: str
    history: History
    reason: Reason

    @property
    def order(self) -> tuple[int, str]:
        return self.history.date_us, self.url


def near_copies_are_told(tables: Iterable[KeyValue]) -> int:
    """Each page that is like an earlier one has a verdict, which names an earlier one that is
    like it. Returns how many have one.
    """
    pages: dict[str, _Page] = {}
    verdicts: dict[str, Verdict] = {}
    for table in tables:
        for host, _, record in urls_of(table):
            history = record.history
            if history is not None and history.simhash and not history.is_same:
                url = join_url("https" if record.secure else "http", host.host, record.target)
                pages[url] = _Page(url, history, record.reason)
        for _, value in table.scan(b"Y", prefix_end(b"Y")):
            verdict = msgspec.msgpack.decode(value, type=Verdict)
            verdicts[verdict.url] = verdict
    for url, verdict in verdicts.items():
        _is_right(verdict, pages[url], pages)
    originals = [page for page in pages.values() if page.url not in verdicts]
    for page in originals:
        assert page.reason is not Reason.NEAR_DUPLICATE, ("no verdict", page)
        for other in originals:
            distance = (page.history.simhash ^ other.history.simhash).bit_count()
            assert page is other or distance > MAX_DISTANCE, ("no verdict", page, other)
    return len(verdicts)


def rows_name_originals(rows: Iterable[JournalRow]) -> int:
    """What rows of sealed segments say is right, whenever the verdict came. Returns how many name
    an original.
    """
    stored = {(row.url, row.date_us): row for row in rows}
    near = [row for row in stored.values() if row.near_duplicate_of is not None]
    for row in near:
        named = row.near_duplicate_of
        assert named is not None
        original = stored[named.url, named.date_us]
        assert (row.simhash ^ original.simhash).bit_count() <= MAX_DISTANCE, (row, original)
        assert (original.date_us, original.url) < (row.date_us, row.url), (row, original)
    return len(near)


def _is_right(verdict: Verdict, page: _Page, pages: Mapping[str, _Page]) -> None:
    original = pages[verdict.original.url]
    distance = (verdict.simhash ^ original.history.simhash).bit_count()
    assert verdict.simhash == page.history.simhash, (verdict, page)
    assert verdict.distance == distance <= MAX_DISTANCE, (verdict, original)
    assert original.order < page.order, (verdict, original, page)
    assert verdict.original.record_id == original.history.record_id, (verdict, original)
    assert page.history.duplicate_of == original.url, (verdict, page)
    assert page.reason is Reason.NEAR_DUPLICATE or page.reason is not Reason.NONE, page
