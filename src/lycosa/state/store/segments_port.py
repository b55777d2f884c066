"""The port of segments: makes the records of a shard's commits durable and reads them back.

The calls block and must run in another thread. The records of a commit are put first and the commit
names them second. So records that no commit names were never committed, unless the log has lost
commits. The next recovery drops them; in an object store they are kept for some days.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from lycosa.state.store.journal import FindSimilar
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader
from lycosa.state.store.pending import PendingWrite
from lycosa.state.store.segment_recovery import Recovery
from lycosa.state.store.stored_data import StoredRecord


class NotStored(Exception):
    """Records could not be put at the moment. The same records may be put again."""


class OpenSegment(msgspec.Struct, frozen=True):
    """An open segment of an earlier owner, with the committed lengths of its two files."""

    header: SegmentHeader
    length: int
    journal_length: int


class FoundSegments(msgspec.Struct, frozen=True):
    """What a new owner finds.

    ``number`` is the greatest number of a segment so far, and ``open`` are the open segments.
    ``term`` becomes part of the names of new ones. It is 0 where owners continue each other's
    segments, so that the number is enough.
    """

    number: int = 0
    open: Sequence[OpenSegment] = ()
    term: int = 0


class Segments(Protocol):
    """The segments of one shard."""

    def recover_segments(
        self, lengths: Mapping[str, int], sums: Mapping[str, int] | None = None
    ) -> Recovery:
        """Drop what no commit names; ``lengths`` and ``sums`` are those of the last commits.

        Raises ``StoreDamaged`` when something is missing that a commit names, and
        ``CommitsLost`` when there is so much that no commit names that the log has lost commits.
        Nothing is changed then.
        """
        ...

    def find_segments(self, term: int) -> FoundSegments:
        """What the owner of this term finds after the recovery."""
        ...

    def put_records(self, pending: PendingWrite) -> None:
        """Make a write durable and report that to ``pending``. May be repeated.

        Raises ``NotStored`` or ``OSError``.
        """
        ...

    def close_segment(self, name: str, find_similar: FindSimilar | None = None) -> str:
        """Give a segment its final form, with all derived files. May be repeated.

        Everything in it must be committed. ``find_similar`` adds the near-duplicates that were
        found since to the rows of the journal; files of a crawl folder keep the rows as they are.
        Returns what is damaged in it, in one line for people; empty if nothing is known to be.
        Raises ``NotStored`` or ``OSError``.
        """
        ...

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        """The record at this offset, of a closed or an open segment of any shard.

        Raises ``RecordError`` or ``OSError``.
        """
        ...


class StoredSegment(msgspec.Struct, frozen=True):
    """A segment with committed records.

    It has a name and the committed bytes of its WARC and of its journal, which is ``None`` when the
    journal is missing. A closed segment has its final form.
    """

    name: str
    is_closed: bool
    length: int
    journal_length: int | None


class SegmentReader(Protocol):
    """Reads the segments of a shard or of a crawl, during or after the work of their owner.

    Nothing is changed.
    """

    def list_segments(self, lengths: Mapping[str, int]) -> list[StoredSegment]:
        """All closed segments, and the open ones that the last commits name, sorted by name.

        ``lengths`` are the lengths in these commits. Raises ``OSError``.
        """
        ...

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        """The committed rows of a segment's captures in the order of their records.

        With ``having`` only those whose line contains these bytes; with ``RENDER_LINE``
        (``render_facts``) the rows of renders instead. Raises ``JournalError`` or
        ``OSError``.
        """
        ...

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        """See ``Segments``."""
        ...
