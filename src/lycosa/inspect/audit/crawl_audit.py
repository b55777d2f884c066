"""The audit: the guarantees of a crawl, checked through a view of it.

Each question is answered from another source than the code that wrote the state. Do records, queues
and counters agree? Was every fetched document parsed? Does every link of the stored pages have a
record? Did every host and address get its delay? Would the stored robots.txt files decide the same
again? Do WARC, journal and derived files have the same captures, each once? Nothing is written, and
only committed data is read, so a crawl that was killed is audited as it is.

A crawl folder, a running worker, a snapshot and a cluster are audited alike. ``AUDIT_CHECKS`` is
the table of all checks: those that need only a view, and those that need something that only some
crawls have. What a crawl does not have is left out.

Memory is bounded by 16 bytes a capture, 16 an attempt and 8 for each URL waiting at one host;
everything else streams.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from lycosa.inspect.audit.audit_report import AuditReport, Check, OnAuditProgress
from lycosa.inspect.audit.audited_segments import Segment
from lycosa.inspect.audit.capture_checks import CaptureChecks, SegmentChecks
from lycosa.inspect.audit.capture_index import find_repeated
from lycosa.inspect.audit.cold_check import check_cold
from lycosa.inspect.audit.derived_check import DerivedChecks
from lycosa.inspect.audit.pages_feed import check_feed
from lycosa.inspect.audit.parcel_check import ParcelChecks
from lycosa.inspect.audit.politeness_check import AttemptLogs, PolitenessChecks
from lycosa.inspect.audit.removed_check import RemovedCheck
from lycosa.inspect.audit.seen_check import check_seen
from lycosa.inspect.audit.snapshot_check import check_snapshots
from lycosa.inspect.audit.state_check import StateChecks
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.state.shard.counters import total_of
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.shard.view import CrawlView
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import JournalRow

if TYPE_CHECKING:
    from lycosa.cluster.shards.opened_cluster import OpenedCluster

DEFAULT_SAMPLE = 2000
_Need = TypeVar("_Need")


class AuditOptions(msgspec.Struct, frozen=True):
    """Options of an audit.

    ``sample`` is the number of captures whose records are read and parsed again (0 = all);
    ``hosts`` lists every host's pauses.
    """

    sample: int = DEFAULT_SAMPLE
    hosts: bool = False


class AuditedFiles(Protocol):
    """The WARC files, journals and derived files of a crawl's segments."""

    are_sealed: bool
    """Whether derived files are stored before their journal."""

    def segments(self, check: Check, share: float) -> Iterator[Segment]:
        """Every segment; its files are certain to be there until the next one is asked for.

        Missing committed bytes are breaches of ``check``. ``share`` is the part of the records that
        will be read.
        """
        ...

    def check_strangers(self, derived: DerivedChecks) -> None:
        """Find derived files of no segment, after the last segment."""
        ...


class AuditedCrawl(msgspec.Struct, frozen=True):
    """A crawl to audit: a view of it, and what else can be read of this crawl.

    The files of its segments, its attempt logs; the folder, if it has one; the services of the
    cluster, if it is on one. ``reads_feed`` asks for the topic of captures, too.

    With ``again`` the tables were not read at one moment, and may be some commits later than the
    journals: it reads the crawl once more. Otherwise both are of the same commits; a running worker
    must not close a segment meanwhile.
    """

    view: CrawlView
    is_running: bool
    files: AuditedFiles | None = None
    attempts: AttemptLogs | None = None
    folder: FolderView | None = None
    cluster: OpenedCluster | None = None
    reads_feed: bool = False
    again: Callable[[], CrawlReader] | None = None


def no_progress(what: str, done: int, total: int) -> None:
    """Show nothing."""


DEFAULT_OPTIONS = AuditOptions()


def audit_crawl(
    crawl: AuditedCrawl,
    options: AuditOptions = DEFAULT_OPTIONS,
    progress: OnAuditProgress = no_progress,
) -> AuditReport:
    """Make all checks of ``AUDIT_CHECKS`` for which the crawl has what they need.

    Blocks: about 1.3 ms for each capture whose record is read and parsed again, 0.25 ms for each
    other one. Raises what the view and ``load_saved_settings`` raise when the crawl cannot be read
    at all; every other fault becomes a breach.
    """
    started = time.monotonic()
    with ExitStack() as open_tables:
        run = _Audit(crawl, options, progress, open_tables)
        for make in AUDIT_CHECKS:
            run.report.checks += make(run)
        run.report.elapsed_s = time.monotonic() - started
        return run.report


