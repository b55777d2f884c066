"""The audit of a crawl on many machines, from any machine that reaches Kafka and the objects.

The questions are those of the audit of a folder (``run``), and two more. Is every parcel between
two shards in its sender's outbox, in the topic, or taken? Is all there from which the next owner of
a shard would start? State is recounted in the tables of all
shards as of their last commits. Each sealed segment, and the committed parts of each open one, are
downloaded, checked by the same code as a folder's segments, and deleted again. Politeness is judged
by the attempt logs that the workers sent; what these cannot prove is listed and is no breach.

The tables of a shard and its segments are of the same commit (``cluster_view``), so these checks
hold while the crawl runs too. The inboxes are read after all tables, so a parcel that has left its
sender is found there, or was taken.

URL-seen is not checked: it belongs to the worker that owns the shard, which rebuilds it from the
table whenever it does not fit.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.inspect.audit.audit_report import AuditReport, Check, OnAuditProgress
from lycosa.inspect.audit.audited_segments import Segment, warc_reader
from lycosa.inspect.audit.capture_checks import CaptureChecks
from lycosa.inspect.audit.capture_index import find_repeated
from lycosa.inspect.audit.cluster_attempts import NODE_CLOCKS_S, ClusterPoliteness, EarlierFiles
from lycosa.inspect.audit.folder_audit import AuditOptions
from lycosa.inspect.audit.pages_feed import check_feed
from lycosa.inspect.audit.parcel_check import ParcelChecks
from lycosa.inspect.audit.snapshot_check import check_snapshots
from lycosa.inspect.audit.state_check import StateChecks
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.state.attempts.shipping import last_files
from lycosa.state.objects.cached import download
from lycosa.state.objects.objects_port import StoredObject
from lycosa.state.store import StoredSegment, layout
from lycosa.state.store.derived_files import DERIVED_KINDS
from lycosa.state.store.journal import JournalError, read_header
from lycosa.state.store.journal_rows import JournalRow

_WHOLE_FROM = 0.5  # of the records to be read: then the WARC is downloaded in one piece


def audit_cluster(
    opened: OpenedCluster,
    options: AuditOptions,
    reads_feed: bool = False,
    progress: OnAuditProgress = lambda what, done, total: None,
) -> AuditReport:
    """Run all checks and return the report. Blocks.

    With ``reads_feed`` the topic of captures is compared with the segments. Raises what opening a
    shard raises; every other fault becomes a breach.
    """
    started = time.monotonic()
    opened.view.open_shards()
    with _ClusterAudit(opened, options, progress) as run:
        run.parcels()
        run.snapshots()
        run.captures()
        run.state()
        run.attempts()
        if reads_feed:
            run.feed()
        run.report.elapsed_s = time.monotonic() - started
        return run.report


class _ClusterAudit:
    """One audit in progress."""

    def __init__(
        self, opened: OpenedCluster, options: AuditOptions, progress: OnAuditProgress
    ) -> None:
        self._opened, self._view = opened, opened.view
        self._options, self._progress = options, progress
        self._reader = CrawlReader(self._view)
        self._saved = load_saved_settings(self._reader)
        self._positions = dict(sorted(self._view.shards.items()))
        self._open = contextlib.ExitStack()
        self._views: dict[int, TableView] = {}
        self.report = AuditReport(
            folder=self._reader.name,
            crawl=self._reader.manifest.crawl,
            is_running=not all(each.is_final for each in self._positions.values()),
            share=1.0,
            shards=list(self._positions.values()),
            clock_tolerance_s=NODE_CLOCKS_S,
        )

    def __enter__(self) -> _ClusterAudit:
        for number in self._positions:
            self._views[number] = self._open.enter_context(self._reader.partition_view(number))
        self._captured = sum(view.counters().captures for view in self._views.values())
        if self._options.sample and self._captured > self._options.sample:
            self.report.share = self._options.sample / self._captured
        self._checks = CaptureChecks(
            self._reader, self._saved, self._views, self.report, self._progress
        )
        self._checks.derived.are_sealed = True
        self._work = Path(
            self._open.enter_context(
                tempfile.TemporaryDirectory(prefix="lycosa-audit-", dir=self._opened.cache)
            )
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def parcels(self) -> None:
        """Check the parcels between shards; the inboxes are read now."""
        finals = {number: each.is_final for number, each in self._positions.items()}
        parcels = ParcelChecks(self._views, finals)
        parcels.run(lambda shard: self._opened.read_inbox(shard, self._positions[shard].inbox))
        self._checks.links.in_topics = parcels.in_topics
        self.report.checks.append(parcels.check)

    def snapshots(self) -> None:
        """Check what the next owner of each shard would start from."""
        self.report.checks.append(
            check_snapshots(self._opened.objects, list(self._positions.values()))
        )

    def captures(self) -> None:
        """Download and check every segment."""
        segments = self._view.list_segments()
        stored = self._stored_files()
        for number, segment in enumerate(segments, 1):
            self._progress("segments", number, len(segments))
            folder = self._work / segment.name
            try:
                if (here := self._downloaded(segment, stored, folder)) is not None:
                    self._checks.check_segment(folder, here)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        if not self.report.is_running:
            self._strangers({segment.name for segment in segments}, stored)
        self._checks.finish(None)
        self._once(segments)
        self.report.checks += [*self._checks.all_checks(), *self._checks.derived.all_checks()]

    def _stored_files(self) -> dict[str, StoredObject]:
        """All files of sealed segments, by key."""
        kinds = [layout.WARC, layout.JOURNAL, *DERIVED_KINDS]
        return {each.key: each for kind in kinds for each in self._opened.objects.list(f"{kind}/")}

    def _downloaded(
        self, stored: StoredSegment, files: dict[str, StoredObject], folder: Path
    ) -> Segment | None:
        """The files of a segment in ``folder``, as in a crawl folder."""
        check, name = self._checks.records.check, stored.name
        suffix = "" if stored.is_closed else layout.OPEN
        warc, journal = (
            folder / (layout.file_name(kind, name) + suffix)
            for kind in (layout.WARC, layout.JOURNAL)
        )
        if stored.is_closed and layout.file_name(layout.WARC, name) not in files:
            check.add_breach(f"{layout.file_name(layout.WARC, name)} is missing")
            return None
        journal.parent.mkdir(parents=True)
        with journal.open("xb") as target:
            target.writelines(self._view.read_journal(stored))
        size = journal.stat().st_size
        if size != (stored.journal_length or 0):
            check.add_breach(
                f"{layout.file_name(layout.JOURNAL, name)}: {size} bytes are stored, and"
                f" {stored.journal_length} were committed"
            )
        try:
            header = read_header(journal)
        except JournalError as error:
            check.add_breach(str(error))
            return None
        for kind in DERIVED_KINDS if stored.is_closed else ():
            found = files.get(layout.file_name(kind, name))
            if found is not None:
                (folder / kind).mkdir(exist_ok=True)
                download(self._opened.objects, found, folder / found.key)
        return Segment(
            name,
            stored.is_closed,
            header,
            warc,
            stored.length,
            journal,
            None if stored.is_closed else stored.journal_length,
            self._warc_reader(stored, files, warc),
        )

    def _warc_reader(
        self, stored: StoredSegment, files: dict[str, StoredObject], warc: Path
    ) -> Callable[[int, int], bytes]:
        """Read a WARC from the store, or from a copy when most of it will be read."""
        found = files.get(layout.file_name(layout.WARC, stored.name))
        if stored.is_closed and found is not None and self.report.share > _WHOLE_FROM:
            warc.parent.mkdir()
            download(self._opened.objects, found, warc)
            return warc_reader(warc)
        return lambda start, end: self._view.read_warc(stored.name, start, end)

    def _strangers(self, names: set[str], stored: dict[str, StoredObject]) -> None:
        """Find derived files that belong to no segment: readers would take them for captures."""
        checks = {check.name: check for check in self._checks.derived.all_checks()}
        for key in stored:
            kind = key.partition("/")[0]
            if kind in checks and layout.stem_of(key) not in names:
                checks[kind].add_breach(f"{key} belongs to no segment of this crawl")

    def _once(self, segments: list[StoredSegment]) -> None:
        check, index = self._checks.once, self._checks.index
        find_repeated(check, index, self._rows(segments, check))
        check.expect(
            self._captured == len(index),
            f"the counters say {self._captured} captures, the journals hold {len(index)}",
        )

    def _rows(self, segments: list[StoredSegment], check: Check) -> Iterator[JournalRow]:
        for segment in segments:
            try:
                yield from self._view.read_rows(segment)
            except JournalError as error:
                check.expect(False, str(error))

    def state(self) -> None:
        """Recount the tables of all shards."""
        index = self._checks.index
        checks = StateChecks(index, None, self._progress)
        total = sum(view.counters().discovered for view in self._views.values())
        for view in self._views.values():
            checks.check_partition(view, total)
        checks.records.expect(
            checks.fetches == len(index),
            f"the records count {checks.fetches} fetches, the journals hold {len(index)}",
        )
        self.report.checks[:0] = checks.all_checks()

    def attempts(self) -> None:
        """Judge politeness by the attempt logs that were sent."""
        files = {}
        for number in self._positions:
            self._progress("shards' attempt logs", number + 1, len(self._positions))
            files[number] = self._opened.attempt_files(number)
        politeness = ClusterPoliteness(
            self._saved.config.politeness,
            self._opened.given.nodes,
            self._options.hosts,
            self._progress,
        )
        for earlier in self._earlier():
            politeness.run_earlier(earlier)
        politeness.run(
            files,
            {number: each.owner_term for number, each in self._positions.items()},
            {number: last_files(self._opened.objects, number) for number in self._positions},
            self._opened.stored.manifest.first_term,
        )
        checks = politeness.checks
        self.report.checks += checks.all_checks()
        self.report.hosts = sorted(checks.paces.values(), key=lambda pace: pace.margin_s)
        self.report.unproven = politeness.unproven

    def _earlier(self) -> Iterator[EarlierFiles]:
        """The attempt logs of the owners before each import, the oldest first."""
        first_term = 1
        for owners in self._opened.stored.manifest.earlier:
            store = self._opened.objects_of(owners)
            yield EarlierFiles(
                owners,
                {
                    number: self._opened.earlier_files(owners, number)
                    for number in range(owners.owners)
                },
                {each: last_files(store, each) for each in range(owners.owners)},
                first_term,
            )
            first_term = owners.term + 2

    def feed(self) -> None:
        """Compare the topic of captures with the segments."""
        self.report.checks.append(
            check_feed(self._opened, self._view, list(self._positions), self._progress)
        )
