"""``lycosa project``: keep a copy of a crawl's URL state in a database."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, opened_cluster
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json, human_duration

if TYPE_CHECKING:
    from lycosa.project import ProjectionReport, ProjectorSource

_VARIABLE = "LYCOSA_POSTGRES_DSN"
_LIBPQ = {"PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE"}
_EVERY_S = 10.0

_EPILOG = f"""
\b
Examples:
  export {_VARIABLE}=postgresql://crawler@db.example/crawls
  lycosa project postgres crawls/example.org                       follow the crawl, until Ctrl-C
  lycosa project postgres crawls/example.org --once                catch up, and end
  lycosa project postgres --cluster cluster.toml                   a crawl on many machines
  lycosa project postgres crawls/shop --schema shop --once --json  a second crawl in the database

The schema gets the tables urls, hosts and crawl_log, and the view dead_letters; docs/registry.md
has queries. Rows and position are written in one transaction, so the tables are always the state
after a commit of the crawl. Stop and start the command at any time: it continues where the database
is. While the database is away, it waits and tries again; the crawl is not affected.

Write no password into --dsn, because other users of the machine see it in the list of processes:
use the variable {_VARIABLE}, PGPASSWORD, or ~/.pgpass.
"""


class ProjectOptions(NamedTuple):
    """The options of ``lycosa project postgres``."""

    dsn: str
    schema: str
    is_once: bool = False
    is_rebuilt: bool = False
    as_json: bool = False


@click.group("project", short_help="Keep a copy of a crawl's URL state in a database.")
def command() -> None:
    """Keep a copy of a crawl's URL state in a database, for queries by other programs."""


@command.command("postgres", cls=CrawlCommand, epilog=_EPILOG, short_help="A copy in PostgreSQL.")
@crawl_place
@click.option(
    "--dsn",
    envvar=_VARIABLE,
    metavar="DSN",
    help=f"The database, as postgresql://USER@HOST:PORT/DATABASE [{_VARIABLE}, or PGHOST, ...].",
)
@click.option(
    "--schema", metavar="NAME", default="lycosa", help="Schema of this crawl's tables [lycosa]."
)
@click.option(
    "--once/--follow",
    "is_once",
    help="End when the database has all commits, or follow the crawl [--follow].",
)
@click.option("--rebuild", "is_rebuilt", is_flag=True, help="Delete the tables, and fill new ones.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print reports as JSON: one, or one per line."
)
def postgres(
    folder: Path, cluster: Path | None, cache: Path | None, dsn: str | None, **options: Any
) -> int:
    """Copy URLs, hosts and the crawl log of the crawl in DIR to PostgreSQL.

    The crawl may be running. With --cluster it is a crawl on many machines.
    """
    return run(CrawlPlace(folder, cluster, cache), ProjectOptions(dsn or "", **options))


def run(place: CrawlPlace, options: ProjectOptions) -> int:
    """Follow the crawl and print reports; returns the exit code."""
    if not options.dsn and not _LIBPQ.intersection(os.environ):
        raise click.UsageError(f"no database given: set {_VARIABLE}, PGHOST or --dsn")
    try:
        import psycopg  # noqa: F401  (whether the extra is installed)
    except ImportError as error:
        raise click.UsageError(
            f"the PostgreSQL client is not installed ({error.name}): pip install 'lycosa[postgres]'"
        ) from error
    if place.cluster is None:
        from lycosa.project import FolderSource

        return _follow(FolderSource(place.folder), options)
    with opened_cluster(place) as opened:
        from lycosa.project import ClusterSource

        source = ClusterSource(opened)
        try:
            return _follow(source, options)
        finally:
            source.close()


def _follow(source: ProjectorSource, options: ProjectOptions) -> int:
    import msgspec

    from lycosa.project import PostgresPlace, Projector, Registry

    registry = Registry(PostgresPlace(options.dsn, options.schema), source.origin)
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
