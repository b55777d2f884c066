"""The rows of a partition's table that belong to its cold files.

A record of a URL that nothing waits for may leave the table for a cold file. The commit that
deletes its row writes a row that names the file. So the table of a commit, in the hands of an
owner, a reader, a snapshot with the log after it or an import, names exactly the files of that
commit. A file that no row names is an orphan of a crash.

Three rules make the two places one set of records. A row of the table hides a record in a file: a
URL that comes back gets a row, and no file changes. Of two files, the one with the greater number
counts. A file is never changed, and never deleted while a row names it.

Files with adjacent numbers may be merged: one commit deletes their rows, except that of the last
number, which then names the new file. So all others stay older or newer than it, as they were.

Imported by the stages, so it is pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from lycosa.state.kv.kv_port import TableDamaged
from lycosa.state.kv.table_records import SEQ_BYTES, UrlRecord, encode_url, prefix_end

if TYPE_CHECKING:  # a start reads these rows without it
    import numpy as np
    from numpy.typing import NDArray

COLD_PREFIX, RETURN_PREFIX, CELLS_PREFIX = b"c", b"r", b"k"
PLACE = "cold"
_DAY_S = 86_400
IS_DUE = 0x80  # in the byte of a state


class ColdDamaged(TableDamaged):
    """A cold file is missing, or not as it was written. The message names it."""


class ColdRecord(NamedTuple):
    """A record on its way into a file.

    ``url`` is host8 and url8, ``host`` the name, ``value`` the row in the table, ``record`` its
    meaning.
    """

    url: bytes
    host: str
    value: bytes
    record: UrlRecord

    @property
    def cold_value(self) -> bytes:
        """The row as it is in a file.

        A page that is due one day is counted by its cell as before. One that is not asks for no
        fetch any more, and has no cell in a file.
        """
        history = self.record.history
        if history is None or not history.cell or self.record.due_at:
            return self.value
        bare = msgspec.structs.replace(history, cell=0)
        return encode_url(msgspec.structs.replace(self.record, history=bare))


def cold_name(partition: int, number: int, term: int, time_s: float) -> str:
    """The name of a file, which is its key below ``cold/``.

    Two owners never give the same: each has its own term. One that is killed before its commit may
    give it again, to a file that no commit names.
    """
    date = datetime.fromtimestamp(time_s, UTC).date().isoformat()
    return f"{partition:05d}/{date}-{number:06d}-{term:010d}.parquet"


def last_number(files: Mapping[int, ColdFileRow]) -> int:
    """The greatest number that a file has, had or has in its name."""
    names = [row.name for row in files.values()]
    names += [name for row in files.values() for _, name in row.replaced]
    return max([0, *files, *(int(name.split("-")[-2]) for name in names)])


class ScannedTable(Protocol):
    """A table of which ranges are read."""

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]: ...


class ColdFileRow(msgspec.Struct, frozen=True, array_like=True):
    """What the table says of a cold file (row ``c number6``).

    ``name`` is the key below ``cold/``, ``size`` and ``sha256`` are of its bytes. ``first`` and
    ``last`` are the smallest and the greatest ``host8 url8`` in it. ``archived_at`` is crawl time
    in whole seconds. ``removed`` is the number of records whose rows this commit deleted: fewer
    than ``records`` if some changed while the file was written, which then stay in the table.
    ``since`` is 0 or, of a merged file, the earliest ``archived_at`` of those that it replaces.
    ``replaced`` are numbers and names of files that were merged away and are still stored, since
    ``replaced_at``: readers of an older commit may have them open.
    """

    name: str
    size: int
    sha256: bytes
    records: int
    first: bytes
    last: bytes
    archived_at: int
    removed: int
    since: int = 0
    replaced: tuple[tuple[int, str], ...] = ()
    replaced_at: int = 0

    def has_day(self, day: int) -> bool:
        """Whether it may have URLs that became cold on a day since 1970."""
        return (self.since or self.archived_at) // _DAY_S <= day <= self.archived_at // _DAY_S

    @classmethod
    def of(
        cls, name: str, content: bytes, records: Sequence[ColdRecord], at: int, removed: int = 0
    ) -> ColdFileRow:
        """The row of a file with this content and these records, which are sorted by ``url``."""
        digest, first, last = sha256(content).digest(), records[0].url, records[-1].url
        return cls(name, len(content), digest, len(records), first, last, at, removed)

    @classmethod
    def merged(
        cls, name: str, content: bytes, urls: Sequence[bytes], files: Sequence[ColdFileRow]
    ) -> ColdFileRow:
        """The row of a file with these URLs, in order, which files with these rows had."""
        digest, number, at = sha256(content).digest(), len(urls), max(e.archived_at for e in files)
        since = min(each.since or each.archived_at for each in files)
        return cls(name, len(content), digest, number, urls[0], urls[-1], at, number, since=since)

    def replacing(self, replaced: Sequence[tuple[int, str]], at: int) -> ColdFileRow:
        """The row with more files that were merged away at a time."""
        names = tuple(sorted({*self.replaced, *replaced}))
        return msgspec.structs.replace(self, replaced=names, replaced_at=at)


class ReturnCause(IntEnum):
    """What brings a cold URL back. The value is written to disk."""

    LINK = 1  # found again, ``cold.return_after_s`` after it became cold
    GIVEN = 2  # a seed, or given by another program
    OPERATOR = 3  # an operator retried it
    DUE = 4  # the time of its next fetch has come, or it is the next probe
    SIGNAL = 5  # it changed, according to a source of signals
    POLICY = 6  # changed refetch policies give it another time


class ReturnRow(msgspec.Struct, frozen=True, array_like=True):
    """A cold URL that is to come back (row ``r host8 url8``).

    ``depth`` is that of the link. ``asked_at`` is crawl time in whole seconds. ``source`` and
    ``changed_at`` are those of a signal.
    """

    why: ReturnCause
    depth: int
    asked_at: int
    source: int = 0
    changed_at: int = 0


class ColdNote(NamedTuple):
    """What is known of a cold URL without its file.

    ``day`` is the day since 1970 (crawl time) on which it became cold. ``is_due``: the schedule has
    it, or the line of probes.
    """

    day: int
    state: int
    reason: int
    is_due: bool = False

    @classmethod
    def of(cls, day: int, state: int, reason: int) -> ColdNote:
        """With a ``noted_state``."""
        return cls(day, state & ~IS_DUE, reason, state >= IS_DUE)


class ColdHashes(Protocol):
    """Which URLs are cold, by their url8."""

    def __len__(self) -> int:
        """About how many there are; 0 if there is none."""
        ...

    def ripe(self, hashes: NDArray[np.uint64], latest: int) -> NDArray[np.bool_]:
        """True where a URL is cold and never due, and became so on the day ``latest`` or before."""
        ...

    def find(self, url8: bytes) -> ColdNote | None:
        """What is known of a URL; ``None`` if it is not cold."""
        ...

    def forget(self, url8: bytes) -> None:
        """Note that a URL is not cold any more."""
        ...


decode_cold_file = msgspec.msgpack.Decoder(ColdFileRow).decode
decode_return = msgspec.msgpack.Decoder(ReturnRow).decode


def noted_state(record: UrlRecord) -> int:
    """The byte that hashes of cold URLs have for a record: its state, and whether it is due."""
    return int(record.state) | (IS_DUE if record.due_at else 0)


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
