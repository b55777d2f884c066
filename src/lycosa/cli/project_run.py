"""Runs ``lycosa project``: follows a crawl into a registry, and prints what it does."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import click

from lycosa.cli.crawl_reading import CrawlPlace, opened_cluster
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json, human_duration

if TYPE_CHECKING:
    from lycosa.feeds import ProjectionReport, ProjectorSource
    from lycosa.feeds.registry.registry_port import RegistryPlace

_EVERY_S = 10.0


class ProjectOptions(NamedTuple):
    """What all kinds of registries can be asked for."""

    is_once: bool = False
    is_rebuilt: bool = False
    as_json: bool = False


def project_crawl(crawl: CrawlPlace, place: RegistryPlace, options: ProjectOptions) -> int:
    """Follow the crawl and print reports; returns the exit code."""
    if crawl.cluster is None:
        from lycosa.feeds import FolderSource

        return _follow(FolderSource(crawl.folder), place, options)
    with opened_cluster(crawl) as opened:
        from lycosa.feeds import ClusterSource

        source = ClusterSource(opened)
        try:
            return _follow(source, place, options)
        finally:
            source.close()


def _follow(source: ProjectorSource, place: RegistryPlace, options: ProjectOptions) -> int:
    import msgspec

    from lycosa.feeds import Projector, Registry

    registry = Registry(place, source.origin)
    shown = _Shown(registry.place)
    tell = shown.print_json if options.as_json and not options.is_once else shown.show
    try:
        report = Projector(source, registry, tell, _wait).follow(
            options.is_once, options.is_rebuilt
        )
    finally:
        shown.clear()
        registry.close()
    if options.as_json and options.is_once:
        emit_json({"registry": registry.place, **msgspec.to_builtins(report)})
    elif not options.as_json:
        emit(f"{registry.place}: {_line(report)}")
    return ExitCode.FINISHED


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class _Shown:
    """Reports on standard error, or as JSON lines: at most one a second, and none twice."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._is_terminal = sys.stderr.isatty()
        self._at = 0.0
        self._last: ProjectionReport | None = None

    def show(self, report: ProjectionReport) -> None:
        """One line that is rewritten; without a terminal a line every ten seconds.

        What the projector waits for stays on the screen.
        """
        before = self._last.waits_for if self._last else ""
        if report.waits_for != before and report.waits_for:
            self._print(f"{report.waits_for}; trying again")
        elif before and not report.waits_for:
            self._print("the database is back")
        elif self._is_due(report, 1.0 if self._is_terminal else _EVERY_S):
            text = f"{self._place}: {_line(report)}"
            if self._is_terminal:
                sys.stderr.write(f"\r\x1b[K{clean(text)}")
                sys.stderr.flush()
            else:
                self._print(text)
        self._last = report

    def print_json(self, report: ProjectionReport) -> None:
        """One line of JSON."""
        import msgspec

        if self._is_due(report, 1.0) or (self._last and report.waits_for != self._last.waits_for):
            emit(msgspec.json.encode(report).decode())
            sys.stdout.flush()
            self._last = report

    def clear(self) -> None:
        """Remove the line."""
        if self._is_terminal and self._last is not None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _is_due(self, report: ProjectionReport, every_s: float) -> bool:
        now = time.monotonic()
        if report == self._last or now - self._at < every_s:
            return False
        self._at = now
        return True

    def _print(self, text: str) -> None:
        self.clear()
        click.echo(f"lycosa: {clean(text)}", err=True)


def _line(report: ProjectionReport) -> str:
    done = [
        counted(report.commits, "commit"),
        counted(report.rows, "row"),
        counted(report.captures, "capture"),
    ]
    lag = report.lag
    behind = (
        f"{counted(lag.commits, 'commit')} and {human_duration(lag.seconds)} behind"
        if lag.commits
        else "nothing behind"
    )
    return f"{', '.join(done)} written; {behind}"
