"""The objects of one generation of a crawl: of one division of its state into shards.

What belongs to single shards is below ``generations/<generation>/``, so an import never writes a
key that an earlier division reads. Segments and the crawl's own files belong to all generations.
The first generation has no name, and its keys no prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from lycosa.state.objects.objects_port import ObjectStore, StoredObject

GENERATIONS = "generations"
OF_SHARDS = ("attempts", "cold", "damaged", "files", "parts", "snapshots")
"""The first parts of keys that belong to the shards of one generation."""


def generation_prefix(generation: str) -> str:
    """Where the keys of a generation begin."""
    return f"{GENERATIONS}/{generation}/" if generation else ""


def placed_objects(store: ObjectStore, generation: str) -> ObjectStore:
    """The store as the shards of a generation see it."""
    return PlacedObjects(store, generation_prefix(generation)) if generation else store


class PlacedObjects:
    """``store`` with the keys of shards below ``prefix``; implements ``ObjectStore``."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store, self._prefix = store, prefix

    def create(self, key: str, data: bytes) -> None:
        self._store.create(self._placed(key), data)

    def put(self, key: str, content: bytes | Path) -> None:
        self._store.put(self._placed(key), content)

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        return self._store.get(self._placed(key), start, length)

    def find(self, key: str) -> StoredObject | None:
        found = self._store.find(self._placed(key))
        return None if found is None else self._named(found)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        return map(self._named, self._store.list(self._placed(prefix)))

    def delete(self, keys: Iterable[str]) -> None:
        self._store.delete([self._placed(key) for key in keys])

    def _placed(self, key: str) -> str:
        return f"{self._prefix}{key}" if key.partition("/")[0] in OF_SHARDS else key

    def _named(self, found: StoredObject) -> StoredObject:
        return msgspec.structs.replace(found, key=found.key.removeprefix(self._prefix))

    def __repr__(self) -> str:
        return f"PlacedObjects({self._store!r}, {self._prefix})"
