"""Which URLs of a partition are cold: sorted hashes in a mapped file, and newer ones in memory.

URL-seen keeps the hashes of cold URLs, so a link to one is known at the price of any other link.
This file answers the next question, for many links at once: which of the known URLs are cold, and
since when. 12 bytes each: the hash, the day on which it became cold, its state and its reason. With
the last two a decision of an operator about failed URLs needs no cold file. The highest bit of the
state says that the page is due one day, so that no link brings it back.

The file follows from the cold files. It is opened with the rows that name them; what it lacks is
read from them, and a file that is damaged, or of other cold files, is made again. A URL that came
back stays in the file: its row in the table is looked up once, and it is forgotten in memory.

Payload: ``count`` hashes (u64, little-endian, ascending), days (u16), states and reasons (u8). The
header's stamp is the number of the last cold file whose URLs it has, its first number the XXH3-64
of the name of that file, which may have been merged away since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from lycosa.state.cold.cold_rows import IS_DUE, ColdFileRow, ColdNote
from lycosa.state.cold.cold_table import ColdTable
from lycosa.state.seen.hash_files import HashFileDamaged, Header, map_hash_file, write_hash_file

MAGIC, VERSION = b"LYCOCOLD", 1
COLD_DAY_S = 86_400
_MIN_FRESH = 1 << 15  # URLs in memory before the file is written again
_LAST_DAY = (1 << 16) - 1
Notes = tuple[NDArray[np.uint64], NDArray[np.uint16], NDArray[np.uint8], NDArray[np.uint8]]
"""Hashes, days, states and reasons, of equal length and sorted by hash."""


def _nothing() -> Notes:
    return (
        np.empty(0, np.uint64),
        np.empty(0, np.uint16),
        np.empty(0, np.uint8),
        np.empty(0, np.uint8),
    )


class ColdKeys:
    """Implements ``ColdHashes`` for one partition; its calls belong to the owner's loop.

    Except ``save``, which blocks and may run on another thread while nothing is added.
    """

    def __init__(self, path: Path, rows: Mapping[int, ColdFileRow], files: ColdTable) -> None:
        """``rows`` are those of the partition's table, by number; ``files`` reads them. Blocks.

        Raises ``ColdDamaged`` or ``ObjectError`` when a cold file is needed and cannot be read.
        """
        self._path = path
        self._saved, self._stamp, self.damage = _opened(path, rows)
        self._fresh = _nothing()
        self._names = {number: row.name for number, row in rows.items()}
        self._last = self._stamp
        self._gone: set[int] = set()
        for number in sorted(rows):
            if number > self._stamp:
                urls, states, reasons = files.read_notes(number)
                day = rows[number].archived_at // COLD_DAY_S
                self.add(number, rows[number].name, notes_of(urls, day, states, reasons))

    def __repr__(self) -> str:
        return f"<ColdKeys {len(self)} fresh={len(self._fresh[0])} file={self._last}>"

    def __len__(self) -> int:
        return len(self._saved[0]) + len(self._fresh[0])

    @property
    def should_save(self) -> bool:
        """Whether so many are only in memory that ``save`` should be called soon."""
        return len(self._fresh[0]) > max(_MIN_FRESH, len(self._saved[0]) // 8)

    @property
    def has_fresh(self) -> bool:
        """Whether any are only in memory."""
        return len(self._fresh[0]) > 0

    def add(self, number: int, name: str, notes: Notes) -> None:
        """Add the URLs of a cold file whose commit is on disk. Numbers increase."""
        self._fresh = _merged(self._fresh, notes)
        self._last, self._names[number] = number, name
        # Some of them may have come back from an earlier file.
        if self._gone:
            self._gone.difference_update(notes[0].tolist())

    def ripe(self, hashes: NDArray[np.uint64], latest: int) -> NDArray[np.bool_]:
        """See ``ColdHashes``. 0.1 to 0.3 us a hash in a batch of hundreds."""
        found = np.zeros(len(hashes), dtype=np.bool_)
        for notes in (self._saved, self._fresh):
            places, is_there = _places(notes[0], hashes)
            # In both, the newer one counts.
            days, states = notes[1][places[is_there]], notes[2][places[is_there]]
            found[is_there] = (days <= latest) & (states < IS_DUE)
        if self._gone and found.any():
            for at in np.flatnonzero(found).tolist():
                found[at] = int(hashes[at]) not in self._gone
        return found

    def find(self, url8: bytes) -> ColdNote | None:
        number = int.from_bytes(url8, "big")
        if number in self._gone:
            return None
        wanted = np.array([number], dtype=np.uint64)
        for notes in (self._fresh, self._saved):
            places, is_there = _places(notes[0], wanted)
            if is_there[0]:
                day, state, reason = (int(column[places[0]]) for column in notes[1:])
                return ColdNote.of(day, state, reason)
        return None

    def rename(self, number: int, name: str) -> None:
        """Note that the file with a number was replaced by one that others were merged into."""
        if number in self._names:
            self._names[number] = name

    def newer(self, hashes: NDArray[np.uint64], days: NDArray[np.uint16]) -> NDArray[np.bool_]:
        """True where a URL became cold after its day."""
        found = np.zeros(len(hashes), dtype=np.bool_)
        for notes in (self._saved, self._fresh):
            places, is_there = _places(notes[0], hashes)
            found[is_there] |= notes[1][places[is_there]] > days[is_there]
        return found

    def forget(self, url8: bytes) -> None:
        self._gone.add(int.from_bytes(url8, "big"))

    def save(self) -> None:
        """Write the file with what is in memory. The old one is replaced as a whole, durably."""
        merged = _merged(self._saved, self._fresh)
        header = Header(
            MAGIC, VERSION, self._last, len(merged[0]), _name_hash(self._names[self._last])
        )
        write_hash_file(self._path, header, merged)
        self._saved, self._stamp = _content(self._path)
        self._fresh = _nothing()


def notes_of(
    urls: Sequence[bytes], day: int, states: Sequence[int], reasons: Sequence[int]
) -> Notes:
    """The notes of URLs (host8 and url8) that became cold on one day; ``states`` as noted."""
    hashes = np.frombuffer(b"".join(url[8:] for url in urls), dtype=">u8").astype(np.uint64)
    order = np.argsort(hashes, kind="stable")
    return (
        hashes[order],
        np.full(len(urls), min(day, _LAST_DAY), np.uint16),
        np.array(states, np.uint8)[order],
        np.array(reasons, np.uint8)[order],
    )


def _opened(path: Path, rows: Mapping[int, ColdFileRow]) -> tuple[Notes, int, str]:
    """The file's content and stamp, if it is of these cold files; else nothing, and why."""
    try:
        header, _ = map_hash_file(path, MAGIC, VERSION)
        named = [(number, row.name) for number, row in rows.items()]
        named += [each for row in rows.values() for each in row.replaced]
        if not any(n == header.stamp and header.first == _name_hash(name) for n, name in named):
            return _nothing(), 0, "it is of other cold files than those that the table names"
        return *_content(path), ""
    except FileNotFoundError:
        return _nothing(), 0, ""
    except HashFileDamaged as error:
        return _nothing(), 0, str(error)


