"""The audit of a crawl folder: a crawl's guarantees checked from its files alone.

**With a running crawl** the logs and tables of several workers are read one after the other, so a
later one may be ahead of an earlier one. Checks that hold only for a stopped crawl are left out.
Segments and requests that began after the start of the audit are skipped. A link without a record
is looked up once more at the end, because its parcel may have been between two workers. When a
crawl starts while its folder is audited, the audit begins again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Set
from pathlib import Path

from lycosa.inspect.audit.audit_report import AuditReport, Check, OnAuditProgress
from lycosa.inspect.audit.audited_segments import Segment, segments
from lycosa.inspect.audit.crawl_audit import (
    DEFAULT_OPTIONS,
    AuditedCrawl,
    AuditOptions,
    audit_crawl,
    no_progress,
)
from lycosa.inspect.audit.derived_check import DerivedChecks
from lycosa.inspect.audit.politeness_check import AttemptLogs, OwnersLogs
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.running import is_running
from lycosa.state.attempts.attempt_files import attempt_files_of
from lycosa.state.folder.names import attempts_folder
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.store import layout


def audit(
    folder: Path,
    options: AuditOptions = DEFAULT_OPTIONS,
    progress: OnAuditProgress = no_progress,
) -> AuditReport:
    """Audit a crawl folder and return the report. Blocks, and raises as ``audit_crawl`` does."""
    started = time.monotonic()
    # Asked before and after: a crawl that starts in between changes files that are being compared.
    is_live = is_running(folder)
    while True:
        try:
            report = audit_crawl(_audited(folder, is_live), options, progress)
        except Exception:
            # An error while files change under the audit says nothing, so the audit is repeated as
            # a live one.
            if is_live or not is_running(folder):
                raise
        else:
            if is_live or not is_running(folder):
                report.elapsed_s = time.monotonic() - started
                return report
        is_live = True  # the crawl started meanwhile, so the results may be of two different states


def _audited(folder: Path, is_live: bool) -> AuditedCrawl:
    began = time.time()
    closed: Set[str] | None = None
    if is_live:  # listed before the logs are read
        closed = {*layout.closed_segments(folder), *layout.removed_names(folder, layout.WARC)}
    view = FolderView(folder)
    return AuditedCrawl(
        view,
        is_live,
        _FolderFiles(view, closed),
        AttemptLogs(
            lambda progress: [OwnersLogs(attempt_files_of(attempts_folder(folder)))],
            began if is_live else None,
        ),
        folder=view,
        again=(lambda: read_folder(folder)) if is_live else None,
    )


class _FolderFiles:
    """The segments of a folder, as ``AuditedFiles``; ``closed`` as in ``segments``."""

    are_sealed = False

    def __init__(self, view: FolderView, closed: Set[str] | None) -> None:
        self._view, self._closed = view, closed
        self._found: list[Segment] = []

    def segments(self, check: Check, share: float) -> Iterator[Segment]:
        """See ``AuditedFiles``. Oldest first."""
        self._found = segments(self._view.path, self._view.seen.last.lengths, check, self._closed)
        yield from self._found

    def check_strangers(self, derived: DerivedChecks) -> None:
        """See ``AuditedFiles``."""
        derived.check_strangers(self._view.path, self._found)
