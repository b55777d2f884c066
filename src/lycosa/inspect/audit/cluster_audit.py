"""The audit of a crawl on many machines, from any machine that reaches Kafka and the objects.

Two more questions are answered than for a folder. Is every parcel between two shards in its
sender's outbox, in the topic, or taken? Is all there from which the next owner of a shard would
start? Each sealed segment, and the committed parts of each open one, are downloaded, checked and
deleted again. Politeness is judged by the attempt logs that the workers sent; what these cannot
prove is listed and is no breach.

The tables of a shard and its segments are of the same commit (``cluster_view``), so all checks hold
while the crawl runs too.

URL-seen is not checked: it belongs to the worker that owns the shard, which rebuilds it from the
table whenever it does not fit.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from lycosa.base.messages.timeouts import ClusterRules
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.inspect.audit.audit_report import AuditReport, Check, OnAuditProgress
from lycosa.inspect.audit.audited_segments import Segment, warc_reader
from lycosa.inspect.audit.crawl_audit import AuditedCrawl, AuditOptions, audit_crawl, no_progress
from lycosa.inspect.audit.derived_check import DerivedChecks
from lycosa.inspect.audit.politeness_check import AttemptLogs, OwnersLogs
from lycosa.state.attempts.shipping import last_files
from lycosa.state.objects.cached import download
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import StoredObject
from lycosa.state.store import layout
from lycosa.state.store.derived_files import DERIVED_KINDS, ITEMS, item_version
from lycosa.state.store.item_versions import FAILED, MADE_NOTE, failed_key, note_key
from lycosa.state.store.journal import JournalError, read_header
from lycosa.state.store.segments_port import StoredSegment

_WHOLE_FROM = 0.5  # of the records to be read: then the WARC is downloaded in one piece
# A node is refused when its clock differs by more than some seconds from the coordinator's, so two
# of them may differ by twice as much.
_NODE_CLOCKS_S = 2 * ClusterRules().clock_off_s


def audit_cluster(
    opened: OpenedCluster,
    options: AuditOptions,
    reads_feed: bool = False,
    progress: OnAuditProgress = no_progress,
) -> AuditReport:
    """Audit the crawl of a cluster and return the report. Blocks.

    With ``reads_feed`` the topic of captures is compared with the segments. Raises what opening a
    shard raises, and as ``audit_crawl`` does.
    """
    opened.view.open_shards()
    is_running = not all(each.is_final for each in opened.view.shards.values())
    # In the cache folder, because a folder for temporary files may be in memory and a segment is
    # large.
    with tempfile.TemporaryDirectory(prefix="lycosa-audit-", dir=opened.cache) as work:
        crawl = AuditedCrawl(
            opened.view,
            is_running,
            _ClusterFiles(opened, Path(work), is_running, progress),
            AttemptLogs(
                lambda progress: _attempt_logs(opened, progress),
                nodes=opened.given.nodes,
                clock_tolerance_s=_NODE_CLOCKS_S,
            ),
            cluster=opened,
            reads_feed=reads_feed,
        )
        return audit_crawl(crawl, options, progress)


class _ClusterFiles:
    """The segments of all shards as ``AuditedFiles``; each is downloaded into ``work``."""

    are_sealed = True

    def __init__(
        self, opened: OpenedCluster, work: Path, is_running: bool, progress: OnAuditProgress
    ) -> None:
        self._view, self._objects, self._work = opened.view, opened.objects, work
        self._is_running, self._progress = is_running, progress
        kinds = [layout.WARC, layout.JOURNAL, *DERIVED_KINDS, ITEMS]
        # files of sealed segments, by key
        self._stored = {
            each.key: each
            for kind in kinds
            for each in opened.objects.list(f"{kind}/")
            if kind != ITEMS or each.key.endswith((".parquet", MADE_NOTE, FAILED))
        }
        self._kinds = [
            *DERIVED_KINDS,
            *sorted({*filter(item_version, map(layout.file_kind, self._stored))}),
        ]

    def segments(self, check: Check, share: float) -> Iterator[Segment]:
        """See ``AuditedFiles``. Downloads each one, and deletes it before the next."""
        listed = self._view.list_segments()
        for number, stored in enumerate(listed, 1):
            self._progress("segments", number, len(listed))
            folder = self._work / stored.name
            try:
                if (segment := self._downloaded(stored, folder, check, share)) is not None:
                    yield segment
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def check_strangers(self, derived: DerivedChecks) -> None:
        """See ``AuditedFiles``. Readers would take the rows of such files for captures."""
        if self._is_running:  # the segments of later commits are not in the view
            return
        names = {segment.name for segment in self._view.list_segments()}
        checks = {check.name: check for check in derived.all_checks()}
        for key in self._stored:
            kind = key.partition("/")[0]
            if kind == ITEMS and not key.endswith(".parquet"):
                continue  # a note of a version, which readers of tables leave alone
            if kind in checks and layout.stem_of(key) not in names:  # also of items
                checks[kind].add_breach(f"{key} belongs to no segment of this crawl")

    def _downloaded(
        self, stored: StoredSegment, folder: Path, check: Check, share: float
    ) -> Segment | None:
        """The files of a segment in ``folder``, as in a crawl folder."""
        name, suffix = stored.name, "" if stored.is_closed else layout.OPEN
        warc, journal = (
            folder / (layout.file_name(kind, name) + suffix)
            for kind in (layout.WARC, layout.JOURNAL)
        )
        if stored.is_closed and layout.file_name(layout.WARC, name) not in self._stored:
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
        for key in self._derived(name) if stored.is_closed else ():
            if (found := self._stored.get(key)) is not None:
                (folder / key).parent.mkdir(parents=True, exist_ok=True)
                with suppress(ObjectMissing):  # a version that was forgotten meanwhile
                    download(self._objects, found, folder / key)
        return Segment(
            folder,
            name,
            stored.is_closed,
            header,
            warc,
            stored.length,
            journal,
            None if stored.is_closed else stored.journal_length,
            self._warc_reader(stored, warc, share),
        )

    def _derived(self, name: str) -> Iterator[str]:
        """The files that a segment may have, and what says what its tables of items should be."""
        for kind in self._kinds:
            yield layout.file_name(kind, name)
            if (of := item_version(kind)) is not None:
                yield from (note_key(*of), failed_key(*of, name))

    def _warc_reader(
        self, stored: StoredSegment, warc: Path, share: float
    ) -> Callable[[int, int], bytes]:
        """Reads a WARC from the store, or from a copy when most of it will be read."""
        found: StoredObject | None = self._stored.get(layout.file_name(layout.WARC, stored.name))
        if stored.is_closed and found is not None and share > _WHOLE_FROM:
            warc.parent.mkdir()
            download(self._objects, found, warc)
            return warc_reader(warc)
        return lambda start, end: self._view.read_warc(stored.name, start, end)


def _attempt_logs(opened: OpenedCluster, progress: OnAuditProgress) -> Iterator[OwnersLogs]:
    """The attempt logs of the owners before each import, the oldest first, then those of shards."""
    first_term = 1
    for owners in opened.stored.manifest.earlier:
        store, numbers = opened.objects_of(owners), range(owners.owners)
        yield OwnersLogs(
            {number: opened.earlier_files(owners, number) for number in numbers},
            owners.is_machine,
            first_term=first_term,
            lasts={number: last_files(store, number) for number in numbers},
        )
        first_term = owners.term + 2
    shards, files = opened.view.shards, {}
    for number in sorted(shards):
        progress("shards' attempt logs", number + 1, len(shards))
        files[number] = opened.attempt_files(number)
    yield OwnersLogs(
        files,
        is_machine=False,
        terms={number: each.owner_term for number, each in shards.items()},
        first_term=opened.stored.manifest.first_term,
        lasts={number: last_files(opened.objects, number) for number in shards},
    )
