"""Which cold files are merged into one, and what the new file has.

A partition gets a file with each pass of its walk, and often a small one. ``FAN`` or more adjacent
files become one of at most ``MERGED_RECORDS``; one that is larger than half of that stays as it is.
So a record is written again at most a few times, whatever its crawl's age.

A record in a file is of no use any more when a row of the table or a newer file hides it, because
its URL came back. Pages that are due come back again and again. So when more than half of all
records are hidden, files are written again without them, a few at a time.

Files are merged with those of adjacent numbers only, and the result takes the last of these
numbers: of two files with the same URL the newer one still counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lycosa.state.cold.cold_file import ColdFile, encode_rows, file_urls
from lycosa.state.cold.cold_rows import ColdFileRow
from lycosa.state.objects.objects_port import ObjectStore

MERGED_RECORDS = 32_768
"""Maximum number of records in a merged file: about 4 MB, and 30 MB of memory while it is made."""
FAN = 4


def choose_files(files: Mapping[int, ColdFileRow], cold: int, after: int = 0) -> list[int]:
    """The numbers of the files that are merged next, adjacent and in order; empty for none.

    ``cold`` is the number of URLs that are cold. With too many hidden records those files come
    next whose numbers are greater than ``after``. The newest file always stays: the file of hashes
    names it.
    """
    numbers = sorted(files)[:-1]
    for window in _windows(files, numbers):
        if len(window) >= FAN:
            return window
    if sum(row.records for row in files.values()) <= 2 * cold + MERGED_RECORDS:
        return []
    windows = _windows(files, numbers, largest=MERGED_RECORDS)
    return next((each for each in windows if each[-1] > after), windows[0] if windows else [])


def _windows(
    files: Mapping[int, ColdFileRow], numbers: Sequence[int], largest: int = MERGED_RECORDS // 2
) -> list[list[int]]:
    """Adjacent files, none larger than ``largest``, that fit into one."""
    found: list[list[int]] = [[]]
    records = 0
    for number in numbers:
        size = files[number].records
        if size > largest or records + size > MERGED_RECORDS:
            found.append([])
            records = 0
        if size <= largest:
            found[-1].append(number)
            records += size
    return [window for window in found if window]


class MergedRows:
    """The records of some files, each URL once, as the newest of them has it. Making it blocks.

    Raises ``ColdDamaged`` or ``ObjectError``.
    """

    def __init__(self, store: ObjectStore, rows: Sequence[ColdFileRow]) -> None:
        """``rows`` are in the order of their numbers."""
        tables = [ColdFile(store, row.name, row.size).read() for row in rows]
        table = pa.concat_tables(tables).combine_chunks()
        urls = file_urls(table)
        # A stable sort, so of equal URLs that of the newest file is the last.
        order = sorted(range(len(urls)), key=urls.__getitem__)
        kept = [
            at
            for at, following in zip(order, [*order[1:], -1], strict=True)
            if following < 0 or urls[following] != urls[at]
        ]
        days = [np.full(row.records, row.archived_at // 86_400, np.uint16) for row in rows]
        self._table = table.take(pa.array(kept, pa.int64()))
        self.urls = [urls[at] for at in kept]
        """host8 and url8, in order."""
        self.days: NDArray[np.uint16] = np.concatenate(days)[kept]
        """The days on which they became cold, or later ones of merged files."""

    def encode(self, is_kept: Sequence[bool]) -> bytes:
        """The bytes of a file with some of the records, at least one."""
        return encode_rows(self._table.filter(pa.array(is_kept, pa.bool_())))
