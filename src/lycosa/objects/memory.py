"""A store in memory, for tests and simulations: it behaves like a real one, and fails on demand."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lycosa.objects.errors import ObjectExists, ObjectMissing
from lycosa.objects.port import StoredObject


class MemoryStore:
    """``objects`` outlives the store. ``fail`` is called with each call's name and key before it
    does anything, and may raise what a store raises.
    """

    def __init__(
        self,
        objects: dict[str, bytes] | None = None,
        fail: Callable[[str, str], None] = lambda call, key: None,
    ) -> None:
        self.objects = {} if objects is None else objects
        self.fail = fail
        self._lock = threading.Lock()

    def create(self, key: str, data: bytes) -> None:
        """See ``ObjectStore``."""
        self.fail("create", key)
        with self._lock:
            if key in self.objects:
                raise ObjectExists(f"memory: there is an object already: {key}")
            self.objects[key] = data

    def put(self, key: str, content: bytes | Path) -> None:
        """See ``ObjectStore``."""
        self.fail("put", key)
        self.objects[key] = content.read_bytes() if isinstance(content, Path) else content

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """See ``ObjectStore``."""
        self.fail("get", key)
        if key not in self.objects:
            raise ObjectMissing(f"memory: there is no such object: {key}")
        end = None if length is None else start + max(length, 0)
        return self.objects[key][start:end]

    def find(self, key: str) -> StoredObject | None:
        """See ``ObjectStore``."""
        self.fail("find", key)
        data = self.objects.get(key)
        return None if data is None else _described(key, data)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """See ``ObjectStore``."""
        self.fail("list", prefix)
        for key, data in list(self.objects.items()):
            if key.startswith(prefix):
                yield _described(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        """See ``ObjectStore``."""
        for key in keys:
            self.fail("delete", key)
            self.objects.pop(key, None)

    def __repr__(self) -> str:
        return f"MemoryStore({len(self.objects)} objects)"


def _described(key: str, data: bytes) -> StoredObject:
    return StoredObject(key, len(data), f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"')
