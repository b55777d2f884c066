"""Applies changed refetch policies to the records of a partition, in slices between visits.

A page that was fetched has the time of its next fetch in its record, so rules that change later
would not reach it for weeks, and a page that is never fetched again would never be asked. The walk
reads the partition's records in the order of their keys, a bounded number at a time, and gives each
page the time that it has under the present rules. A row says up to which record they are applied,
and which version of the rules. It is in the same commit as the records it speaks of, so a worker
that is killed, or another that takes over, continues where the last commit was.

A record keeps its time if its interval is the same as before. One that would be due in the past
becomes due within its interval, at most an hour, at a moment that depends on its URL: otherwise
all of them would be due in one second. What waits in a queue is fetched first, also if its pages
are never fetched again from then on. A URL that was leased when the rules changed may end under the
old ones; it is moved at its end.

The walk also adds up what the pages of each host were promised (``every``), because it reads them
host by host. Hosts whose promises exceed their turns are in the row, the worst ones first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from lycosa.base.config.policy_classes import listing_of
from lycosa.base.config.refetch_policies import (
    PolicyKind,
    class_of,
    find_policy,
    policies_version,
    policy_book,
)
from lycosa.base.config.sections import RefetchSection
from lycosa.base.messages.progress import MAX_PROMISES, PromiseNote
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.url_parts import join_url
from lycosa.stages.frontier.due import DueQueue, is_probe_place
from lycosa.stages.frontier.listings import find_listing
from lycosa.stages.frontier.visit_state import VisitState, VisitStates
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    UrlRecord,
    decode_url,
    encode_record,
    encode_url,
    meta_key,
    prefix_end,
    url_key,
)

WALK_KEY = meta_key("policies")
KeptInterval = Callable[[RefetchSection, str, float, int, float | None, int], float]
"""The interval in seconds of a page under rules that changed since its last fetch.

