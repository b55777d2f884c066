"""``lycosa feed ... --to TARGET``: exports a feed and prints what it does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from lycosa.cli.cluster_parts import client_of
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json
from lycosa.cli.report_lines import ReportLines

if TYPE_CHECKING:
    from lycosa.feeds.export_port import Exporter
    from lycosa.feeds.export_run import ExportFeed, ExportReport


class ExportOptions(NamedTuple):
    """Where to export, and how. ``has_ended`` waits a moment and says whether to end."""

    to: str
    follows: bool = False
    as_json: bool = False
    has_ended: Callable[[], bool] | None = None


def export(open_feed: Callable[[str], ExportFeed], options: ExportOptions) -> int:
    """Export a feed; returns the exit code. Raises ``click.UsageError``."""
    from lycosa.feeds import BadPosition
    from lycosa.feeds.export_port import TargetError
    from lycosa.feeds.export_run import ExportRun

    try:
        exporter = _exporter(open_feed(""), options.to)
        shown = ReportLines(exporter.name, export_line, "the target is back", time.monotonic())
        tell = shown.print_json if options.as_json and options.follows else shown.show
        run = ExportRun(open_feed, exporter, tell, lambda s: _wait(s, options.has_ended))
        try:
            report = run.follow(not options.follows)
        finally:
            shown.clear()
    except (BadPosition, TargetError) as error:
        raise click.UsageError(clean(str(error))) from error
    if options.as_json:
        import msgspec

        emit_json({"target": exporter.name, **msgspec.to_builtins(report)})
    else:
        emit(clean(f"{exporter.name}: {export_line(report)}"))
    return ExitCode.FINISHED


def _exporter(feed: ExportFeed, text: str) -> Exporter:
    from lycosa.feeds.exporters.target_texts import exporter_for, extra_of

    with client_of(*extra_of(text)):
        return exporter_for(text, feed.table, feed.crawl)


def _wait(seconds: float, has_ended: Callable[[], bool] | None) -> bool:
    if has_ended is None:
        time.sleep(seconds)
        return False
    until = time.monotonic() + seconds
    while not has_ended():
        if time.monotonic() >= until:
            return False
    return True


def export_line(report: ExportReport) -> str:
    """What an export has done, in words."""
    done = f"{counted(report.rows, 'row')} written"
    return f"{done}; {'more to come' if report.is_behind else 'nothing behind'}"
