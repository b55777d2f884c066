"""Runs ``lycosa project``: follows a crawl into a registry, and prints what it does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from lycosa.cli.crawl_reading import CrawlPlace, opened_cluster
from lycosa.cli.output import ExitCode, counted, emit, emit_json, human_duration
from lycosa.cli.report_lines import ReportLines

if TYPE_CHECKING:
    from lycosa.feeds import ProjectionReport, ProjectorSource
    from lycosa.feeds.registry.registry_port import RegistryPlace


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
    shown = ReportLines(registry.place, _line)
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
