"""The port of object storage: six calls that every kind of store can implement.

A key is a relative path, ``warc/NAME.warc.gz``. An object appears whole or not at all, and a later
``put`` replaces it whole. All calls block and belong on another thread. They raise ``ObjectError``
(``object_errors``), whose class gives the cause and whether a retry can help.

``create`` decides between two programs which one was first. A store may have stored the object
although its answer was lost. The retry then finds an object, so a caller that gets
``ObjectExists`` must read the object to know which program created it, and whether there is one:
``sameness.create_or_read`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec


class StoredObject(msgspec.Struct, frozen=True):
    """What a store says of an object.

    ``etag`` is opaque, and empty where there is none. ``modified`` is when it was stored, in
    seconds since 1970 by the store's clock, which may differ from that of this machine.
    """

    key: str
    size: int
    etag: str = ""
    modified: float = 0.0


class ObjectStore(Protocol):
    """The objects below one URL."""

    def create(self, key: str, data: bytes) -> None:
        """Store a new object. Raises ``ObjectExists`` when there is one, which then stays."""
        ...

    def put(self, key: str, content: bytes | Path) -> None:
        """Store an object, in place of one of that key. A file is sent in parts, if it is large,
        and is not held in memory.
        """
        ...

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of an object from ``start`` on, at most ``length``; fewer at its end. Raises
        ``ObjectMissing``.
        """
        ...

    def find(self, key: str) -> StoredObject | None:
        """What the store has under a key now."""
        ...

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """The objects whose keys begin with ``prefix``, which is empty or ends with a slash; in no
        order.
        """
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is no error."""
        ...
