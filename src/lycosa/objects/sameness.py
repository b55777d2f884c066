"""Whether an object in a store is the file that was sent there.

Size first. Then the ETag, where it is an MD5: of the whole for an object that was sent in one
piece, of the MD5s of its parts, ``-`` and their number, for one that was sent in parts. S3 and most
that speak its protocol give these; encryption by other keys, Google's and Azure's ETags are no MD5.
Then the object is read back, which is what is left that proves anything.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from lycosa.objects.port import ObjectStore, StoredObject

PART_BYTES = 8 << 20
"""Of what is sent in parts. ETags depend on it."""
_CHUNK = 8 << 20
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_MD5_OF_PARTS = re.compile(r'"?([0-9a-f]{32}-\d+)"?')


class FileContent(msgspec.Struct, frozen=True):
    """What a file's object is known by."""

    size: int
    sha256: str
    md5: str
    md5_of_parts: str


def file_content(path: Path) -> FileContent:
    """Reads a file once. Raises ``OSError``."""
    whole, sha = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    parts: list[bytes] = []
    size = 0
    with path.open("rb") as file:
        while piece := file.read(PART_BYTES):
            whole.update(piece)
            sha.update(piece)
            parts.append(hashlib.md5(piece, usedforsecurity=False).digest())
            size += len(piece)
    of_parts = hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()
    return FileContent(size, sha.hexdigest(), whole.hexdigest(), f"{of_parts}-{len(parts)}")


def holds(store: ObjectStore, key: str, content: FileContent) -> bool:
    """Whether the store has exactly this content under ``key`` now. Raises ``ObjectError``."""
    found = store.find(key)
    if found is None or found.size != content.size:
        return False
    if _is_known_by_etag(found, content):
        return True
    sha, at = hashlib.sha256(), 0
    while at < content.size:
        piece = store.get(key, at, _CHUNK)
        if not piece:
            return False
        sha.update(piece)
        at += len(piece)
    return sha.hexdigest() == content.sha256


def _is_known_by_etag(found: StoredObject, content: FileContent) -> bool:
    """An ETag that is another one proves nothing: it may be of other parts, or no MD5 at all."""
    if match := _MD5.fullmatch(found.etag):
        return match[1] == content.md5
    if match := _MD5_OF_PARTS.fullmatch(found.etag):
        return match[1] == content.md5_of_parts
    return False
