"""The checks that read every segment of a crawl, one segment after the other.

They are the same for a folder and for a cluster, whose segments are downloaded first.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from lycosa.base.model.fetched import FetchKind
from lycosa.inspect.audit.audit_report import AuditReport, Check, OnAuditProgress
from lycosa.inspect.audit.audited_segments import Segment
from lycosa.inspect.audit.capture_index import CaptureIndex, once_check
from lycosa.inspect.audit.derived_check import DerivedChecks
from lycosa.inspect.audit.link_check import LinkCheck
from lycosa.inspect.audit.record_check import RecordChecks
from lycosa.inspect.audit.robots_check import RobotsAudit
from lycosa.inspect.audit.unparsed_check import UnparsedCheck
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.saved_settings import SavedSettings
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.layout import warc_name

_STEP = 500


class CaptureChecks:
    """Call ``check_segment`` for each segment, then ``finish``.

    ``report`` says which part of the records is read, and whether the crawl is running.
    """

    def __init__(
        self,
        reader: CrawlReader,
        saved: SavedSettings,
        views: Mapping[int, TableView],
        report: AuditReport,
        progress: OnAuditProgress,
    ) -> None:
        self._saved, self._share, self._progress = saved, report.share, progress
        self._captured = sum(view.counters().captures for view in views.values())
        self._done = self._outside = 0
        self.index, self.once = CaptureIndex(), once_check()
        self.records = RecordChecks(
            Check(
                "warc",
                "WARC records against the journal: place, names, dates, recomputed digests",
            )
        )
        self.derived = DerivedChecks()
        self.robots = RobotsAudit(reader, saved.config, report.is_running)
        self.links = LinkCheck(reader, saved, views)
        self.unparsed = UnparsedCheck(reader, views)

    def check_segment(self, folder: Path, segment: Segment) -> None:
        """Check a segment, whose files are in ``folder``."""
        records, derived = self.records, self.derived
        records.begin_segment(segment)
        derived.begin_segment(folder, segment)
        for row in rows_of_segment(segment, records.check):
            self._done += 1
            if self._done % _STEP == 0:
                self._progress("captures", self._done, self._captured)
            self._outside += bool(row.fetcher)
            records.check_place(row)
            derived.check_row(row)
            self.unparsed.check_row(row)
            if row.kind is not FetchKind.ROBOTS:
                self.index.add_capture(
                    row.url, row.fetch_number, warc_name(row.segment), row.offset
                )
            record = records.read_record(segment, row) if self._is_wanted(row) else None
            self.robots.check_row(row, record)
            if record is not None:
                self.links.check_row(self.unparsed.as_parsed(row), record)
        records.end_segment()
        derived.end_segment()

    def finish(self, again: Callable[[], CrawlReader] | None) -> None:
        """Make the checks that need all rows; ``again`` as in ``LinkCheck``."""
        self.robots.finish_check()
        self.links.finish_check(again)
        self.unparsed.finish_check()
        self.links.check.add_note(f"{self.links.pages} pages parsed again")
        if self._outside:
            self.records.check.add_note(
                f"{self._outside} captures are of requests that outside fetchers report: they are"
                " not in the attempt log, so their pauses are not proved"
            )
        if not self._saved.is_recorded:
            self.links.check.add_note(
                "the folder has no settings.json, so the checks used the default settings"
            )

    def all_checks(self) -> list[Check]:
        """The checks apart from those of derived files; ``once`` is the last."""
        return [
            self.unparsed.check,
            self.links.check,
            self.robots.check,
            self.records.check,
            self.once,
        ]

    def _is_wanted(self, row: JournalRow) -> bool:
        """Whether the record is read: every robots.txt, and always the same share of all others."""
        return (
            row.kind is FetchKind.ROBOTS or zlib.crc32(row.record_id.encode()) < self._share * 2**32
        )


def rows_of_segment(segment: Segment, check: Check) -> Iterator[JournalRow]:
    """The rows of a segment; a journal that cannot be read is a breach."""
    try:
        yield from segment.rows()
    except JournalError as error:
        check.expect(False, str(error))
