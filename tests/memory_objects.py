"""A store in memory: it behaves like a real one, and fails on demand."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lycosa.state.objects.object_errors import ObjectExists, ObjectMissing
from lycosa.state.objects.objects_port import StoredObject


class MemoryStore:
    """An ``ObjectStore``; ``objects`` outlives it. ``fail`` is called with each call's name and key
    before it does anything, and may raise what a store raises. ``wall`` dates objects.
    """

    def __init__(
        self,
        objects: dict[str, bytes] | None = None,
        fail: Callable[[str, str], None] = lambda call, key: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.objects = {} if objects is None else objects
        self.fail, self._wall = fail, wall
        self._dates: dict[str, float] = {}
        self._lock = threading.Lock()

    def create(self, key: str, data: bytes) -> None:
        self.fail("create", key)
        with self._lock:
            if key in self.objects:
                raise ObjectExists(f"memory: there is an object already: {key}")
            self.objects[key] = data
            self._dates[key] = self._wall()

    def put(self, key: str, content: bytes | Path) -> None:
        self.fail("put", key)
        self.objects[key] = content.read_bytes() if isinstance(content, Path) else content
        self._dates[key] = self._wall()

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        self.fail("get", key)
        if key not in self.objects:
            raise ObjectMissing(f"memory: there is no such object: {key}")
        end = None if length is None else start + max(length, 0)
        return self.objects[key][start:end]

    def find(self, key: str) -> StoredObject | None:
        self.fail("find", key)
        data = self.objects.get(key)
        return None if data is None else self._described(key, data)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        self.fail("list", prefix)
        for key, data in list(self.objects.items()):
            if key.startswith(prefix):
                yield self._described(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.fail("delete", key)
            self.objects.pop(key, None)

    def _described(self, key: str, data: bytes) -> StoredObject:
        etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        return StoredObject(key, len(data), etag, self._dates.get(key, 0.0))

    def __repr__(self) -> str:
        return f"MemoryStore({len(self.objects)} objects)"