Of its URL, its interval, its cell, the price by which looks at its host are scheduled, and the mark
in its record.
"""
MoveCell = Callable[[VisitState, bytes, History, History], None]
"""Counts a page of a host in another cell, by the hash of its URL."""
DelayOf = Callable[[VisitState], float]
"""The present delay of a host in seconds."""

_DAY_S = 86_400.0
_SPREAD_S = 3600.0
_NEVER = 0xFFFF_FFFF
_PROMISED = frozenset({UrlState.QUEUED, UrlState.FETCHED, UrlState.REDIRECTED})
_MOVED = frozenset({UrlState.FETCHED, UrlState.REDIRECTED})


class WalkRow(msgspec.Struct, array_like=True):
    """How far the rules of a version are applied.

    ``at`` is host8 and url8 of the last record that was looked at. ``promised`` is what the pages
    of its host up to there were promised, in fetches a day.
    """

    version: bytes
    at: bytes = b""
    is_done: bool = False
    seen: int = 0
    moved: int = 0
    promised: float = 0.0
    promises: list[PromiseNote] = []


_decode = msgspec.msgpack.Decoder(WalkRow).decode


def walk_row(get: Callable[[bytes], bytes | None]) -> WalkRow:
    """The row of a partition, whose table ``get`` reads.

    Without one no rules were ever applied, and the version is that of none.
    """
    value = get(WALK_KEY)
    return _decode(value) if value is not None else WalkRow(b"", is_done=True)


class PolicyWalk:
    """The walk of one partition."""

    def __init__(
        self,
        table: Overlay,
        due: DueQueue,
        visits: VisitStates,
        move_cell: MoveCell,
        kept_interval: KeptInterval,
        look_at: Callable[[bytes], float | None],
        ahead_s: Callable[[], float],
    ) -> None:
        """``ahead_s`` returns the seconds by which crawl time is ahead of the wall clock."""
        self._table, self._due, self._visits, self._move_cell = table, due, visits, move_cell
        self._kept_interval, self._look_at, self._ahead_s = kept_interval, look_at, ahead_s
        self._section = RefetchSection()
        self.late: set[bytes] = set()
        """host8 and url8 of leased URLs that are moved when their leases end."""
        self.row = walk_row(table.get)

    def __repr__(self) -> str:
        return f"<PolicyWalk {self.row}>"

    @property
    def is_done(self) -> bool:
        """Whether the present rules are applied to all records."""
        return self.row.is_done

    def follow(self, section: RefetchSection, leased: Collection[bytes]) -> bool:
        """Follow these rules from now on; return whether there is something to walk.

        ``leased`` are host8 and url8 of the URLs that are being fetched. A walk of the same version
        continues. Nothing is written, because a worker may begin with older settings than it will
        be sent.
        """
        version = policies_version(section)
        if version != policies_version(self._section):
            self.late.update(leased)
        self._section = section
        if version != self.row.version:
            # A walk that was begun by settings of which nothing was written is forgotten with them.
            stored = walk_row(self._table.get)
            self.row = stored if stored.version == version else WalkRow(version)
        return not self.row.is_done

    def step(self, now: float, most: int, delay_of: DelayOf) -> None:
        """Apply the rules to the next ``most`` records; ``now`` is crawl time."""
        row = self.row
        rows = list(self._table.scan(b"U" + _after(row.at), prefix_end(b"U"), most))
        removed: dict[int, set[bytes]] = {}
        added: list[tuple[int, bytes]] = []
        host: VisitState | None = None
        for key, value in rows:
            url = key[1:]
            if url[:8] != row.at[:8]:
                self._finish_host(row.at[:8], host, delay_of)
            if host is None or host.host8 != url[:8]:
                host = self._visits.find_host(url[:8])
            row.at, row.seen = url, row.seen + 1
            if host is None:
                continue  # the audit reports records without a host
            record = decode_url(value)
            self._promise(host, record)
            before = record.due_at
            if not self._move(host, url, record, now):
                continue
            if record.due_at != before:
                row.moved += 1
                if before:
                    removed.setdefault(before, set()).add(url)
                if record.due_at:
                    added.append((record.due_at, url))
            self._table.put(url_key(url[:8], url[8:]), encode_url(record))
        self._due.remove_all(removed)
        for due_at, url in added:
            self._due.add_due(due_at, url)
        if len(rows) < most:
            self._finish_host(row.at[:8], host, delay_of)
            row.is_done = True
        self._table.put(WALK_KEY, encode_record(row))

    def correct_late(self, host: VisitState, url: bytes, record: UrlRecord) -> None:
        """Give a URL whose lease ended the time of the present rules.

        Before it enters the schedule. ``url`` is host8 and url8.
        """
        if url in self.late:
            self.late.discard(url)
            if record.history is not None:
                self._move(host, url, record, record.history.fetched_at + self._ahead_s())

    def note_late(self, url: bytes) -> None:
        """Move a leased URL when its lease ends (``correct_late``)."""
        self.late.add(url)

    def move_one(self, host: VisitState, url: bytes, record: UrlRecord, now: float) -> None:
        """Give one record that is stored afterwards, and the schedule, the time of its policy.

        ``now`` is crawl time.
        """
        before = record.due_at
        if self._move(host, url, record, now) and record.due_at != before:
            if before:
                self._due.remove_due(before, url)
            if record.due_at:
                self._due.add_due(record.due_at, url)

    def is_moved(self, host: VisitState, url: bytes, record: UrlRecord) -> bool:
        """Whether ``move_one`` would change a record."""
        return self._ruled(host, url, record) is not None

    def _ruled(
        self, host: VisitState, url: bytes, record: UrlRecord
    ) -> tuple[int, int, bool] | None:
        """The interval of a record, its class, and whether it keeps its time; ``None``: no change.

        With an interval of -1 a sitemap is to be read again.
        """
        history = record.history
        if record.state not in _MOVED or history is None:
            return None
        name = join_url("https" if record.secure else "http", host.name, record.target)
        look = self._look_at(host.host8)
        interval_s = float(history.interval_s)
        section, cell, listed = self._section, history.cell, record.listed
        interval = int(self._kept_interval(section, name, interval_s, cell, look, listed))
        number = class_of(section, name, listed)
        if listing_of(history.policy):
            # A sitemap or feed has its own schedule, unless it is not fetched again.
            number, interval = history.policy, interval and (history.interval_s or interval)
            if interval and self._lacks_marks(url, name):
                return -1, number, False
        keeps_time = interval == history.interval_s and bool(interval) == bool(record.due_at)
        if is_probe_place(record.due_at):
            # Only pages that are judged by their value wait as probes.
            keeps_time = keeps_time and find_policy(section, name, listed).kind is PolicyKind.VALUE
        if keeps_time and number == history.policy:
            return None
        return interval, number, keeps_time

    def _move(self, host: VisitState, url: bytes, record: UrlRecord, now: float) -> bool:
        """Give a record the interval and the class of its policy; return whether it changed."""
        history, ruled = record.history, self._ruled(host, url, record)
        if history is None or ruled is None:
            return False
        interval, number, keeps_time = ruled
        if interval < 0:
            return self._read_again(history, url, record, now)
        record.history = msgspec.structs.replace(history, interval_s=interval, policy=number)
        self._move_cell(host, url[8:], history, record.history)
        if not keeps_time:
            record.due_at = self._due_time(history.fetched_at, interval, url, now)
        return True

    def _lacks_marks(self, url: bytes, name: str) -> bool:
        """Whether a rule names this sitemap or feed, and its pages do not have its mark yet."""
        mark = policy_book(self._section).mark_of(name)
        row = find_listing(self._table, url[:8], url[8:]) if mark else None
        return row is not None and row.mark != mark

    def _read_again(self, history: History, url: bytes, record: UrlRecord, now: float) -> bool:
        """Let a sitemap be read soon and as a whole: a 304 would not give its pages their mark."""
        record.history = msgspec.structs.replace(
            history, etag="", last_modified="", interval_s=history.interval_s or int(_SPREAD_S)
        )
        record.due_at = min(record.due_at or _NEVER, self._due_time(0, int(_SPREAD_S), url, now))
        return True

    def _due_time(self, fetched_at: int, interval: int, url: bytes, now: float) -> int:
        if not interval:
            return 0
        due_at = int(fetched_at + interval + self._ahead_s())
        if due_at > now:
            return due_at
        spread = max(int(min(interval, _SPREAD_S)), 1)
        return int(now) + 1 + int.from_bytes(url[8:12], "big") % spread

    def _promise(self, host: VisitState, record: UrlRecord) -> None:
        if record.state in _PROMISED:
            name = join_url("https" if record.secure else "http", host.name, record.target)
            policy = find_policy(self._section, name, record.listed)
            if policy.kind is PolicyKind.EVERY:
                self.row.promised += _DAY_S / policy.seconds

    def _finish_host(self, host8: bytes, host: VisitState | None, delay_of: DelayOf) -> None:
        """Compare what was promised at a host with its turns, when all its records were read."""
        row, promised = self.row, self.row.promised
        row.promised = 0.0
        if not promised:
            return
        if host is None or host.host8 != host8:
            host = self._visits.find_host(host8)
        delay = delay_of(host) if host is not None else 0.0
        if host is not None and promised * delay > _DAY_S:
            note = PromiseNote(host.name, round(promised, 1), round(_DAY_S / delay, 1))
            row.promises = worst_promises([*row.promises, note])


def worst_promises(notes: list[PromiseNote]) -> list[PromiseNote]:
    """The hosts whose promises exceed their turns by most."""
    return sorted(notes, key=lambda each: each.turns / each.promised)[:MAX_PROMISES]


def _after(at: bytes) -> bytes:
    return at + b"\0" if at else b""
