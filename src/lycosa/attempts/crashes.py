"""Which URLs may have killed a worker: a count of successive crashes in which an attempt did not
finish.

A crash leaves hundreds of attempts unfinished and at most one of them is to blame, so each is only
a *suspect*. The worker fetches suspects late and one at a time: if one of them kills it again, that
one alone is in flight and reaches the count of two, a **poison page**. An attempt that ends clears
its URL.

A count is a row of the partition that owns the URL's host, so it moves with the partition, and it
changes in the ordinary commits. What makes this safe is their order. Crashes are counted before
anything is requested, and the first commit comes before the first request; a suspect is requested
after one commit and followed by another. An attempt that ends clears its URL in the commit that has
its outcome.

The attempt log of a machine that is lost names nobody. So a worker that starts *carefully* names
each URL in a commit before its request leaves: what a dead worker had named is what it died of.

Before the counts were rows they stood in ``crashes.json``, for all workers of a crawl; a partition
takes over what concerns it, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Annotated

import msgspec

from lycosa.attempts.files import Attempt
from lycosa.kv.overlay import Overlay
from lycosa.kv.records import CRASH_PREFIX, crash_key, encode, meta_key, prefix_end
from lycosa.model.end import PreviousEnd
from lycosa.system.wire import UNREADABLE
from lycosa.urls.identity import hash8, host_of

_COUNTED_KEY = meta_key("crashes")


class Suspicion(IntEnum):
    """How a URL that was in flight at crashes is to be treated. The value is the least number of
    crashes.
    """

    NONE = 0  # like any other
    SUSPECT = 1  # late, with nothing else in flight
    POISON = 2  # once more, alone, every limit tightened
    HOPELESS = 3  # not again: it fails as ``crashed_worker``


class _Crashes(msgspec.Struct, array_like=True):
    """A row: crashes in a row at which the URL was in flight, and whether a careful worker named
    it and has not come back from it.
    """

    url: str
    crashes: int = 0
    is_named: bool = False


_DECODER = msgspec.msgpack.Decoder(_Crashes)
_COUNTED_DECODER = msgspec.msgpack.Decoder(dict[int, str])


class _Stored(msgspec.Struct):
    """``crashes.json``: crashes by URL, and by worker the run whose crash was counted last."""

    crashes: dict[str, Annotated[int, msgspec.Meta(ge=1)]] = {}
    counted: dict[str, str] = {}


class CrashCounts:
    """The counts of one worker's partitions, whose ``tables`` are given by number. ``partition_of``
    says which one a host belongs to; ``folder`` is where ``crashes.json`` may be. Opening it
    blocks.
    """

    def __init__(
        self, tables: Mapping[int, Overlay], partition_of: Callable[[str], int], folder: Path
    ) -> None:
        self._tables, self._partition_of = tables, partition_of
        self._rows: dict[str, _Crashes] = {}
        self._counted: dict[
            int, dict[int, str]
        ] = {}  # of each partition: by worker the run whose crash was counted last
        self.has_news = False
        """Whether something was counted, so that a commit is due before anything is requested."""
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
        """Counts what ``unfinished`` found of this worker's hosts, before any new attempt log is
        opened, as far as the end of the worker before this one accuses anybody. A run that was
        counted already changes nothing.
        """
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
            self._tables[number].put(_COUNTED_KEY, encode(self._counted[number]))
        for url in [row.url for row in self._rows.values() if row.is_named]:
            self.unname((url,))
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
        """These URLs."""
        return {row.url for row in self._rows.values() if row.crashes}

    def suspicion(self, url: str) -> Suspicion:
        """What to do with a URL; a dictionary look-up."""
        row = self._rows.get(url)
        return Suspicion.NONE if row is None else Suspicion(min(row.crashes, Suspicion.HOPELESS))

    def name(self, urls: Iterable[str]) -> None:
        """One of these is requested next: if the worker dies before ``unname``, it died of it.
        Commit this first.
        """
        for url in urls:
            row = self._rows.setdefault(url, _Crashes(url))
            row.is_named = True
            self._put(row)

    def unname(self, urls: Iterable[str]) -> None:
        """The worker has come back from these, whatever came of them."""
        for url in urls:
            row = self._rows.get(url)
            if row is not None and row.crashes:
                row.is_named = False
                self._put(row)
            else:
                self.finished(url)

    def finished(self, url: str) -> None:
        """An attempt of this URL ended: it is above suspicion. Called when the commit is cut
        that has its outcome.
        """
        if self._rows.pop(url, None) is not None:
            self._table_of(url).delete(_key(url))

    def __repr__(self) -> str:
        return f"CrashCounts(suspects={len(self._rows)})"

    def _put(self, row: _Crashes) -> None:
        self._table_of(row.url).put(_key(row.url), encode(row))

    def _table_of(self, url: str) -> Overlay:
        return self._tables[self._partition_of(host_of(url))]

    def _take_over(self, old: _Stored, without: set[int]) -> None:
        """What ``crashes.json`` has on the hosts of these partitions. Each remembers that, so
        that it is not done again.
        """
        runs = {int(worker): run for worker, run in old.counted.items() if worker.isdecimal()}
        for number in without:
            self._counted[number] = dict(runs)
            self._tables[number].put(_COUNTED_KEY, encode(runs))
        for url, crashes in old.crashes.items():
            try:
                number = self._partition_of(host_of(url))
            except (ValueError, IndexError):
                continue  # no URL
            if number in without and url not in self._rows:
                row = self._rows[url] = _Crashes(url, crashes)
                self._put(row)
        self.has_news = True


def _key(url: str) -> bytes:
    return crash_key(hash8(host_of(url)), hash8(url))


def _read(value: bytes) -> _Crashes | None:
    """A row that cannot be read counts nothing: suspicion is a precaution, not a fact to be
    kept.
    """
    try:
        return _DECODER.decode(value)
    except UNREADABLE:
        return None


def _load(path: Path) -> _Stored | None:
    """The old file; one that is not there, or not readable, counts nothing."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Stored)
    except (FileNotFoundError, *UNREADABLE):
        return None
