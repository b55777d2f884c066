"""Which URLs may have killed a worker: a count of successive crashes in which an attempt did not finish.

A crash leaves hundreds of attempts unfinished and at most one of them is to blame, so each is only a *suspect*. The worker fetches suspects
late and one at a time: if one of them kills it again, that one alone is in flight and reaches the count of two, a **poison page**. An
attempt that ends clears its URL. The counts are in ``crashes.json``, which all workers of a crawl share; each writes
only what changed on its side, under a lock.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Annotated

import msgspec

from lycosa.attempts.files import Attempt
from lycosa.system.durable import replace_file
from lycosa.system.wire import UNREADABLE

FORMAT = 1


class Suspicion(IntEnum):
    """How a URL that was in flight at crashes is to be treated. The value is the least number of crashes."""

    NONE = 0  # like any other
    SUSPECT = 1  # late, with nothing else in flight
    POISON = 2  # once more, alone, every limit tightened
    HOPELESS = 3  # not again: it fails as ``crashed_worker``


class _Stored(msgspec.Struct):
    """``crashes.json``: crashes by URL, and by worker the run whose crash was counted last."""

    format: int = FORMAT
    crashes: dict[str, Annotated[int, msgspec.Meta(ge=1)]] = {}
    counted: dict[str, str] = {}


class CrashCounts:
    """The counts of one crawl, as one process sees them. ``after_restart`` and ``save`` block and raise ``OSError``."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / "crashes.json"
        self._finished: set[str] = set()
        self._stored = self._load()

    def after_restart(self, unfinished: Iterable[Attempt]) -> None:
        """Counts what ``unfinished`` found, before any new attempt log is opened. A run that was counted already changes nothing."""
        attempts = list(unfinished)
        with self._shared() as stored:
            fresh = [attempt for attempt in attempts if stored.counted.get(str(attempt.worker)) != attempt.run]
            for url in {attempt.url for attempt in fresh}:
                stored.crashes[url] = stored.crashes.get(url, 0) + 1
            stored.counted |= {str(attempt.worker): attempt.run for attempt in fresh}

    def suspects(self) -> set[str]:
        """URLs that were in flight at a crash and have not ended an attempt since."""
        return set(self._stored.crashes)

    def suspicion(self, url: str) -> Suspicion:
        """What to do with a URL; a dictionary look-up."""
        return Suspicion(min(self._stored.crashes.get(url, 0), Suspicion.HOPELESS))

    def finished(self, url: str) -> None:
        """An attempt of this URL ended: it is above suspicion. On disk after ``save``."""
        if self._stored.crashes.pop(url, None) is not None:
            self._finished.add(url)

    @property
    def is_changed(self) -> bool:
        """Whether ``save`` has anything to do."""
        return bool(self._finished)

    def save(self) -> None:
        """Writes what ``finished`` cleared."""
        if self._finished:
            with self._shared():
                pass

    def __repr__(self) -> str:
        return f"CrashCounts(suspects={len(self._stored.crashes)}, unsaved={len(self._finished)})"

    @contextmanager
    def _shared(self) -> Iterator[_Stored]:
        """What is on disk, to be changed: nobody else writes meanwhile, and it is written at the end."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "crashes.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            cleared, stored = set(self._finished), self._load()
            stored.crashes = {url: crashes for url, crashes in stored.crashes.items() if url not in cleared}
            yield stored
            replace_file(self._path, msgspec.json.encode(stored))
            self._stored = stored
            self._finished -= cleared

    def _load(self) -> _Stored:
        """A file that is not there, or not readable, counts nothing: suspicion is a precaution, not a fact to be kept."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Stored)
        except (FileNotFoundError, *UNREADABLE):
            return _Stored()
