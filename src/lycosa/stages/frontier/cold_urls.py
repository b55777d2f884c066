"""The cold URLs of a partition: which records leave the table, and which come back.

**Leaving.** A walk reads the records in the order of their keys, a bounded number at a time, and
gathers those that nothing waits for (``may_go``). When there are enough for a file, or the walk is
at the end, the owner has them written, and ``remove`` deletes their rows: in one commit with the
row that names the file. A record that changed while the file was written stays, because its bytes
are not those in the file any more; the row in the table then hides the one in the file. A row says
how far the walk is, so a restart continues there.

**What never goes.** URLs that are queued or parked, or whose next fetch is due soon. Sitemaps and
feeds. URLs with another row that expects the record: a stored body that is to be parsed
again, signals, a list, an outside lease, a demand, a render, a crash.

**Pages that are due one day** stay in the schedule, whose rows have 16 bytes for each, and so do
probes. When the time has come, the record is not in the table, and the URL comes back. Meanwhile it
is counted by its cell as before (``cold_cells``). Pages that are never due leave these counts.

**Coming back.** URL-seen knows cold URLs. Of the known links in a batch, ``ripe_places`` gives
those to URLs that are cold for long enough; a guess is no find. A URL that was refused as a guess
comes back with the first link to it, as an ordinary one. The find is noted in a row (``r``),
because the file is read outside the loop. When it was read, the record gets its row again and the
URL is queued, with its history. A crash before that repeats the reading.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from lycosa.base.config.policy_classes import LISTINGS
from lycosa.base.config.sections import ColdSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.source_truth import SignalSource
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.host_grids import HostHistograms
from lycosa.stages.frontier.visit_state import VisitStates
from lycosa.state.cold.cold_rows import (
    ColdFileRow,
    ColdHashes,
    ColdNote,
    ColdRecord,
    ReturnCause,
    ReturnRow,
    cold_files,
    cold_key,
    return_key,
    returning_urls,
)
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    CRASH_PREFIX,
    UrlRecord,
    announced_key,
    decode_url,
    demand_key,
    encode_record,
    listing_key,
    meta_key,
    outside_key,
    prefix_end,
    render_key,
    unparsed_key,
    url_key,
)
from lycosa.state.seen.seen_port import Hashes, Mask
from lycosa.state.shard.counters import Counters, count, uncount

FILE_RECORDS = 8192
"""Maximum number of records in a file, and of rows that one commit deletes: 0.2 MB of the log."""
COLD_WALK_KEY = meta_key("cold")
NEVER_SO_DEEP = 1 << 30
"""The depth of what is not found by a link."""
_REMOVED = 512  # rows that are compared and deleted in one step of the loop: 5 ms
_DAY_S = 86_400
_PASSES = 8  # in the time after which a record goes
_SHORTEST_PASS_S = 3600.0
_AT_ONCE = frozenset({LinkKind.SEED, LinkKind.GIVEN})
RESUMING = frozenset({ReturnCause.DUE, ReturnCause.SIGNAL, ReturnCause.POLICY})
"""Causes after which a page has the state of its record; after the others it is queued."""
_WEIGHTS = {
    # What was given counts more than a link: it reopens a host. A page that is due is fetched.
    cause: weight
    for weight, cause in enumerate(
        (
            ReturnCause.SIGNAL,
            ReturnCause.POLICY,
            ReturnCause.DUE,
            ReturnCause.LINK,
            ReturnCause.GIVEN,
            ReturnCause.OPERATOR,
        )
    )
}
_ENDED = frozenset(
    {
        UrlState.FETCHED,
        UrlState.REDIRECTED,
        UrlState.FAILED,
        UrlState.REFUSED,
        UrlState.RETIRED,
        UrlState.GONE,
    }
)
_KEEPING = tuple(
    key[:1]
    for key in (
        unparsed_key(b"", b""),
        announced_key(b""),
        listing_key(b""),
        outside_key(b"", b""),
        demand_key(b""),
        render_key(b""),
        CRASH_PREFIX,
    )
)
"""Prefixes of rows whose keys are those of a URL, and with which its record stays."""


class ColdWalkRow(msgspec.Struct, array_like=True):
    """How far the walk is: host8 and url8 of the last record that was looked at.

    ``began`` is when this pass began (crawl time); 0 if none is in progress, and ``next_at`` then
    is when the next one begins. ``policies`` is the version of the refetch policies that all cold
    records follow; those of ``applying`` are applied to the files up to the number ``ruled``.
    """

    at: bytes = b""
    began: int = 0
    next_at: int = 0
    policies: bytes = b""
    applying: bytes = b""
    ruled: int = 0


class _NoHashes:
    """No URL is cold."""

    def __len__(self) -> int:
        return 0

    def ripe(self, hashes: Hashes, latest: int) -> Mask:
        return np.zeros(len(hashes), dtype=np.bool_)

    def find(self, url8: bytes) -> ColdNote | None:
        return None

    def forget(self, url8: bytes) -> None:
        pass


class ColdUrls:
    """One per partition, over its table."""

    def __init__(
        self,
        table: Overlay,
        visits: VisitStates,
        counters: Counters,
        leased: Container[bytes],
        grids: HostHistograms,
        section: ColdSection,
    ) -> None:
        """``leased`` has host8 and url8 of the open leases."""
        self._table, self._visits, self._counters = table, visits, counters
        self._leased, self._grids, self._section = leased, grids, section
        self.hashes: ColdHashes = _NoHashes()
        """Which URLs are cold; set by the owner of the partition, who has the files."""
        self.files = cold_files(table)
        self.bytes = sum(row.size for row in self.files.values())
        self.returning = returning_urls(table)
        value = table.get(COLD_WALK_KEY)
        self.row = (
            msgspec.msgpack.decode(value, type=ColdWalkRow) if value is not None else ColdWalkRow()
        )
        self._gathered: list[ColdRecord] = []
        self.wake: Callable[[], None] = lambda: None
        """Called when a URL is to come back; set by what reads the files."""

    def __repr__(self) -> str:
        return f"<ColdUrls files={len(self.files)} returning={len(self.returning)} {self.row}>"

    @property
    def is_used(self) -> bool:
        """Whether there are cold URLs, or may be some."""
        return bool(self._section.after_s or self.files or self.returning)

    # -- leaving

    def next_step(self, now: float) -> float:
        """Crawl time at which the walk has something to do; infinity if nothing ever goes."""
        if not self._section.after_s:
            return float("inf")
        return now if self.row.began else self.row.next_at

    def step(self, now: float, most: int) -> Sequence[ColdRecord]:
        """Look at the next ``most`` records; return what is to be written to a file now.

        What is returned is sorted, and is not returned again in this pass.
        """
        row, gathered = self.row, self._gathered
        if not row.began:
            row.began, row.at = int(now), b""
        start = b"U" + row.at + (b"\0" if row.at else b"")
        rows = list(self._table.scan(start, prefix_end(b"U"), most))
        before, latest = now - self._section.after_s, now + self._section.after_s
        found = [
            (key[1:], value, record)
            for key, value in rows
            if may_go(record := decode_url(value), before, latest)
        ]
        kept = self._kept(found[0][0], found[-1][0]) if found else frozenset()
        host8, host = b"", None
        for url, value, record in found:
            if url[:8] != host8:
                host8, host = url[:8], self._visits.find_host(url[:8])
            # The audit reports records without a host.
            if host is not None and url not in kept and url not in self._leased:
                gathered.append(ColdRecord(url, host.name, value, record))
        if rows:
            row.at = rows[-1][0][1:]
        is_end = len(rows) < most
        if is_end:
            after_s = self._section.after_s
            pass_s = max(after_s / _PASSES, min(after_s, _SHORTEST_PASS_S))
            row.at, row.began, row.next_at = b"", 0, int(row.began + pass_s) + 1
            self.save_walk()
        if len(gathered) < FILE_RECORDS and not is_end:
            return ()
        full, self._gathered = gathered[:FILE_RECORDS], gathered[FILE_RECORDS:]
        if is_end:
            self._gathered = []  # the next pass finds them again
        return full if len(full) >= self._section.least_records else ()

    def _kept(self, first: bytes, last: bytes) -> frozenset[bytes]:
        """The URLs between two others, both included, whose other rows keep their records."""
        return frozenset(
            key[1:17]
            for prefix in _KEEPING
            for key, _ in self._table.scan(prefix + first, prefix + last + b"\0")
        )

    def remove(
        self, number: int, file: ColdFileRow, gathered: Sequence[ColdRecord]
    ) -> Iterator[list[ColdRecord]]:
        """Delete the rows of what a file has, and name the file; gives those deleted in a step.

        All steps belong to one commit: no commit may be cut between them.
        """
        removed = 0
        for at in range(0, len(gathered), _REMOVED):
            part = gathered[at : at + _REMOVED]
            present = self._table.get_many([url_key(each.url[:8], each.url[8:]) for each in part])
            gone = [
                each
                for each, value in zip(part, present, strict=True)
                # A record that changed meanwhile stays, and hides the one in the file.
                if value == each.value and each.url not in self._leased
            ]
            for each in gone:
                self._remove_one(each)
            removed += len(gone)
            yield gone
        if removed:
            self.files[number] = file = msgspec.structs.replace(file, removed=removed)
            self.bytes += file.size
            self._table.put(cold_key(number), encode_record(file))
            self.save_walk()

    def is_hidden(self, urls: Sequence[bytes]) -> list[bool]:
        """Whether a row of the table hides what files have of these URLs."""
        found = self._table.get_many([url_key(url[:8], url[8:]) for url in urls])
        return [value is not None for value in found]

    def name_files(self, changed: Mapping[int, ColdFileRow | None]) -> None:
        """Write rows of files, and delete those of files that were merged away."""
        for number, row in changed.items():
            self.bytes -= self.files.pop(number).size if number in self.files else 0
            if row is None:
                self._table.delete(cold_key(number))
            else:
                self.files[number] = row
                self.bytes += row.size
                self._table.put(cold_key(number), encode_record(row))

    def _remove_one(self, each: ColdRecord) -> None:
        self._table.delete(url_key(each.url[:8], each.url[8:]))
        count(self._counters.cold, int(each.record.state))
        history = each.record.history
        if history is not None and history.cell and each.record.due_at:
            self._grids.move_cold(each.url, history, is_cold=True)
        elif history is not None and history.cell:
            host = self._visits.find_host(each.url[:8])
            bare = msgspec.structs.replace(history, cell=0)
            if host is not None:
                self._grids.move_cell(host, each.url[8:], history, bare)

    def note_policies(self, version: bytes) -> None:
        """Note that all cold records follow this version of the refetch policies."""
        self.row.policies, self.row.applying, self.row.ruled = version, b"", 0
        self.save_walk()

    def save_walk(self) -> None:
        """Write how far the walk is."""
        self._table.put(COLD_WALK_KEY, encode_record(self.row))

    # -- coming back

    def ripe_places(self, hashes: Hashes, now: float) -> list[int]:
        """The places of those hashes whose URLs a link brings back."""
        latest = int((now - self._section.return_after_s) // _DAY_S)
        return np.flatnonzero(self.hashes.ripe(hashes, latest)).tolist()

    def note_given(self, batch: Sequence[Discovered], now: float) -> None:
        """Note those of some known URLs that are cold and were given: these come back at once.

        A page that is due one day keeps its time, as one in the table does.
        """
        for found in batch:
            if found.kind in _AT_ONCE:
                note = self.hashes.find(found.url8)
                if note is not None and not note.is_due:
                    why = ReturnCause.GIVEN
                    self.note_return(found.host8 + found.url8, why, found.depth, now)

    def note_confirmed(self, found: Discovered, now: float) -> None:
        """Note a URL that was refused as a guess, if it is cold: it was found as a link now."""
        note = self.hashes.find(found.url8)
        if note is not None and note.reason == Reason.SPECULATIVE_MISSES:
            self.note_return(found.host8 + found.url8, ReturnCause.LINK, found.depth, now)

    def note_due(self, url: bytes, now: float) -> None:
        """Note a URL that the schedule had, and of which the table has no record."""
        # Not by the hashes: the store may have failed when they were to be opened.
        if self.files:
            self.note_return(url, ReturnCause.DUE, NEVER_SO_DEEP, now)

    def note_signal(self, url: bytes, source: SignalSource, at: int, now: float) -> bool:
        """Note a cold URL that changed at ``at`` according to a source; return whether it counts.

        It does if that is later than its last fetch can be. Signals before were taken in while its
        record was in the table: it was there for ``cold.after_s`` after its fetch.
        """
        note = self.find(url)
        if note is None or not note.is_due or at < note.day * _DAY_S - self._section.after_s:
            return False
        signal = ReturnRow(ReturnCause.SIGNAL, NEVER_SO_DEEP, int(now), int(source), at)
        return self._note(url, signal)

    def note_return(self, url: bytes, why: ReturnCause, depth: int, now: float) -> bool:
        """Note that a cold URL is to come back; return false if it is not cold any more."""
        return self._note(url, ReturnRow(why, depth, int(now)))

    def _note(self, url: bytes, row: ReturnRow) -> bool:
        if self._table.get(url_key(url[:8], url[8:])) is not None:
            self.hashes.forget(url[8:])
            return False
        known = self.returning.get(url)
        # The store may take long, and meanwhile there may be another cause.
        if known is None or _WEIGHTS[row.why] > _WEIGHTS[known.why]:
            if known is not None:
                row = msgspec.structs.replace(row, depth=min(row.depth, known.depth))
            self.returning[url] = row
            self._table.put(return_key(url), encode_record(row))
            self.wake()
        return True

    def find(self, url: bytes) -> ColdNote | None:
        """What is known of a URL (host8 and url8) whose record is cold."""
        note = self.hashes.find(url[8:])
        if note is None or self._table.get(url_key(url[:8], url[8:])) is not None:
            return None
        return note

    def take_back(self, url: bytes, value: bytes | None) -> tuple[UrlRecord, ReturnRow] | None:
        """Count a URL among those in the table again; ``value`` is its record in the file.

        Returns the record, which the caller stores, and why it comes back; ``None`` if it waits
        already. After an import all records are rows of the table again: one that is neither
        queued nor in the schedule comes back all the same.
        """
        row = self.returning.pop(url)
        self._table.delete(return_key(url))
        self.hashes.forget(url[8:])
        present = self._table.get(url_key(url[:8], url[8:]))
        if present is not None:
            record = decode_url(present)
            is_resumed = row.why in RESUMING
            is_waiting = record.state not in _ENDED or (record.due_at and not is_resumed)
            return None if is_waiting else (record, row)
        if value is None:
            return None
        record = decode_url(value)
        uncount(self._counters.cold, int(record.state))
        if record.history is not None and record.history.cell:
            self._grids.move_cold(url, record.history, is_cold=False)
        return record, row


def may_go(record: UrlRecord, before: float, latest: float) -> bool:
    """Whether a record may go to a file: nothing happened to it since ``before``, nor will soon.

    That is: it is not due up to ``latest``. A probe has no time. Of a URL that failed or was
    refused without a capture, the first time is that when it was found.
    """
    history = record.history
    if record.state not in _ENDED or 0 < record.due_at <= latest or record.found_at > before:
        return False
    if history is None:
        return True
    return history.fetched_at <= before and history.policy not in LISTINGS
