"""The store as the pipeline uses it: append captures, freeze and write them, roll the segment.

``append_capture`` makes bytes and decides their position, without disk access. ``freeze`` takes
everything appended since the last one, and the ``Segments`` port makes it durable. Only then may a
commit name it. Appending continues meanwhile. A segment is sealed by size or age: nothing more is
appended to it. It is closed when everything in it is committed. So the final form of a segment is
never cut back.

A later run continues a worker's open segment at its committed length. If the crawl's description
or the set of extractors has changed, the segment is sealed and closed instead: the header says of
which extractors a segment has items, and with which columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from lycosa.base.config.sections import StoreSection
from lycosa.base.model.capture import Capture, Location
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.finished_render import FinishedRender
from lycosa.base.model.remark import Remark, distinct
from lycosa.base.preferences.use_policy import RECORD_ONLY, UsePolicy
from lycosa.state.store import journal, layout, warc_records
from lycosa.state.store.closing import ClosedSegment
from lycosa.state.store.derived_files import RENDERS, options_of, wanted_kinds
from lycosa.state.store.journal_rows import (
    JOURNAL_FORMAT,
    RENDERS_FORMAT,
    Extractor,
    RecordPlace,
    RowBuilder,
    SegmentHeader,
    date_us,
    remarks_of,
)
from lycosa.state.store.pending import PendingWrite, SegmentPart
from lycosa.state.store.render_records import (
    MOST_RECORDS,
    BuiltRender,
    RenderDraft,
    render_row,
)
from lycosa.state.store.segments_port import FoundSegments
from lycosa.state.store.warc_records import CrawlInfo, Draft, Member, Packed

MAX_SEGMENT_BYTES = 2**31 - 1
"""Maximum for any settings, because offsets are 32-bit integers in Common Crawl's columns."""


_OWN_BODY = ("", 0)  # the place of a body that is in the capture's own record


class StoreSnapshot(msgspec.Struct, frozen=True):
    """State of a store: current segment, its length including unwritten bytes, and what waits."""

    segment: str
    length: int
    buffered_bytes: int
    buffered_records: int
    sealed: tuple[str, ...]
    closing: tuple[str, ...]
    is_writing: bool


class _Open:
    """A segment that is not closed, with its next position and its unfrozen records."""

    def __init__(self, header: SegmentHeader, length: int, journal_length: int) -> None:
        self.name, self.header = header.segment, header
        self.length, self.journal_length = length, journal_length
        self.part = SegmentPart(self.name, length)
        self.has_news = False

    def add_record(self, member: Member, line: bytes) -> None:
        """Add records at the end."""
        self.part.add_record(member, line)
        self.length += member.length
        self.has_news = True

    def take_part(self) -> tuple[SegmentPart, int]:
        """Take the part to be written, with its journal offset; a new part begins after it."""
        part, self.part, self.has_news = self.part, SegmentPart(self.name, self.length), False
        return part, self.journal_length

    def lengths(self) -> dict[str, int]:
        """Lengths of its files when none of it waits; none before its first write."""
        if self.part.start == 0:
            return {}
        warc, rows = (
            layout.file_name(kind, self.name) + layout.OPEN
            for kind in (layout.WARC, layout.JOURNAL)
        )
        return {warc: self.part.start, rows: self.journal_length}


