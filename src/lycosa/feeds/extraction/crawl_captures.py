"""The captures of a crawl as a source of extraction: of a folder, or of a cluster's bucket.

The WARC of a segment is read once from its beginning, in pieces, because its rows are in the order
of its records. Nothing is locked or changed, and the crawl may run.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from lycosa.base.model.finished_render import RENDERED_HEADERS
from lycosa.base.model.parsed import Link
from lycosa.cluster.shards.cluster_view import sealed_segments
from lycosa.feeds.extraction.extraction_source import SourceCapture
from lycosa.feeds.stored_pages import StoredLinks, header_fields
from lycosa.stages.extract.code_messages import GivenDocument
from lycosa.stages.extract.eligible import is_extracted
from lycosa.stages.frontier.unparsed_bodies import NOT_PARSED
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.store import journal, layout
from lycosa.state.store.derived_files import RENDERS
from lycosa.state.store.journal_rows import (
    Extractor,
    JournalRow,
    SegmentHeader,
    original_url,
    source_capture,
)
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.stored_bodies import ReadRecord, record_with_body, reference_of
from lycosa.state.store.stored_data import RecordError, StoredRecord, record_in
from lycosa.state.store.stored_parts import PieceFile

_PIECE = 4 << 20
_BUFFER = 256 << 10
_ENCODING = "content-encoding"

ReadBytes = Callable[[int, int], bytes]
"""The bytes of a WARC file between two offsets, fewer at its end."""


class SegmentContent(Protocol):
    """The segments of a crawl, as a folder or a cluster has them."""

    def list_segments(self) -> list[StoredSegment]: ...
    def read_journal(self, segment: StoredSegment) -> Iterator[bytes]: ...
    def read_warc(self, segment: str, start: int, end: int) -> bytes: ...
    def read_record(self, segment: str, offset: int) -> StoredRecord: ...


class FolderContent:
    """The segments of a crawl folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._files = folder, SegmentFiles(folder)

    def list_segments(self) -> list[StoredSegment]:
        """All segments; open ones without their lengths, which nothing here needs."""
        closed = self._files.list_segments({})
        names = {each.name for each in closed}
        opened = {layout.stem_of(path) for path in layout.open_files(self._folder)} - names
        return [*closed, *(StoredSegment(name, False, 0, None) for name in sorted(opened))]

    def read_journal(self, segment: StoredSegment) -> Iterator[bytes]:
        path = self._folder / layout.file_name(layout.JOURNAL, segment.name)
        with layout.open_segment_file(path) as file:
            while piece := file.read(_BUFFER):
                yield piece

    def read_warc(self, segment: str, start: int, end: int) -> bytes:
        return self._files.read_warc(segment, start, end)

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        return self._files.read_record(segment, offset)


class BucketContent:
    """The segments of a cluster's crawl, from its object storage alone. ``work`` is a folder for
    temporary files.
    """

    def __init__(self, objects: ObjectStore, work: Path) -> None:
        self._objects, self._work = objects, work
        self._readers: dict[int, ObjectSegments] = {}

    def list_segments(self) -> list[StoredSegment]:
        """All sealed segments; open ones, of which there are parts, without their lengths."""
        sealed = sealed_segments(self._objects)
        opened = {each.key.split("/")[2] for each in self._objects.list("parts/")} - sealed.keys()
        return [
            *sealed.values(),
            *(StoredSegment(name, False, 0, None) for name in sorted(opened)),
        ]

    def read_journal(self, segment: StoredSegment) -> Iterator[bytes]:
        return self._reader(segment.name).read_journal(segment)

    def read_warc(self, segment: str, start: int, end: int) -> bytes:
        return self._reader(segment).read_warc(segment, start, end)

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        return self._reader(layout.stem_of(segment)).read_record(segment, offset)

    def _reader(self, segment: str) -> ObjectSegments:
        number = layout.segment_worker(segment)
        return self._readers.setdefault(number, ObjectSegments(self._objects, number, self._work))


