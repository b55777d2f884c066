"""The port of segments: where the records of a shard's commits become safe, and where they are read
again.

The calls block and belong on another thread. A commit's records are put first and named by the
commit second; so what was put and is not named by any commit was never promised, and goes at the
next recovery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from lycosa.store.pending import PendingWrite
from lycosa.store.reading import StoredRecord
from lycosa.store.recovery import Recovery
from lycosa.store.rows import JournalRow, SegmentHeader


class NotStored(Exception):
    """Records could not be put just now; the same ones may be put again."""


class OpenSegment(msgspec.Struct, frozen=True):
    """A segment of an earlier owner that is not closed: the lengths of its WARC and of its
    journal, both committed.
    """

    header: SegmentHeader
    length: int
    journal_length: int


class FoundSegments(msgspec.Struct, frozen=True):
    """What a new owner finds: the greatest ``number`` of a segment so far, the segments that are
    open, and the ``term`` that becomes a part of the names of new ones; 0 where owners continue
    each other's segments, so that the number is enough.
    """

    number: int = 0
    open: Sequence[OpenSegment] = ()
    term: int = 0


class Segments(Protocol):
    """The segments of one shard."""

    def recover_segments(self, lengths: Mapping[str, int]) -> Recovery:
        """Drops what no commit names; ``lengths`` are those of the last commits. Raises
        ``StoreDamaged`` when something is missing that a commit names.
        """
        ...

    def find_segments(self, term: int) -> FoundSegments:
        """What the owner of this term finds after the recovery."""
        ...

    def put_records(self, pending: PendingWrite) -> None:
        """Returns when everything is safe, and says so to ``pending``. May be repeated. Raises
        ``NotStored`` or ``OSError``.
        """
        ...

    def close_segment(self, name: str) -> None:
        """Gives a segment its final form, with all that is derived from it. Everything in it is
        committed. May be repeated. Raises ``NotStored`` or ``OSError``.
        """
        ...

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        """The record that begins there, of a closed segment or an open one. Raises
        ``RecordError`` or ``OSError``.
        """
        ...


class StoredSegment(msgspec.Struct, frozen=True):
    """A segment with committed records: its name, and the committed bytes of its WARC and of its
    journal, which is ``None`` when the journal is missing. A closed one has its final form.
    """

    name: str
    is_closed: bool
    length: int
    journal_length: int | None


class SegmentReader(Protocol):
    """The segments of a shard or of a crawl for reading, beside their owner or after it. Nothing
    is changed.
    """

    def list_segments(self, lengths: Mapping[str, int]) -> list[StoredSegment]:
        """All closed segments, and the open ones that the last commits name by these
        ``lengths``; by name. Raises ``OSError``.
        """
        ...

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        """The committed rows of a segment in the order of their records; with ``having`` those
        whose line contains these bytes. Raises ``JournalError`` or ``OSError``.
        """
        ...

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        """See ``Segments``."""
        ...
