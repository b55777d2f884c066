"""Which URLs may have killed a worker: it counts successive crashes with an unfinished attempt.

A crash leaves hundreds of attempts unfinished, and at most one of them is the cause, so each of
them is only a *suspect*. The worker fetches suspects late and one at a time. If one of them kills
it again, only that one is in flight and reaches a count of two: a **poison page**. An attempt that
ends clears its URL.

A count is a row of the partition that owns the URL's host, so it moves with the partition and
changes in the ordinary commits. The order of these commits makes this safe. Crashes are counted
before any request, and the first commit comes before the first request. A suspect is requested
after one commit and followed by another. An attempt that ends clears its URL in the commit that
contains its outcome.

When a machine is lost, its attempt log is lost with it. So a worker that starts *carefully* names
each URL in a commit before its request is sent: the URLs that a dead worker had named are those
that may have killed it.

Earlier versions kept the counts of all workers of a crawl in ``crashes.json``; each partition takes
over its counts from there once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Annotated

import msgspec

from lycosa.base.model.end import PreviousEnd
from lycosa.base.system.frames import UNREADABLE
from lycosa.base.urls.identity import hash8, host_of
from lycosa.state.attempts.attempt_files import Attempt
from lycosa.state.attempts.read import crashed_attempts
from lycosa.state.attempts.storing import left_storing
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    CRASH_PREFIX,
    crash_key,
    encode_record,
    meta_key,
    prefix_end,
)

_COUNTED_KEY = meta_key("crashes")


class Suspicion(IntEnum):
    """How to treat a URL that was in flight at crashes.

    The value is the minimum number of crashes.
    """

    NONE = 0  # like any other
    SUSPECT = 1  # late, with nothing else in flight
    POISON = 2  # once more, alone, every limit tightened
    HOPELESS = 3  # not again: it fails as ``crashed_worker``


class _Crashes(msgspec.Struct, array_like=True):
    """A row of the table for one URL.

    ``crashes`` counts successive crashes at which the URL was in flight. ``is_named`` says that a
    careful worker has named the URL and has not yet received its outcome.
    """

    url: str
    crashes: int = 0
    is_named: bool = False


_DECODER = msgspec.msgpack.Decoder(_Crashes)
_COUNTED_DECODER = msgspec.msgpack.Decoder(dict[int, str])


class _Stored(msgspec.Struct):
    """The content of ``crashes.json``.

    It has the crashes by URL and, for each worker, the run whose crash was counted last.
    """

    crashes: dict[str, Annotated[int, msgspec.Meta(ge=1)]] = {}
    counted: dict[str, str] = {}


class CrashCounts:
    """The counts for one worker's partitions, with their ``tables`` by number.

    ``partition_of`` returns the partition of a host; ``folder`` may contain ``crashes.json``. The
    constructor blocks.
    """

    def __init__(
        self, tables: Mapping[int, Overlay], partition_of: Callable[[str], int], folder: Path
    ) -> None:
        self._tables, self._partition_of = tables, partition_of
        self._rows: dict[str, _Crashes] = {}
        # for each partition and worker: the run whose crash was counted last
        self._counted: dict[int, dict[int, str]] = {}
        self.has_news = False
        """Whether something was counted, so that a commit is due before the first request."""
        without: set[int] = set()
        for number, table in tables.items():
            self._rows.update(
                (row.url, row)
                for _, value in table.scan(CRASH_PREFIX, prefix_end(CRASH_PREFIX))
                if (row := _read(value))
            )
            counted = table.get(_COUNTED_KEY)
            self._counted[number] = _COUNTED_DECODER.decode(counted) if counted is not None else {}
            if counted is None:
                without.add(number)
        if without and (old := _load(folder / "crashes.json")) is not None:
            self._take_over(old, without)

    def after_restart(
        self, unfinished: Iterable[Attempt], previous: PreviousEnd = PreviousEnd.CRASH
    ) -> None:
        """Count the ``unfinished`` attempts at this worker's hosts.

        ``previous`` says how the worker before this one ended, and so which URLs are suspects. Call
        it before any new attempt log is opened. A run that was counted already changes nothing.
        """
        # Named URLs count even if the attempt log is lost with its machine. Unnamed ones count only
        # after a crash on this machine, for which the log proves that they were in flight.
        accused = (
            {row.url for row in self._rows.values() if row.is_named}
            if previous is not PreviousEnd.ORDERLY
            else set()
        )
        told: dict[int, dict[int, str]] = {}
        for attempt in unfinished:
            number = self._partition_of(attempt.host)
            if self._counted[number].get(attempt.worker) != attempt.run:
                told.setdefault(number, {})[attempt.worker] = attempt.run
                if previous is PreviousEnd.CRASH:
                    accused.add(attempt.url)
        for number, runs in told.items():
            self._counted[number].update(runs)
            self._tables[number].put(_COUNTED_KEY, encode_record(self._counted[number]))
        # the names have been evaluated; the next crash must not count the same URLs again
        for url in [row.url for row in self._rows.values() if row.is_named]:
            self.unname_urls((url,))
        for url in accused:
            row = self._rows.setdefault(url, _Crashes(url))
            row.crashes += 1
            self._put(row)
        self.has_news = self.has_news or bool(accused or told)

    @property
    def has_suspects(self) -> bool:
        """Whether any URL was in flight at a crash and has not ended an attempt since."""
        return bool(self._rows)

    def suspects(self) -> set[str]:
        """The URLs that were in flight at a crash and have not ended an attempt since."""
        return {row.url for row in self._rows.values() if row.crashes}

    def suspicion_of(self, url: str) -> Suspicion:
        """How to treat a URL; costs one dictionary lookup."""
        row = self._rows.get(url)
        return Suspicion.NONE if row is None else Suspicion(min(row.crashes, Suspicion.HOPELESS))

    def name_urls(self, urls: Iterable[str]) -> None:
        """Record that one of ``urls`` is requested next. Commit this before the request.

        If the worker dies before ``unname_urls``, these URLs become suspects.
        """
        for url in urls:
            row = self._rows.setdefault(url, _Crashes(url))
            row.is_named = True
            self._put(row)

    def unname_urls(self, urls: Iterable[str]) -> None:
        """Record that the requests of ``urls`` have an outcome, whatever it is."""
        for url in urls:
            row = self._rows.get(url)
            if row is not None and row.crashes:
                row.is_named = False
                self._put(row)
            else:
                self.clear_suspicion(url)

    def clear_suspicion(self, url: str) -> None:
        """Clear a URL of which an attempt has ended.

        Called when the commit with its outcome is cut.
        """
        if self._rows.pop(url, None) is not None:
            self._table_of(url).delete(_key(url))

    def _put(self, row: _Crashes) -> None:
        self._table_of(row.url).put(_key(row.url), encode_record(row))

    def _table_of(self, url: str) -> Overlay:
        return self._tables[self._partition_of(host_of(url))]

    def _take_over(self, old: _Stored, without: set[int]) -> None:
        """Copy the counts for the hosts of these partitions from ``crashes.json``.

        Each partition stores that it was done, so it happens only once.
        """
        runs = {int(worker): run for worker, run in old.counted.items() if worker.isdecimal()}
        for number in without:
            self._counted[number] = dict(runs)
            self._tables[number].put(_COUNTED_KEY, encode_record(runs))
        for url, crashes in old.crashes.items():
            try:
                number = self._partition_of(host_of(url))
            except (ValueError, IndexError):
                continue  # not a URL
            if number in without and url not in self._rows:
                row = self._rows[url] = _Crashes(url, crashes)
                self._put(row)
        self.has_news = True


def _key(url: str) -> bytes:
    return crash_key(hash8(host_of(url)), hash8(url))


def _read(value: bytes) -> _Crashes | None:
    """A row, or ``None`` if it cannot be read: a lost suspicion only costs a precaution."""
    try:
        return _DECODER.decode(value)
    except UNREADABLE:
        return None


def _load(path: Path) -> _Stored | None:
    """The content of the old file, or ``None`` if it is absent or cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Stored)
    except (FileNotFoundError, *UNREADABLE):
        return None


def suspects(folder: Path, owns_host: Callable[[str], bool]) -> list[Attempt]:
    """The attempts that may have caused the last crash.

    They are those whose request was on the wire, and the one whose page was being stored, read from
    the attempt logs in ``folder`` before a new log is opened. ``owns_host`` selects the hosts of
    this worker. The URLs of other partitions are judged by their worker, which may be running.
    """
    return [
        attempt
        for attempt in crashed_attempts(folder, left_storing(folder))
        if owns_host(host_of(attempt.url))
    ]
