"""The checks of captures: what their journal rows allow, and what the files of segments allow."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Set

from lycosa.inspect.audit.audit_report import AuditReport, Check, OnAuditProgress
from lycosa.inspect.audit.audited_segments import Segment
from lycosa.inspect.audit.capture_index import CaptureIndex, once_check
from lycosa.inspect.audit.derived_check import DerivedChecks
from lycosa.inspect.audit.link_check import LinkCheck
from lycosa.inspect.audit.own_check import OwnFileAudit
from lycosa.inspect.audit.record_check import RecordChecks
from lycosa.inspect.audit.render_check import RenderChecks
from lycosa.inspect.audit.robots_check import RobotsAudit
from lycosa.inspect.audit.tdm_check import TdmAudit
from lycosa.inspect.audit.unparsed_check import UnparsedCheck
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.saved_settings import SavedSettings
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.layout import warc_name

_STEP = 500


class CaptureChecks:
    """What any view allows: every document was parsed, and no capture is stored twice.

    Call ``check_row`` for every capture. ``captured`` is the number of captures by the counters.
    """

    def __init__(
        self,
        reader: CrawlReader,
        views: Mapping[int, TableView],
        captured: int,
        progress: OnAuditProgress,
    ) -> None:
        self.index, self.once = CaptureIndex(), once_check()
        self.unparsed = UnparsedCheck(reader, views)
        self.outside = 0
        """Captures of requests that outside fetchers report."""
        self.lengths: dict[str, int] = {}
        """The committed length of each WARC that was checked, by its name in a ``Location``."""
        self.items: dict[str, int] = {}
        """Rows of user code in the journals, by extractor."""
        self._captured, self._progress, self._done = captured, progress, 0

    def check_row(self, row: JournalRow) -> None:
        """Check one capture."""
        self._done += 1
        if self._done % _STEP == 0:
            self._progress("captures", self._done, self._captured)
        self.outside += bool(row.fetcher)
        self.unparsed.check_row(row)
        self.count_items(row)
        if not row.kind.is_of_origin:
            self.index.add_capture(row.url, row.fetch_number, warc_name(row.segment), row.offset)

    def count_items(self, row: JournalRow) -> None:
        """Count the rows of user code that a capture or a render has."""
        for name, items in row.items.items():
            self.items[name] = self.items.get(name, 0) + len(items)


class SegmentChecks:
    """What the files of segments allow: WARC records, derived files, links, robots decisions,
    statements of tdmrep.json.

    Call ``check_segment`` for each segment, then ``finish``. ``report`` says which part of the
    records is read, and whether the crawl is running; ``are_sealed`` is of ``DerivedChecks``, and
    ``in_topics`` of ``LinkCheck``.
    """

    def __init__(
        self,
        reader: CrawlReader,
        saved: SavedSettings,
        views: Mapping[int, TableView],
        report: AuditReport,
        are_sealed: bool,
        in_topics: Set[bytes],
    ) -> None:
        self._saved, self._share = saved, report.share
        self.records = RecordChecks(
            Check(
                "warc",
                "WARC records against the journal: place, names, dates, recomputed digests",
            )
        )
        self.derived = DerivedChecks(are_sealed)
        self.robots = RobotsAudit(reader, saved.config, report.is_running)
        self.tdm = TdmAudit(reader, report.is_running)
        self.own = OwnFileAudit(saved.config.requests, report.is_running)
        self.links = LinkCheck(reader, saved, views, in_topics)
        self.renders = RenderChecks()

    def check_segment(self, segment: Segment, captures: CaptureChecks) -> None:
        """Check a segment."""
        records, derived = self.records, self.derived
        captures.lengths[warc_name(segment.name)] = segment.warc_length
        records.begin_segment(segment)
        derived.begin_segment(segment)
        for row in _rows_of_segment(segment, records.check):
            records.check_place(row)
            derived.check_row(row)
            if row.render is not None:
                self.renders.check_row(segment, row, self._is_wanted(row))
                self.links.check_render(row)
                captures.count_items(row)
                continue
            captures.check_row(row)
            record = records.read_record(segment, row) if self._is_wanted(row) else None
            self.robots.check_row(row, record)
            self.tdm.check_row(row, record)
            self.own.check_row(row, record)
            if record is not None:
                self.links.check_row(captures.unparsed.as_parsed(row), record)
        records.end_segment()
        derived.end_segment()

    def finish(self, captures: CaptureChecks, again: Callable[[], CrawlReader] | None) -> None:
        """Make the checks that need all rows; ``again`` as in ``LinkCheck``."""
        self.robots.finish_check()
        self.tdm.finish_check()
        self.links.finish_check(again)
        self.renders.finish_check(captures.index)
        self.links.check.add_note(f"{self.links.pages} pages parsed again")
        if captures.outside:
            self.records.check.add_note(
                f"{captures.outside} captures are of requests that outside fetchers report: they"
                " are not in the attempt log, so their pauses are not proved"
            )
        if not self._saved.is_recorded:
            self.links.check.add_note(
                "the folder has no settings.json, so the checks used the default settings"
            )

    def _is_wanted(self, row: JournalRow) -> bool:
        """Whether the record is read: every file about an origin, and always the same share of all
        others.
        """
        return row.kind.is_of_origin or zlib.crc32(row.record_id.encode()) < self._share * 2**32


def _rows_of_segment(segment: Segment, check: Check) -> Iterator[JournalRow]:
    """The rows of a segment; a journal that cannot be read is a breach."""
    try:
        yield from segment.rows()
    except JournalError as error:
        # The rows before the damage were checked, and the other segments follow.
        check.expect(False, str(error))
