"""The audit: a crawl's guarantees checked from its folder alone.

Each of six questions is answered from another source than the code that wrote the state. Do
records, queues and counters agree? Was every fetched document parsed? Does every link of the stored
pages have a record? Did every host and address get its delay? Would the stored robots.txt files
decide the same again? Do WARC, journal and derived files have the same captures, each once? Nothing
is written, and only committed data is read, so a crawl that was killed is audited as it is.

**With a running crawl** the logs and tables of several workers are read one after the other, so a
later one may be ahead of an earlier one. Checks that hold only for a stopped crawl are left out.
Segments and requests that began after the start of the audit are skipped. A link without a record
is looked up once more at the end, because its parcel may have been between two workers. When a
crawl starts while its folder is audited, the audit begins again.

Memory is bounded by 16 bytes a capture, 16 an attempt and 8 for each URL waiting at one host;
everything else streams.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import msgspec

from lycosa.inspect.audit.audit_report import AuditReport, Check, OnAuditProgress
from lycosa.inspect.audit.audited_segments import Segment, committed_lengths, segments
from lycosa.inspect.audit.capture_checks import CaptureChecks, rows_of_segment
from lycosa.inspect.audit.capture_index import find_repeated
from lycosa.inspect.audit.politeness_check import PolitenessChecks
from lycosa.inspect.audit.removed_check import RemovedCheck
from lycosa.inspect.audit.seen_check import check_seen
from lycosa.inspect.audit.state_check import StateChecks
from lycosa.inspect.committed_state import CrawlReader, TableView, read_folder
from lycosa.inspect.running import is_running
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.store import layout

DEFAULT_SAMPLE = 2000


class AuditOptions(msgspec.Struct, frozen=True):
    """Options of an audit.

    ``sample`` is the number of captures whose records are read and parsed again (0 = all);
    ``hosts`` lists every host's pauses.
    """

    sample: int = DEFAULT_SAMPLE
    hosts: bool = False


_DEFAULTS = AuditOptions()


def audit(
    folder: Path,
    options: AuditOptions = _DEFAULTS,
    progress: OnAuditProgress = lambda what, done, total: None,
) -> AuditReport:
    """Run all checks and return the report.

    Blocks: about 1.3 ms for each capture whose record is read and parsed again, 0.25 ms for each
    other one. Raises what ``FolderView`` and ``load_saved_settings`` raise when the folder cannot
    be read at all; every other fault becomes a breach.
    """
    started = time.monotonic()
    is_live = is_running(folder)
    while True:
        try:
            report = _audit(folder, is_live, options, progress)
        except Exception:
            if is_live or not is_running(folder):
                raise
        else:
            if is_live or not is_running(folder):
                report.elapsed_s = time.monotonic() - started
                return report
        is_live = True  # the crawl started meanwhile, so the results may be of two different states


def _audit(
    folder: Path, is_live: bool, options: AuditOptions, progress: OnAuditProgress
) -> AuditReport:
    with _Audit(folder, is_live, options, progress) as run:
        run.captures()
        run.state()
        run.politeness()
        return run.report


class _Audit:
    """One audit in progress: the views of all partitions stay open until its end."""

    def __init__(
        self, folder: Path, is_live: bool, options: AuditOptions, progress: OnAuditProgress
    ) -> None:
        self._began = time.time()
        # before the logs are read
        self._closed = (
            {*layout.closed_segments(folder), *layout.removed_names(folder, layout.WARC)}
            if is_live
            else None
        )
        self._folder, self._source = folder, FolderView(folder)
        self._reader = CrawlReader(self._source)
        self._saved = load_saved_settings(self._reader)
        self._options, self._progress = options, progress
        self._open = contextlib.ExitStack()
        self._views: dict[int, TableView] = {}
        self.report = AuditReport(
            folder=str(folder), crawl=self._reader.manifest.crawl, is_running=is_live, share=1.0
        )
        self._segments: list[Segment] = []

    def __enter__(self) -> _Audit:
        for number in range(self._reader.partitions):
            self._views[number] = self._open.enter_context(self._reader.partition_view(number))
        counters = [view.counters() for view in self._views.values()]
        self._discovered = sum(each.discovered for each in counters)
        self._captured = sum(each.captures for each in counters)
        if self._options.sample and self._captured > self._options.sample:
            self.report.share = self._options.sample / self._captured
        self._checks = CaptureChecks(
            self._reader, self._saved, self._views, self.report, self._progress
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    # -- captures

    def captures(self) -> None:
        """Check every segment: rows, records, derived files, links and robots decisions."""
        self._segments = segments(
            self._folder,
            self._source.seen.last.lengths,
            self._checks.records.check,
            self._closed,
        )
        for segment in self._segments:
            self._checks.check_segment(self._folder, segment)
        self._checks.derived.check_strangers(self._folder, self._segments)
        self._checks.finish(self._again if self.report.is_running else None)
        self.report.checks += [*self._checks.all_checks()[:-1], self._once()]
        self.report.checks += self._checks.derived.all_checks()
        removed = RemovedCheck(self.report.share, self._progress)
        removed.check_folder(self._folder)
        if removed.check.checked or removed.unread:
            self.report.checks.append(removed.check)
        self.report.unread += removed.unread
        if unread := self._checks.records.unread:
            self.report.unread.append(f"{unread} WARC records of such files")

    def _again(self) -> CrawlReader:
        """The crawl as it is committed now."""
        return read_folder(self._folder)

    def _once(self) -> Check:
        check, index = self._checks.once, self._checks.index
        rows = (row for segment in self._segments for row in rows_of_segment(segment, check))
        find_repeated(check, index, rows)
        told = self._captured
        is_right = told >= len(index) if self.report.is_running else told == len(index)
        check.expect(is_right, f"the counters say {told} captures, the journals hold {len(index)}")
        return check

    # -- state

    def state(self) -> None:
        """Check every partition, and URL-seen when the crawl does not run."""
        lengths = committed_lengths(self._segments) if self.report.is_running else None
        checks = StateChecks(self._checks.index, lengths, self._progress)
        seen = Check("url-seen", "URLs with a record against URL-seen, both ways")
        for view in self._views.values():
            checks.check_partition(view, self._discovered)
            if not self.report.is_running:
                check_seen(seen, self._folder, view)
        if self.report.is_running:
            seen.add_note("left out: the crawl is running and changes its file and memory")
        else:
            made, held = checks.fetches, len(self._checks.index)
            checks.records.expect(
                made == held, f"the records count {made} fetches, the journals hold {held} captures"
            )
        self.report.checks[:0] = [
            *checks.all_checks(),
            seen,
            *([] if self.report.is_running else [self._logs()]),
        ]

    def _logs(self) -> Check:
        """Check logs against tables: a state without its log is older, and otherwise consistent."""
        check = Check(
            "commit log",
            "tables against the commit logs: no table has a commit later than the end of all logs",
        )
        newest = self._source.seen.last.newest
        for number in self._views:
            flushed = self._source.flushed(number)
            held = f"partition {number} holds commit {flushed.sequence} of run {flushed.term}"
            ends = f"the logs end at {newest.sequence} of {newest.term}"
            check.expect(flushed <= newest, f"{held}, {ends}: a log lost its end or is missing")
        return check

    # -- politeness

    def politeness(self) -> None:
        """Check the attempt logs."""
        checks = PolitenessChecks(
            self._saved.config.politeness,
            self._options.hosts,
            self._progress,
            self._began if self.report.is_running else None,
        )
        checks.run(self._folder)
        self.report.checks += checks.all_checks()
        self.report.hosts = sorted(checks.paces.values(), key=lambda pace: pace.margin_s)
