"""The part of the audit that any view of a crawl allows: state recounted, captures compared.

A whole audit (``run``) reads a crawl's folder: attempt logs, WARC records, derived files, URL-seen.
A running worker and a snapshot have none of these, so those checks are left out and reported so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from lycosa.base.model.fetched import FetchKind
from lycosa.inspect.audit.audit_report import AuditReport, Check, OnAuditProgress
from lycosa.inspect.audit.capture_index import CaptureIndex, find_repeated, once_check
from lycosa.inspect.audit.state_check import StateChecks
from lycosa.inspect.audit.unparsed_check import UnparsedCheck
from lycosa.inspect.committed_state import CrawlReader
from lycosa.state.shard.view import CrawlView
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.layout import warc_name

_LEFT_OUT = {
    "politeness": "attempt logs are on the machines that sent the requests",
    "warc": "WARC records are read by the audit of a folder",
    "derived files": "they are in the folder or the store of closed segments",
    "url-seen": "it belongs to the worker that owns the shard",
}


def audit_view(
    view: CrawlView, progress: OnAuditProgress = lambda what, done, total: None
) -> AuditReport:
    """Recount the partitions of a view. Blocks: about 0.1 ms for each URL.

    When the owner continues meanwhile, the journals may have more captures than the state, never
    fewer. Raises what the view raises when its tables cannot be read; every other fault becomes a
    breach.
    """
    with ExitStack() as stack:
        reader = CrawlReader(view)
        views = {
            number: stack.enter_context(reader.partition_view(number)) for number in reader.here
        }
        counters = [each.counters() for each in views.values()]
        report = AuditReport(
            folder=reader.name, crawl=reader.manifest.crawl, is_running=view.seen.is_live, share=0.0
        )
        index, once = CaptureIndex(), once_check()
        unparsed = UnparsedCheck(reader, views)
        captured = sum(each.captures for each in counters)
        for done, row in enumerate(_rows(view, once), 1):
            progress("captures", done, captured)
            unparsed.check_row(row)
            if row.kind is not FetchKind.ROBOTS:
                index.add_capture(row.url, row.fetch_number, warc_name(row.segment), row.offset)
        unparsed.finish_check()
        find_repeated(once, index, _rows(view, once))
        once.expect(
            captured <= len(index),
            f"the counters say {captured} captures, the journals hold {len(index)}",
        )
        checks = StateChecks(index, None, progress)
        for each in views.values():
            checks.check_partition(each, sum(each.discovered for each in counters))
        checks.records.expect(
            checks.fetches <= len(index),
            f"the records count {checks.fetches} fetches, the journals hold {len(index)}",
        )
        report.checks = [
            *checks.all_checks(),
            unparsed.check,
            once,
            *(_left_out(name, why) for name, why in _LEFT_OUT.items()),
        ]
        return report


def _rows(view: CrawlView, check: Check) -> Iterator[JournalRow]:
    """Every committed row; unreadable journals are breaches."""
    for segment in view.list_segments():
        try:
            if segment.journal_length is None:
                check.add_breach(f"the journal of {segment.name} is missing")
            else:
                yield from view.read_rows(segment)
        except (JournalError, OSError) as error:
            check.add_breach(str(error))


def _left_out(name: str, why: str) -> Check:
    check = Check(name, "left out")
    check.add_note(f"left out: {why}")
    return check
