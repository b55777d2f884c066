"""The segments port over objects in memory, with the behaviour of an object store.

The records that a commit adds to a segment are one part: an object of its WARC bytes and an object
of its journal lines. Their keys name the shard, the segment and the offset in it. A segment's name
contains the term, and a new owner never continues a segment. So no two owners write the same key,
and a put may be repeated. A closed segment is the concatenation of its parts. Only WARC and journal
are kept here.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from lycosa.state.store import journal, layout
from lycosa.state.store.damage import CommitsLost, StoreDamaged
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.pending import PendingWrite, pieces
from lycosa.state.store.segment_recovery import Recovery
from lycosa.state.store.segments_port import FoundSegments, OpenSegment, StoredSegment
from lycosa.state.store.stored_data import StoredRecord, record_at

Objects = MutableMapping[str, bytes]
"""Objects by key; a write replaces the whole object."""


class MemorySegments:
    """The segments of one shard, as ``Segments`` and ``SegmentReader``.

    ``objects`` outlives its owners.
    """

    def __init__(self, objects: Objects, shard: int) -> None:
        self._objects, self._shard = objects, shard
        self._lengths: dict[str, int] = {}  # of the open files that the last commits name

    def recover_segments(
        self, lengths: Mapping[str, int], sums: Mapping[str, int] | None = None
    ) -> Recovery:
        """See ``Segments``. These objects have no date, so nothing is old enough to be deleted."""
        for name, committed in lengths.items():
            kind, segment = name.partition("/")[0], layout.stem_of(name)
            length = len(self._content(kind, segment, committed))
            if length != committed and not self._is_complete(kind, segment):
                raise StoreDamaged(Path(name), length, committed)
        behind = Counter[str]()
        for key in [key for key in self._objects if key.startswith(self._prefix())]:
            kind, segment, offset = _parts_of(key)
            committed = self._committed_length(kind, segment, lengths)
            behind[segment] += kind == layout.WARC and offset >= committed
            if behind[segment] > 1:
                raise CommitsLost(self._shard, segment, behind[segment], committed)
        self._lengths = dict(lengths)
        return Recovery()

    def find_segments(self, term: int) -> FoundSegments:
        found = []
        for name in sorted(self._lengths):
            segment = layout.stem_of(name)
            if (
                name.startswith(f"{layout.WARC}/")
                and layout.file_name(layout.WARC, segment) not in self._objects
            ):
                rows = self._lengths[_open_name(layout.JOURNAL, segment)]
                header = journal.header_in(self._content(layout.JOURNAL, segment, rows), segment)
                found.append(OpenSegment(header, self._lengths[name], rows))
        return FoundSegments(0, found, term)

    def put_records(self, pending: PendingWrite) -> None:
        """See ``Segments``. A repeated put writes the same objects."""
        if pending.is_written:
            return
        lengths: dict[str, int] = {}
        journal_lengths: dict[str, int] = {}
        for part, rows_start in pending.parts:
            rows = journal.encode_journal_frame(part.lines) if part.lines else b""
            self._objects[self._key(layout.WARC, part.name, part.start)] = b"".join(pieces(part))
            # An empty object would be wrong: the next part would get the same key, and a late
            # repetition of this put would replace it.
            if rows:
                self._objects[self._key(layout.JOURNAL, part.name, rows_start)] = rows
            journal_lengths[part.name] = rows_start + len(rows)
            lengths[_open_name(layout.WARC, part.name)] = part.end
            lengths[_open_name(layout.JOURNAL, part.name)] = journal_lengths[part.name]
        self._lengths.update(lengths)
        pending.written(lengths, journal_lengths)

    def close_segment(self, name: str, find_similar: journal.FindSimilar | None = None) -> str:
        for kind in (layout.JOURNAL, layout.WARC):
            closed = layout.file_name(kind, name)
            if closed not in self._objects:
                content = self._content(kind, name, self._lengths[_open_name(kind, name)])
                if kind == layout.JOURNAL and find_similar is not None:
                    complete = io.BytesIO()
                    journal.complete_journal(io.BytesIO(content), complete, closed, find_similar)
                    content = complete.getvalue()
                self._objects[closed] = content
        return ""

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        name = layout.stem_of(segment)
        return record_at(
            iter((self._content(layout.WARC, name, None)[offset:],)), f"{segment}, byte {offset}"
        )

    def list_segments(self, lengths: Mapping[str, int]) -> list[StoredSegment]:
        names = {layout.stem_of(name) for name in lengths}
        names |= {layout.stem_of(key) for key in self._objects if key.startswith(f"{layout.WARC}/")}
        found = []
        for name in sorted(name for name in names if layout.segment_worker(name) == self._shard):
            is_closed = layout.file_name(layout.WARC, name) in self._objects
            length, rows = (
                self._committed_length(kind, name, lengths)
                for kind in (layout.WARC, layout.JOURNAL)
            )
            found.append(StoredSegment(name, is_closed, length, rows))
        return found

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        content = self._content(layout.JOURNAL, segment.name, segment.journal_length)
        return journal.rows_in(content, layout.file_name(layout.JOURNAL, segment.name), having)

    def _is_complete(self, kind: str, segment: str) -> bool:
        """Whether this is the journal of a closed segment, which closing made longer."""
        return kind == layout.JOURNAL and layout.file_name(kind, segment) in self._objects

    def _committed_length(self, kind: str, segment: str, lengths: Mapping[str, int]) -> int:
        """The committed bytes of a segment.

        Commits do not name a closed segment any more; all of it is committed.
        """
        closed = self._objects.get(layout.file_name(kind, segment))
        return lengths.get(_open_name(kind, segment), 0) if closed is None else len(closed)

    def _content(self, kind: str, segment: str, length: int | None) -> bytes:
        """A closed segment, or the contiguous parts of an open one up to a length."""
        closed = self._objects.get(layout.file_name(kind, segment))
        if closed is not None:
            return closed
        content = b""
        for offset, data in sorted(self._parts(kind, segment)):
            if offset == len(content) and (length is None or offset < length):
                content += data
        return content

    def _parts(self, kind: str, segment: str) -> Iterator[tuple[int, bytes]]:
        prefix = f"parts/{layout.segment_worker(segment):05d}/{segment}/{kind}/"
        return (
            (_parts_of(key)[2], data)
            for key, data in self._objects.items()
            if key.startswith(prefix)
        )

    def _prefix(self) -> str:
        return f"parts/{self._shard:05d}/"

    def _key(self, kind: str, segment: str, offset: int) -> str:
        return f"{self._prefix()}{segment}/{kind}/{offset:012d}"


def _open_name(kind: str, segment: str) -> str:
    return layout.file_name(kind, segment) + layout.OPEN


def _parts_of(key: str) -> tuple[str, str, int]:
    """Kind, segment and offset."""
    _, _, segment, kind, offset = key.split("/")
    return kind, segment, int(offset)
