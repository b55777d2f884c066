"""Whether an object in a store is what was sent there.

Size first. Then the ETag, where it is an MD5: of the whole for an object that was sent in one
piece, of the MD5s of its parts, ``-`` and their number, for one that was sent in parts. S3 and most
that speak its protocol give these; encryption by other keys, Google's and Azure's ETags are no MD5.
Then the object is read back, which is what is left that proves anything.

A small object that was to be created is read back at once when the store has one already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from lycosa.state.objects.object_errors import ObjectExists, ObjectMissing, StoreFailed
from lycosa.state.objects.objects_port import ObjectStore

PART_BYTES = 8 << 20
"""Of what is sent in parts. ETags depend on it."""
_TRIES = 3  # to create an object that the store says exists, and does not have


class FileContent(msgspec.Struct, frozen=True):
    """What a file's object is known by. ``etag`` is the one of a store whose ETags are MD5s."""

    size: int
    sha256: str
    etag: str


def file_content(path: Path) -> FileContent:
    """Read a file once. Raises ``OSError``."""
    sha, parts, size = hashlib.sha256(), list[bytes](), 0
    with path.open("rb") as file:
        while piece := file.read(PART_BYTES):
            sha.update(piece)
            parts.append(_md5(piece))
            size += len(piece)
    # what fits into one part is sent in one piece
    is_whole = size <= PART_BYTES
    etag = (
        (parts or [_md5(b"")])[0].hex()
        if is_whole
        else f"{_md5(b''.join(parts)).hex()}-{len(parts)}"
    )
    return FileContent(size, sha.hexdigest(), etag)


def holds(store: ObjectStore, key: str, content: FileContent) -> bool:
    """Whether the store has exactly this content under ``key`` now. Raises ``ObjectError``."""
    found = store.find(key)
    if found is None or found.size != content.size:
        return False
    etag = found.etag.strip('"')
    if etag and etag == content.etag:
        return True
    # Another MD5 proves nothing: the object may have been sent in other parts.
    sha = hashlib.sha256()
    for piece in object_pieces(store, key, content.size):
        sha.update(piece)
    return sha.hexdigest() == content.sha256


def object_pieces(store: ObjectStore, key: str, size: int) -> Iterator[bytes]:
    """Read an object of ``size`` bytes; end early when it has fewer. Raises ``ObjectError``."""
    at = 0
    while at < size and (piece := store.get(key, at, PART_BYTES)):
        yield piece
        at += len(piece)


def create_or_read(store: ObjectStore, key: str, data: bytes) -> bytes:
    """Create an object unless there is one; returns the content that is there then.

    That is other than ``data`` if another program was first. ``ObjectExists`` alone does not prove
    that there is an object: a store may give this answer to a request that only came at the same
    time as another one. Raises ``StoreFailed`` when the store says so and has none, or another
    ``ObjectError``.
    """
    for _ in range(_TRIES):
        with suppress(ObjectExists):
            store.create(key, data)
            return data
        with suppress(ObjectMissing):
            return store.get(key)
    raise StoreFailed(f"{key}: the store says that there is an object, and has none; try again")


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
