"""A store whose calls wait until the store answers, for a start that cannot continue without it.

A worker that takes a shard over lists and reads many objects. An error of any of these calls would
end the process, and the next one would begin again from the claim. So each call is repeated here,
without a limit of time, and what it waits for is told. Once the shard is open the calls fail as
those of any store: the parts of a worker that write know what can wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from lycosa.state.objects.object_errors import (
    ObjectError,
    ObjectExists,
    ObjectMissing,
    RangeBeyondEnd,
)
from lycosa.state.objects.objects_port import ObjectStore, StoredObject

T = TypeVar("T")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_ANSWERS = (ObjectExists, ObjectMissing, RangeBeyondEnd)  # what the store has; no reason to wait


class PatientStore:
    """The ``ObjectStore`` ``store`` with calls that wait, until ``end_patience``.

    ``tell`` is called with what a call waits for, and with an empty text when it waits no longer.
    """

    def __init__(self, store: ObjectStore, tell: Callable[[str], None]) -> None:
        self._store, self._tell = store, tell
        self._is_over = threading.Event()

    @property
    def is_patient(self) -> bool:
        """Whether calls still wait."""
        return not self._is_over.is_set()

    def end_patience(self) -> None:
        """From now on errors are raised, also by a call that waits at the moment."""
        self._is_over.set()

    def create(self, key: str, data: bytes) -> None:
        self._repeat(lambda: self._store.create(key, data))

    def put(self, key: str, content: bytes | Path) -> None:
        self._repeat(lambda: self._store.put(key, content))

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        return self._repeat(lambda: self._store.get(key, start, length))

    def find(self, key: str) -> StoredObject | None:
        return self._repeat(lambda: self._store.find(key))

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """See ``ObjectStore``. While the store is patient, memory contains the whole listing."""
        if self._is_over.is_set():
            return self._store.list(prefix)
        return iter(self._repeat(lambda: [*self._store.list(prefix)]))

    def delete(self, keys: Iterable[str]) -> None:
        given = [*keys]
        self._repeat(lambda: self._store.delete(given))

    def _repeat(self, call: Callable[[], T]) -> T:
        pause_s, is_told = _FIRST_PAUSE_S, False
        while True:
            try:
                found = call()
            except _ANSWERS:
                raise
            except ObjectError as error:
                if self._is_over.is_set():
                    raise
                self._tell(str(error))
                is_told = True
                if self._is_over.wait(pause_s):
                    raise
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                if is_told:
                    self._tell("")
                return found

    def __repr__(self) -> str:
        return f"PatientStore({self._store!r}, patient={not self._is_over.is_set()})"
