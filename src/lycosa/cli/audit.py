"""``lycosa audit``: prove the crawl's guarantees from its folder, or list the first breaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lycosa.cli.crawl_reading import (
    CrawlCommand,
    CrawlPlace,
    ProgressLine,
    crawl_place,
    opened_cluster,
    tell_age,
)
from lycosa.cli.output import (
    Column,
    ExitCode,
    clean,
    emit,
    emit_columns,
    emit_json,
    emit_table,
    human_count,
    human_duration,
    human_time,
)

if TYPE_CHECKING:
    from lycosa.inspect.audit.audit_report import AuditReport, HostPace, OnAuditProgress
    from lycosa.state.attempts.coverage import UnprovenTime

_EPILOG = """
\b
Examples:
  lycosa audit crawls/example.org             recount URLs, check 2,000 captures and every pause
  lycosa audit crawls/example.org --all       read and parse every capture again
  lycosa audit crawls/example.org --pauses    list the shortest pause of every host
  lycosa audit --cluster cluster.toml --topic from any machine; also lists what cannot be proved

The exit code is 0 when every check passes, and 1 with the first ten breaches when one fails. What
cannot be checked, because files were removed after their upload and their store cannot be read, is
listed and does not change the code.
"""


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
    "--pauses",
    "hosts",
    is_flag=True,
    help="List the shortest pause of every host, smallest margin first.",
)
@click.option(
    "--topic",
    "reads_feed",
    is_flag=True,
    help="With --cluster: compare the topic of captures too.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    place: CrawlPlace,
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
    if reads_feed and place.cluster is None:
        raise click.UsageError("--topic is for a crawl on machines: give --cluster FILE")
    report = run(place, 0 if everything else sample, hosts, reads_feed)
    if as_json:
        import msgspec

        emit_json(
            {**msgspec.to_builtins(report), "clean": report.is_clean, "breaches": report.breaches}
        )
    else:
        _print(report)
    return ExitCode.FINISHED if report.is_clean else ExitCode.INTERNAL


def run(place: CrawlPlace, sample: int, hosts: bool, reads_feed: bool) -> AuditReport:
    """Audit the crawl and return the report."""
    from lycosa.inspect.audit.crawl_audit import AuditOptions
    from lycosa.inspect.audit.folder_audit import audit

    options = AuditOptions(sample, hosts)
    if place.cluster is None:
        return audit(place.folder, options, _showing(ProgressLine()))
    with opened_cluster(place) as opened:
        # the Kafka client is an optional extra, and is there when a cluster could be opened
        from lycosa.inspect.audit.cluster_audit import audit_cluster

        report = audit_cluster(opened, options, reads_feed, _showing(ProgressLine()))
        tell_age(opened.view)
    return report


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
    emit_columns(_HOSTS, report.hosts)
    emit_columns(_UNPROVEN, report.unproven)
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


_HOSTS: tuple[Column[HostPace], ...] = (
    Column("host", lambda x: x.host),
    Column("requests", lambda x: x.requests),
    Column("pause s", lambda x: f"{x.shortest_s:.6f}"),
    Column("due s", lambda x: f"{x.due_s:.6f}"),
    Column("margin s", lambda x: f"{x.margin_s:+.6f}"),
)
_UNPROVEN: tuple[Column[UnprovenTime], ...] = (
    Column("shard", lambda x: x.shard),
    Column("term", lambda x: x.term),
    Column("since", lambda x: human_time(x.since) or "the beginning"),
    Column("until", lambda x: human_time(x.until) or "now"),
    Column("requests not provable, because", lambda x: x.why),
)
"""Times for which there is no attempt log: nothing is known against their requests."""


def _showing(line: ProgressLine) -> OnAuditProgress:
    """Shows progress of an audit in a line on standard error."""

    def show(what: str, done: int, total: int) -> None:
        share = f" of {human_count(total)}" if total else ""
        line.show(f"{human_count(done)}{share} {what}")

    return show