class _Audit:
    """One audit in progress: the tables of all partitions stay open until its end."""

    def __init__(
        self,
        crawl: AuditedCrawl,
        options: AuditOptions,
        progress: OnAuditProgress,
        open_tables: ExitStack,
    ) -> None:
        self.crawl, self.options, self.progress = crawl, options, progress
        self.reader = CrawlReader(crawl.view)
        self.saved = load_saved_settings(self.reader)
        self.views: dict[int, TableView] = {
            number: open_tables.enter_context(self.reader.partition_view(number))
            for number in self.reader.here
        }
        counters = [view.counters() for view in self.views.values()]
        self.discovered = sum(each.discovered for each in counters)
        self.captured = sum(each.captures for each in counters)
        self.items = total_of(counters).items
        sample = options.sample
        self.positions = dict(sorted(crawl.view.seen.shards.items()))
        self.report = AuditReport(
            folder=self.reader.name,
            crawl=self.reader.manifest.crawl,
            is_running=crawl.is_running,
            share=sample / self.captured if sample and self.captured > sample else 1.0,
            shards=list(self.positions.values()),
        )

    @cached_property
    def parcels(self) -> ParcelChecks | None:
        """The parcels between the shards of a cluster.

        The inboxes are read after all tables, so a parcel that has left its sender is found there,
        or was taken.
        """
        cluster = self.crawl.cluster
        if cluster is None:
            return None
        finals = {number: each.is_final for number, each in self.positions.items()}
        checks = ParcelChecks(self.views, finals)
        checks.run(lambda shard: cluster.read_inbox(shard, self.positions[shard].inbox))
        return checks

    @cached_property
    def captures(self) -> CaptureChecks:
        """The captures of all segments, each read once."""
        captures = CaptureChecks(self.reader, self.views, self.captured, self.progress)
        files, segments = self.crawl.files, self.segments
        if files is None or segments is None:
            for row in self.rows(captures.once):
                captures.check_row(row)
        else:
            for segment in files.segments(segments.records.check, self.report.share):
                segments.check_segment(segment, captures)
            segments.derived.note_code()
            files.check_strangers(segments.derived)
            segments.finish(captures, self.crawl.again)
        captures.unparsed.finish_check()
        find_repeated(captures.once, captures.index, self.rows(captures.once))
        told, held = self.captured, len(captures.index)
        captures.once.expect(
            told == held or (told > held and self.crawl.again is not None),
            f"the counters say {told} captures, the journals hold {held}",
        )
        for name, number in self.items.items():
            # A capture whose URL was leased again meanwhile is stored, and its items not counted.
            stored = captures.items.get(name, 0)
            captures.once.expect(
                number <= stored or self.crawl.again is not None,
                f"the counters say {number} items of {name}, the journals hold {stored}",
            )
        return captures

    @cached_property
    def segments(self) -> SegmentChecks | None:
        """The checks of the files of segments, if they can be read."""
        files, parcels = self.crawl.files, self.parcels
        in_topics = parcels.in_topics if parcels is not None else frozenset[bytes]()
        return (
            SegmentChecks(
                self.reader, self.saved, self.views, self.report, files.are_sealed, in_topics
            )
            if files is not None
            else None
        )

    def rows(self, check: Check) -> Iterator[JournalRow]:
        """Every committed row; unreadable journals are breaches."""
        for segment in self.crawl.view.list_segments():
            try:
                if segment.journal_length is None:
                    check.add_breach(f"the journal of {segment.name} is missing")
                else:
                    yield from self.crawl.view.read_rows(segment)
            except (JournalError, OSError) as error:
                # Counted and not raised: one damaged journal must not hide what the others show.
                check.add_breach(str(error))


def _state(run: _Audit) -> list[Check]:
    """Every partition recounted."""
    captures, is_later = run.captures, run.crawl.again is not None
    # a record may name a capture behind the part of a file that was read
    checks = StateChecks(captures.index, captures.lengths if is_later else None, run.progress)
    for view in run.views.values():
        checks.check_partition(view, run.discovered)
    made, held = checks.fetches, len(captures.index)
    if not is_later:
        checks.records.expect(
            made == held, f"the records count {made} fetches, the journals hold {held} captures"
        )
    return checks.all_checks()


