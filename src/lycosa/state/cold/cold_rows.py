"""The rows of a partition's table that belong to its cold files.

A record of a URL that nothing waits for may leave the table for a cold file. The commit that
deletes its row writes a row that names the file, so each holder of the table of a commit (an owner, a
reader, a snapshot with the log after it, an import) has the names of exactly the files of that
commit. A file that no row names is an orphan of a crash.

Three rules make the two places one set of records. A row of the table hides a record in a file: a
URL that comes back gets a row, and no file changes. Of two files, the one with the greater number
counts. A file is never changed, and never deleted while a row names it.

Imported by the stages, so it is pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from lycosa.state.kv.table_records import SEQ_BYTES, prefix_end

COLD_PREFIX, RETURN_PREFIX = b"c", b"r"
PLACE = "cold"


class ScannedTable(Protocol):
    """A table of which ranges are read."""

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]: ...


class ColdFileRow(msgspec.Struct, frozen=True, array_like=True):
    """What the table says of a cold file (row ``c number6``).

    ``name`` is the key below ``cold/``, ``size`` and ``sha256`` are of its bytes. ``first`` and
    ``last`` are the smallest and the greatest ``host8 url8`` in it. ``archived_at`` is crawl time in
    whole seconds. ``removed`` is the number of records whose rows this commit deleted: fewer than
    ``records`` if some changed while the file was written, which then stay in the table.
    """

    name: str
    size: int
    sha256: bytes
    records: int
    first: bytes
    last: bytes
    archived_at: int
    removed: int


class ReturnRow(msgspec.Struct, frozen=True, array_like=True):
    """A cold URL that is to come back (row ``r host8 url8``).

    ``why`` is one of ``link``, ``seed``, ``signal``, ``operator``. ``depth`` is that of the link.
    ``asked_at`` is crawl time in whole seconds.
    """

    why: str
    depth: int
    asked_at: int


decode_cold_file = msgspec.msgpack.Decoder(ColdFileRow).decode
decode_return = msgspec.msgpack.Decoder(ReturnRow).decode


def cold_key(number: int) -> bytes:
    return COLD_PREFIX + number.to_bytes(SEQ_BYTES, "big")


def object_key(name: str) -> str:
    """The key of a file in an object store, which is also its path in a crawl folder."""
    return f"{PLACE}/{name}"


def return_key(url: bytes) -> bytes:
    """The key of the row of a URL that is to come back, given by its host8 and url8."""
    return RETURN_PREFIX + url


def cold_files(table: ScannedTable) -> dict[int, ColdFileRow]:
    """The files that the table names, by number, the oldest first.

    Raises one of ``system.frames.UNREADABLE``.
    """
    return {
        int.from_bytes(key[1:], "big"): decode_cold_file(value)
        for key, value in table.scan(COLD_PREFIX, prefix_end(COLD_PREFIX))
    }


def returning_urls(table: ScannedTable) -> dict[bytes, ReturnRow]:
    """The URLs (host8 and url8) that are to come back."""
    return {
        key[1:]: decode_return(value)
        for key, value in table.scan(RETURN_PREFIX, prefix_end(RETURN_PREFIX))
    }