def _content(path: Path) -> tuple[Notes, int]:
    header, payload = map_hash_file(path, MAGIC, VERSION)
    count, at = header.count, 0
    columns = []
    for width, kind in ((8, "<u8"), (2, "<u2"), (1, "u1"), (1, "u1")):
        columns.append(payload[at : at + width * count].view(kind))
        at += width * count
    return (columns[0], columns[1], columns[2], columns[3]), header.stamp


def _name_hash(name: str) -> int:
    return xxhash.xxh3_64_intdigest(name.encode())


def _places(
    known: NDArray[np.uint64], hashes: NDArray[np.uint64]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where hashes would be in a sorted array, and whether they are there."""
    if not len(known):
        return np.zeros(len(hashes), np.intp), np.zeros(len(hashes), np.bool_)
    places = np.searchsorted(known, hashes)
    places[places == len(known)] = 0
    is_there: NDArray[np.bool_] = known[places] == hashes
    return places, is_there


def _merged(older: Notes, newer: Notes) -> Notes:
    """Both, sorted; of equal hashes the newer one."""
    hashes = np.concatenate((older[0], newer[0]))
    # The sort is stable, so the newer of two equal ones is the last of them.
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    is_last = np.ones(len(hashes), np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=is_last[:-1])
    order = order[is_last]
    return (
        hashes[is_last],
        np.concatenate((older[1], newer[1]))[order],
        np.concatenate((older[2], newer[2]))[order],
        np.concatenate((older[3], newer[3]))[order],
    )