def _url_seen(run: _Audit, folder: FolderView) -> list[Check]:
    """URL-seen is a file of the owner. In a cluster the next owner rebuilds it from the table."""
    check = Check("url-seen", "URLs with a record against URL-seen, both ways")
    if run.crawl.is_running:
        check.add_note("left out: the crawl is running and changes its file and memory")
    else:
        for view in run.views.values():
            check_seen(check, folder.path, view)
    return [check]


def _commit_log(run: _Audit, folder: FolderView) -> list[Check]:
    """Logs against tables: a state without its log is older, and otherwise consistent."""
    check = Check(
        "commit log",
        "tables against the commit logs: no table has a commit later than the end of all logs",
    )
    newest = folder.seen.last.newest
    for number in run.views:
        flushed = folder.flushed(number)
        held = f"partition {number} holds commit {flushed.sequence} of run {flushed.term}"
        ends = f"the logs end at {newest.sequence} of {newest.term}"
        check.expect(flushed <= newest, f"{held}, {ends}: a log lost its end or is missing")
    return [check]


def _parcels(run: _Audit) -> list[Check]:
    """Parcels between shards: none may be lost."""
    return [run.parcels.check] if run.parcels is not None else []


def _snapshots(run: _Audit, cluster: OpenedCluster) -> list[Check]:
    """What the next owner of each shard would start from."""
    return [check_snapshots(cluster.objects, run.report.shards)]


def _captures(run: _Audit) -> list[Check]:
    """Every capture, and the files of its segment if they can be read."""
    captures, segments = run.captures, run.segments
    if segments is None:
        return [captures.unparsed.check, captures.once]
    return [
        captures.unparsed.check,
        segments.links.check,
        segments.robots.check,
        # only crawls with some purposes request these files
        *([segments.tdm.check] if segments.tdm.has_statements else []),
        segments.records.check,
        *([segments.renders.check] if segments.renders.has_renders else []),
        captures.once,
        *segments.derived.all_checks(),
    ]


def _removed(run: _Audit, folder: FolderView) -> list[Check]:
    """Files of the folder that only a store has."""
    removed = RemovedCheck(run.report.share, run.progress)
    removed.check_folder(folder.path)
    run.report.unread += removed.unread
    if run.segments is not None and (unread := run.segments.records.unread):
        run.report.unread.append(f"{unread} WARC records of such files")
    return [removed.check] if removed.check.checked or removed.unread else []


def _politeness(run: _Audit, logs: AttemptLogs) -> list[Check]:
    """Every pause of every host and address, after the captures, which prove own hosts."""
    checks = PolitenessChecks(
        run.saved.config.politeness,
        run.options.hosts,
        run.progress,
        logs.until,
        logs.nodes,
        logs.clock_tolerance_s,
        run.segments.own if run.segments is not None else None,
    )
    run.report.unproven = checks.check_logs(logs.read(run.progress))
    run.report.clock_tolerance_s = logs.clock_tolerance_s
    run.report.hosts = sorted(checks.paces.values(), key=lambda pace: pace.margin_s)
    return checks.all_checks()


def _feed(run: _Audit, cluster: OpenedCluster) -> list[Check]:
    """The topic of captures against the segments."""
    return [check_feed(cluster.read_feed, run.crawl.view, run.progress)]


def _if(
    need: Callable[[AuditedCrawl], _Need | None], make: Callable[[_Audit, _Need], list[Check]]
) -> Callable[[_Audit], list[Check]]:
    """The checks that ``make`` makes, for a crawl that has what they need; otherwise none."""

    def make_or_leave_out(run: _Audit) -> list[Check]:
        found = need(run.crawl)
        return make(run, found) if found is not None else []

    return make_or_leave_out


AUDIT_CHECKS: tuple[Callable[[_Audit], list[Check]], ...] = (
    # first, because it leaves out files that no other check could read
    lambda run: check_cold(run.reader, run.views.values()),
    _state,
    _if(lambda crawl: crawl.folder, _url_seen),
    # the logs of a running crawl grow while its tables are read
    _if(lambda crawl: None if crawl.is_running else crawl.folder, _commit_log),
    _parcels,
    _if(lambda crawl: crawl.cluster, _snapshots),
    _captures,
    _if(lambda crawl: crawl.folder, _removed),
    _if(lambda crawl: crawl.attempts, _politeness),
    _if(lambda crawl: crawl.cluster if crawl.reads_feed else None, _feed),
)
"""All checks in the order of the report, each with what it needs of the crawl besides a view."""
