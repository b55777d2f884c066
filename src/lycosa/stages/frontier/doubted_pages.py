"""Makes pages due again whose host turned out to answer 304 for pages that have changed.

Each of them was confirmed by an answer that is not believed any more, and might keep an outdated
copy for the rest of its interval. They are found in the order of their keys, some at each answer
of the host, and are fetched without validators. The host's record says how far this is, in the same
commit, so it continues after a crash and at another owner.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.due import DueQueue
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import decode_url, encode_url, prefix_end, url_key
from lycosa.state.shard.counters import Counters

_FIRST = b"\0"
_READ = 100  # records at once: 2 ms
_STEPS = 5  # of them, until one has a page to fetch
_SPREAD_S = 300  # so that not all of them are due in one second
_CONFIRMED = Reason.NOT_MODIFIED


class DoubtedPages:
    """One per partition."""

    def __init__(self, table: Overlay, due: DueQueue, counters: Counters) -> None:
        self._table, self._due, self._counters = table, due, counters

    @staticmethod
    def begin(host: VisitState) -> None:
        """Begin with the pages of a host whose validators were just found to hide changes."""
        assert host.record.validators is not None
        host.record.validators = msgspec.structs.replace(host.record.validators, doubted=_FIRST)

    def step(self, host: VisitState, now: float) -> None:
        """Make the next pages of the host due; ``now`` is crawl time. Its record changes."""
        for _ in range(_STEPS):
            counts = host.record.validators
            if counts is None or not counts.doubted:
                return
            begin, end = b"U" + host.host8 + counts.doubted, prefix_end(b"U" + host.host8)
            rows = list(self._table.scan(begin, end, _READ))
            found = sum(self._doubt(key[1:], value, now) for key, value in rows)
            at = rows[-1][0][9:] + b"\0" if len(rows) == _READ else b""
            host.record.validators = msgspec.structs.replace(counts, doubted=at)
            if found:
                return

    def _doubt(self, url: bytes, value: bytes, now: float) -> bool:
        """Make a page due if a 304 was its last answer; return whether it was."""
        record = decode_url(value)
        is_confirmed = record.state is UrlState.FETCHED and record.reason is _CONFIRMED
        if not is_confirmed or not record.due_at:
            return False
        self._counters.move_reason(record.reason, Reason.TO_BE_CHECKED)
        record.reason = Reason.TO_BE_CHECKED
        due_at = int(now) + 1 + int.from_bytes(url[8:12], "big") % _SPREAD_S
        if due_at < record.due_at:
            self._due.remove_due(record.due_at, url)
            record.due_at = due_at
            self._due.add_due(due_at, url)
        self._table.put(url_key(url[:8], url[8:]), encode_url(record))
        return True
