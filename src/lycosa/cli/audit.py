"""``lycosa audit``: prove the crawl's guarantees from its folder, or list the first breaches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, opened_cluster, tell_age
from lycosa.cli.output import (
    ExitCode,
    clean,
    emit,
    emit_json,
    emit_table,
    human_count,
    human_duration,
    human_time,
)

if TYPE_CHECKING:
    from lycosa.inspect.audit.audit_report import AuditReport

_EPILOG = """
\b
Examples:
  lycosa audit crawls/example.org             recount URLs, check 2,000 captures and every pause
  lycosa audit crawls/example.org --all       read and parse every capture again
  lycosa audit crawls/example.org --hosts     list the shortest pause of every host

  lycosa audit --cluster cluster.toml --feed  from any machine; also lists what cannot be proved

The exit code is 0 when every check passes, and 1 with the first ten breaches when one fails. What
cannot be checked, because files were removed after their upload and their store cannot be read, is
listed and does not change the code.
"""
_EVERY_S = 0.2


@click.command(
    "audit",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="Prove from disk that nothing was lost and every delay was kept.",
)
@crawl_place
@click.option(
    "--sample",
    metavar="N",
    type=click.IntRange(1),
    default=2000,
    show_default=True,
    help="Number of captures to read and parse again.",
)
@click.option("--all", "everything", is_flag=True, help="Read and parse every capture.")
@click.option(
    "--hosts", is_flag=True, help="List the shortest pause of every host, smallest margin first."
)
@click.option(
    "--feed", "reads_feed", is_flag=True, help="With --cluster: compare the topic of captures too."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    folder: Path,
    cluster: Path | None,
    cache: Path | None,
    sample: int,
    everything: bool,
    hosts: bool,
    reads_feed: bool,
    as_json: bool,
) -> int:
    """Recount the crawl in DIR from its files.

    The checks cover URLs by state, links (from a second source), politeness, robots.txt and output
    files. Nothing is written.
    """
    place = CrawlPlace(folder, cluster, cache)
    wanted = 0 if everything else sample
    if cluster is not None:
        return print_cluster_audit(place, wanted, hosts, reads_feed, as_json)
    if reads_feed:
        raise click.UsageError("--feed is for a crawl on machines: give --cluster FILE")
    return run(place, wanted, hosts, as_json)


def run(place: CrawlPlace, sample: int, hosts: bool, as_json: bool) -> int:
    """Audit the crawl of a folder and print the report; returns the exit code."""
    from lycosa.inspect.audit.folder_audit import AuditOptions, audit

    return _told(audit(place.folder, AuditOptions(sample, hosts), _progress()), as_json)


def print_cluster_audit(
    place: CrawlPlace, sample: int, hosts: bool, reads_feed: bool, as_json: bool
) -> int:
    """Audit the crawl of a cluster and print the report; returns the exit code."""
    from lycosa.inspect.audit.cluster_audit import audit_cluster
    from lycosa.inspect.audit.folder_audit import AuditOptions

    with opened_cluster(place) as opened:
        report = audit_cluster(opened, AuditOptions(sample, hosts), reads_feed, _progress())
        tell_age(opened.view)
    return _told(report, as_json)


def _told(report: AuditReport, as_json: bool) -> int:
    import msgspec

    if as_json:
        emit_json(
            {**msgspec.to_builtins(report), "clean": report.is_clean, "breaches": report.breaches}
        )
    else:
        _print(report)
    return ExitCode.FINISHED if report.is_clean else ExitCode.INTERNAL


def _print(report: AuditReport) -> None:
    rows = (
        (
            check.name,
            human_count(check.checked),
            human_count(check.breaches) if check.breaches else "",
            check.what,
        )
        for check in report.checks
    )
    emit_table(("check", "checked", "breaches", "what"), rows)
    for check in report.checks:
        for note in check.notes:
            emit(f"  {check.name}: {clean(note)}")
    if report.hosts:
        emit("")
        lines = (
            (x.host, x.requests, f"{x.shortest_s:.6f}", f"{x.due_s:.6f}", f"{x.margin_s:+.6f}")
            for x in report.hosts
        )
        emit_table(("host", "requests", "pause s", "due s", "margin s"), lines)
    _print_unproven(report)
    emit("")
    if report.share < 1:
        emit(f"Records of {report.share:.1%} of the captures were read; --all reads all of them.")
    if report.shards and report.is_running:
        running = [str(each.shard) for each in report.shards if not each.is_final]
        emit(f"Not ended orderly, so perhaps running: shards {' '.join(running)}.")
    elif report.is_running:
        emit("The crawl is running; audit it again after its end to run the checks left out here.")
    if report.unread:
        emit("Not everything was checked. Not read:")
        for text in report.unread:
            emit(f"  {clean(text)}")
    if report.is_clean and report.unread:
        emit(f"Every check that was made passed ({human_duration(report.elapsed_s)}).")
        return
    if report.is_clean:
        emit(f"Every check passed ({human_duration(report.elapsed_s)}).")
        return
    emit(f"{human_count(report.breaches)} breaches ({human_duration(report.elapsed_s)}):")
    for text in report.first_breaches():
        emit(f"  {clean(text)}")


def _print_unproven(report: AuditReport) -> None:
    """Print the times for which there is no attempt log: nothing is known against them."""
    if not report.unproven:
        return
    emit("")
    rows = (
        (
            x.shard,
            x.term,
            human_time(x.since) or "the beginning",
            human_time(x.until) or "now",
            x.why,
        )
        for x in report.unproven
    )
    emit_table(
        ("shard", "term", "since", "until", "requests not provable, because"),
        rows,
    )


def _progress() -> Callable[[str, int, int], None]:
    """Yield a callback that rewrites one line on standard error when that is a terminal."""
    if not sys.stderr.isatty():
        return lambda what, done, total: None
    last = 0.0

    def show(what: str, done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY_S:
            last = time.monotonic()
            share = f" of {human_count(total)}" if total else ""
            sys.stderr.write(f"\r\x1b[K{human_count(done)}{share} {what}\r")
            sys.stderr.flush()

    return show