class CrawlCaptures:
    """An ``ExtractionSource``. ``name`` is for people."""

    def __init__(self, name: str, content: SegmentContent) -> None:
        self.name, self._content = name, content
        self._segments: dict[str, StoredSegment] = {}

    def closed_segments(self) -> list[str]:
        """See ``ExtractionSource``."""
        self._segments = {each.name: each for each in self._content.list_segments()}
        return sorted(name for name, each in self._segments.items() if _is_whole(each))

    def count_open(self) -> int:
        """See ``ExtractionSource``; as of the last call of ``closed_segments``."""
        return sum(not each.is_closed for each in self._segments.values())

    def extractors(self, segment: str) -> Sequence[Extractor]:
        """See ``ExtractionSource``."""
        return self._header(segment).extractors

    def captures(self, segment: str) -> Iterator[SourceCapture]:
        """See ``ExtractionSource``. Captures that the purpose may not use are left out.

        After them come the renders that have the better text of their page.
        """
        policy = self._header(segment).policy
        window = _Window(partial(self._content.read_warc, segment))
        for row in journal.rows_from(self._journal(segment), segment):
            original = original_url(row)
            may_use = policy.allows(row.preferences)
            if is_extracted(row.kind, row.status, row.url, original, may_use):
                yield SourceCapture(row, partial(self._load, row, window))
        if not self._header(segment).options.get(RENDERS):
            return
        window = _Window(partial(self._content.read_warc, segment))
        for row in journal.rows_from(self._journal(segment), segment, having=RENDER_LINE):
            is_better = row.render is not None and row.render.is_better
            may_use = policy.allows(row.preferences)
            if is_better and is_extracted(row.kind, row.status, row.url, "", may_use):
                yield SourceCapture(row, partial(self._load, row, window))

    def _header(self, segment: str) -> SegmentHeader:
        return journal.header_from(self._journal(segment), segment)

    def _journal(self, segment: str) -> io.BufferedReader:
        pieces = self._content.read_journal(self._segments[segment])
        return io.BufferedReader(PieceFile(pieces), _BUFFER)

    def _load(self, row: JournalRow, window: _Window) -> GivenDocument:
        own = record_in(window.read(row.offset, row.length), row.length, row.segment)
        return given_document(row, own, self._content.read_record)


def given_document(row: JournalRow, own: StoredRecord, read: ReadRecord) -> GivenDocument:
    """What user code gets of a capture, of which ``own`` is the record.

    The body of a revisit is read from another one; that of a render is its document. Raises
    ``RecordError`` or ``OSError``.
    """
    if row.render is not None:
        return _rendered_document(row, own)
    record = own
    if reference_of(own) is not None:
        place = (row.body_segment or row.segment, row.body_offset)
        record = record_with_body(read, [place]) if row.body_offset else own
        if reference_of(record) is not None:
            raise RecordError(
                f"the body of {row.url} is that of an earlier capture, whose place is not known"
            )
    of_body = header_fields(record.header_block)
    encodings = [value for name, value in of_body if name == _ENCODING]
    links: list[Link] | None = None
    has_none = not row.outlinks and row.parse_reason not in NOT_PARSED
    if row.links.urls or has_none:  # otherwise they were not stored, or not found
        links = list(StoredLinks(row.links))
    return GivenDocument(
        row.url,
        row.status,
        header_fields(own.header_block),
        row.date_us / 1_000_000,
        row.media_type_detected or row.media_type,
        row.charset,
        row.language,
        row.preferences,
        record.body,
        encodings=encodings,
        links=links,
        is_cut=bool(row.truncated),
    )


def _rendered_document(row: JournalRow, own: StoredRecord) -> GivenDocument:
    has_links = bool(row.links.urls) or not row.outlinks
    return GivenDocument(
        row.url,
        row.status,
        list(RENDERED_HEADERS),
        source_capture(row)[0] / 1_000_000,
        row.media_type_detected or row.media_type,
        row.charset,
        row.language,
        row.preferences,
        own.body,
        links=list(StoredLinks(row.links)) if has_links else None,
        is_rendered=True,
    )


class _Window:
    """Reads a file in pieces, for places that come in ascending order."""

    def __init__(self, read: ReadBytes) -> None:
        self._read, self._start, self._data = read, 0, b""

    def read(self, offset: int, length: int) -> bytes:
        at = offset - self._start
        if at < 0 or at + length > len(self._data):
            self._start, self._data = offset, self._read(offset, offset + max(length, _PIECE))
            at = 0
        return self._data[at : at + length]


def _is_whole(segment: StoredSegment) -> bool:
    return segment.is_closed and segment.journal_length is not None
