"""Content-seen: which capture was the first with this body?

The comparison is exact, by the SHA-1 of the body as received. The partition that owns the digest
stores it. The caller publishes a digest only after its record is committed, so a revisit record
never refers to a capture that a crash removed.

Key: ``C`` and the 20 bytes of the digest; value: the ``StoredOriginal`` in msgpack. Rows of earlier
programs, which are never replaced, end before the place of the record.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.capture import Original, StoredOriginal
from lycosa.state.seen.seen_port import PointTable

CONTENT = b"C"
"""Prefix of the keys."""

encode_original = msgspec.msgpack.Encoder().encode
decode_original = msgspec.msgpack.Decoder(Original).decode
decode_stored_original = msgspec.msgpack.Decoder(StoredOriginal).decode
"""The value of a ``C`` row; that of other rows of originals has no place."""


class SeenContent:
    """Reads and writes the digests in one partition's table."""

    def __init__(self, table: PointTable) -> None:
        self._table = table

    def find_original(self, digest: bytes) -> StoredOriginal | None:
        """The first capture with this digest, or ``None``."""
        value = self._table.get(content_key(digest))
        return None if value is None else decode_stored_original(value)

    def remember_original(self, digest: bytes, original: StoredOriginal) -> None:
        """Store the first capture with this digest; a later one changes nothing."""
        key = content_key(digest)
        if self._table.get(key) is None:
            self._table.put(key, encode_original(original))


def content_key(digest: bytes) -> bytes:
    """The key of a digest. Raises ``ValueError`` unless it has the length of a SHA-1."""
    if len(digest) != 20:
        raise ValueError(f"a payload digest has 20 bytes, not {len(digest)}")
    return CONTENT + digest