class SegmentStore:
    """The segments of one worker.

    ``found`` is the result of ``Segments.find_segments``. ``rows`` makes the rows of the journal.
    ``chance`` makes record IDs. ``policy`` decides what derived files may have.
    """

    def __init__(
        self,
        found: FoundSegments,
        section: StoreSection,
        info: CrawlInfo,
        worker: int,
        chance: Random,
        rows: RowBuilder,
        policy: UsePolicy = RECORD_ONLY,
    ) -> None:
        self.policy = policy
        self._section, self._info, self._worker, self._chance = section, info, worker, chance
        self._rows = rows
        self._max_bytes = min(section.segment_bytes, MAX_SEGMENT_BYTES)
        self._current: _Open | None = None
        self._sealed: list[_Open] = []
        self._closing: dict[str, dict[str, int]] = {}
        self._in_flight: PendingWrite | None = None
        self._number, self._term = found.number, found.term
        self._has_renders = False  # known by the first one, so nothing changes for other crawls
        self._sealed += [
            _Open(each.header, each.length, each.journal_length) for each in found.open
        ]
        if self._sealed and not self._term and self._may_continue(self._sealed[-1]):
            self._current = self._sealed.pop()
            self._has_renders = self._current.header.options.get(RENDERS, False)

    @property
    def formats(self) -> int:
        """The formats that are written (``model.compatibility``)."""
        return self._rows.formats

    def use_extractors(self, extractors: Sequence[Extractor]) -> None:
        """Store the items of these extractors from now on, instead of those before.

        If they are others, the open segment is sealed, so a segment has one version of each. The
        next capture must have been read by the new ones.
        """
        self._rows.use_extractors(extractors)
        current = self._current
        if current is not None and current.header.extractors != self._rows.extractors:
            self._seal()

    def count_items(self, items: Mapping[str, list[list[Any]]]) -> dict[str, int]:
        """The number of items that are stored of these of a page, by extractor."""
        return {name: len(rows) for name, rows in self._rows.items_of(items).items()}

    # Appending.

    def append_capture(self, capture: Capture, packed: Packed | None = None) -> Location:
        """Append a capture; return the location of its response or revisit record.

        There is no disk access, except for a spooled body, which is read and compressed into a file
        next to it. This, like compressing any large body, takes tens of milliseconds for ten
        megabytes. So for a large body call ``draft_capture`` and ``Draft.pack``, in another thread,
        first, and pass its result as ``packed``. Raises ``ValueError`` for a capture without a
        response.
        """
        if (
            packed is not None
            and packed.draft.warcinfo_id
            == self._segment_for(0, date_us(capture.fetched.started)).header.warcinfo_id
        ):
            # The record IDs of the draft stay: they were compressed with the body.
            draft = msgspec.structs.replace(packed.draft, capture=capture)
            return self.place_records(draft, draft.build(packed))
        # Also when the segment was sealed meanwhile, because a record names the warcinfo of its
        # segment.
        draft = self.draft_capture(capture)
        return self.place_records(draft, draft.build())

    def draft_capture(self, capture: Capture) -> Draft:
        """A capture with its record IDs.

        Captures drafted in the same order get the same IDs, in any order of later work on the
        drafts.
        """
        if not capture.fetched.header_block:
            raise ValueError(f"nothing to store: no response from {capture.fetched.url}")
        segment = self._segment_for(0, date_us(capture.fetched.started))
        ids = [warc_records.record_id(self._chance) for _ in range(3)]
        return Draft(
            capture, ids[0], ids[1], ids[2], segment.header.warcinfo_id, self._section.gzip_level
        )

    def place_records(self, draft: Draft, built: Member) -> Location:
        """Assign the records of a draft their position."""
        capture = draft.capture
        segment = self._segment_for(built.length, date_us(capture.fetched.started))
        # The records of a capture lie in the order request, response, metadata.
        offset = segment.length + built.request_length
        name = layout.warc_name(segment.name)
        original = capture.original
        body = _OWN_BODY
        if original is not None and self._rows.formats >= LATE_FIELDS:
            body = original.place_beside(name)
        place = RecordPlace(
            segment.name,
            offset,
            built.main_length,
            built.request_length,
            built.metadata_length,
            draft.record_id,
            layout.stem_of(body[0]) if body[0] else "",
            body[1],
        )
        line = journal.encode_line(self._rows.build_row(capture, place))
        segment.add_record(built, line)
        return Location(name, offset, built.main_length, draft.record_id)

    def add_remarks(self, segment: str, offset: int, remarks: tuple[Remark, ...]) -> bool:
        """Add remarks to the row of a capture that waits for the next commit.

        ``segment`` and ``offset`` are those of its ``Location``. Returns whether the row was there,
        and in formats that have remarks.
        """
        if self.formats < LATE_FIELDS:
            return False

        def remarked(line: bytes) -> bytes:
            row = journal.decode_journal_row(line)
            noted = distinct((*remarks_of(row), *remarks))
            return journal.encode_line(msgspec.structs.replace(row, remarks=noted))

        return any(
            each.part.replace_line(b'"offset":%d,' % offset, remarked)
            for each in self._all_open()
            if layout.warc_name(each.name) == segment
        )

    def draft_render(self, render: FinishedRender) -> RenderDraft:
        """A render with its record IDs.

        Raises ``ValueError`` while formats 1 are in force.
        """
        self._note_renders()
        segment = self._segment_for(0, date_us(render.rendered_at))
        if not segment.header.options.get(RENDERS):
            # Only its header says that a segment has renders.
            self._seal()
            segment = self._segment_for(0, date_us(render.rendered_at))
        ids = tuple(warc_records.record_id(self._chance) for _ in range(MOST_RECORDS))
        return RenderDraft(render, ids, segment.header.warcinfo_id, self._section.gzip_level)

    def append_render(self, render: FinishedRender, built: BuiltRender | None = None) -> Location:
        """Append a render; return the location of its first record.

        That is its document, or its list of requests if it has none. For a large document call
        ``draft_render``, and ``RenderDraft.build`` in another thread, first, and pass its result.
        Raises ``ValueError`` while formats 1 are in force.
        """
        self._note_renders()  # first: a segment that begins for this one has to know it
        moment = date_us(render.rendered_at)
        here = self._segment_for(0, moment).header.warcinfo_id
        if built is None or built.draft.warcinfo_id != here:
            built = self.draft_render(render).build()
        segment = self._segment_for(built.member.length, moment)
        offset, name = segment.length, segment.name
        row = render_row(self._rows, built, name, offset)
        if render.items or render.remarks:
            items = self._rows.items_of(render.items)
            row = msgspec.structs.replace(row, items=items, remarks=render.remarks)
        segment.add_record(built.member, journal.encode_line(row))
        return Location(layout.warc_name(name), offset, row.length, row.record_id)

    def _note_renders(self) -> None:
        if self.formats < LATE_FIELDS:
            raise ValueError("formats 1 have no renders")
        self._has_renders = True

    def append_dns(self, name: str, addresses: Sequence[str], date: float) -> Location:
        """Append the addresses that a name had at ``date`` (seconds since 1970).

        It has no row, because it is not a capture.
        """
        segment = self._segment_for(0, date_us(date))
        record_id = warc_records.record_id(self._chance)
        data = warc_records.dns(
            name,
            addresses,
            record_id,
            date_us(date),
            segment.header.warcinfo_id,
            self._section.gzip_level,
        )
        offset = segment.length
        segment.add_record(Member((data,), len(data), 0, len(data), 0), b"")
        return Location(layout.warc_name(segment.name), offset, len(data), record_id)

    # Committing.

    def freeze(self) -> PendingWrite:
        """Everything appended since the last call, as one write.

        One at a time: raises ``RuntimeError`` while the last one is not written.
        """
        if self._in_flight is not None and not self._in_flight.is_written:
            raise RuntimeError("the last frozen write is not finished")
        self._note_written()
        # A commit names the length of every open file, also of those that it adds nothing to.
        steady: dict[str, int] = {}
        for lengths in self._closing.values():
            steady.update(lengths)
        parts = []
        for segment in self._all_open():
            if segment.has_news:
                parts.append(segment.take_part())
            else:
                steady.update(segment.lengths())
        self._in_flight = PendingWrite(parts, steady)
        return self._in_flight

    def roll_segment(self, now: float, force: bool = False) -> ClosedSegment | None:
        """The next segment to be closed, or ``None``. Call it after a commit until it returns
        ``None``.

        ``Segments.close_segment`` closes it, or else the next recovery. ``force`` seals the current
        segment at any size and age, for the clean end of a crawl. A segment with uncommitted
        captures is returned by a later call.
        """
        current = self._current
        if current is not None and (force or self._is_old(current, now)):
            self._seal()
        if self._in_flight is not None and not self._in_flight.is_written:
            return None
        self._note_written()
        for at, segment in enumerate(self._sealed):
            # Everything in it is committed, so the commit that names the final lengths exists.
            if not segment.has_news:
                del self._sealed[at]
                self._closing[segment.name] = segment.lengths()
                return ClosedSegment(segment.name)
        return None

    def note_closed(self, closed: ClosedSegment) -> None:
        """Note that a segment is closed; commits do not name it any more."""
        self._closing.pop(closed.name, None)

    @property
    def buffered_bytes(self) -> int:
        """Size of what the next commit writes. If it is large, the commit should not wait."""
        return sum(segment.part.memory_bytes for segment in self._all_open())

    def snapshot(self) -> StoreSnapshot:
        """State for people and metrics."""
        opened = list(self._all_open())
        return StoreSnapshot(
            segment=self._current.name if self._current else "",
            length=self._current.length if self._current else 0,
            buffered_bytes=self.buffered_bytes,
            buffered_records=sum(len(segment.part.members) for segment in opened),
            sealed=tuple(segment.name for segment in self._sealed),
            closing=tuple(self._closing),
            is_writing=self._in_flight is not None and not self._in_flight.is_written,
        )

    def __repr__(self) -> str:
        return f"<SegmentStore w{self._worker} {self.snapshot()}>"

    # Segments.

    def _all_open(self) -> Iterator[_Open]:
        yield from self._sealed
        if self._current is not None:
            yield self._current

    def _segment_for(self, size: int, moment_us: int) -> _Open:
        current = self._current
        if current is not None and (
            current.length >= self._max_bytes or current.length + size > MAX_SEGMENT_BYTES
        ):
            self._seal()
        if self._current is None:
            self._current = self._begin(moment_us)
        return self._current

    def _begin(self, moment_us: int) -> _Open:
        """Begin a segment.

        Its warcinfo and journal header wait in memory for the first record, so that no file
        consists of them alone.
        """
        self._number += 1
        name = layout.stem(
            self._info.crawl, self._worker, self._number, moment_us / 1_000_000, self._term
        )
        warcinfo_id = warc_records.record_id(self._chance)
        data = warc_records.warcinfo(
            self._info, warcinfo_id, moment_us, layout.warc_name(name), self._section.gzip_level
        )
        header = SegmentHeader(
            format=RENDERS_FORMAT if self._has_renders else JOURNAL_FORMAT,
            segment=name,
            crawl=self._info.crawl,
            created_us=moment_us,
            warcinfo_id=warcinfo_id,
            warcinfo_length=len(data),
            info=self._info.digest(),
            options=options_of(self._section) | ({RENDERS: True} if self._has_renders else {}),
            extractors=self._rows.extractors,
            policy=self.policy,
        )
        segment = _Open(header, 0, 0)
        segment.add_record(
            Member((data,), len(data), 0, len(data), 0), journal.encode_header(header)
        )
        # The header alone is no reason for a commit to write the segment.
        segment.has_news = False
        return segment

    def _seal(self) -> None:
        """Seal the current segment. A segment without records is dropped."""
        current, self._current = self._current, None
        if current is not None and (current.has_news or current.part.start):
            self._sealed.append(current)

    def _is_old(self, segment: _Open, now: float) -> bool:
        return now - segment.header.created_us / 1_000_000 >= self._section.segment_age_s

    def _note_written(self) -> None:
        """Apply the journal lengths that the last write determined."""
        if self._in_flight is not None:
            for segment in self._all_open():
                segment.journal_length = self._in_flight.journal_lengths.get(
                    segment.name, segment.journal_length
                )
            self._in_flight = None

    def _may_continue(self, segment: _Open) -> bool:
        header, section = segment.header, self._section
        same = header.info == self._info.digest() and header.format <= RENDERS_FORMAT
        options = options_of(section) | {RENDERS: header.options.get(RENDERS, False)}
        return (
            same
            and header.policy == self.policy
            and header.extractors == self._rows.extractors
            and wanted_kinds(header.options) == wanted_kinds(options)
            and segment.length < self._max_bytes
        )
