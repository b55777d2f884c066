"""``lycosa project``: keep a copy of a crawl's URL state in a database."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lycosa.cli.cluster_parts import client_of
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, opened_cluster
from lycosa.cli.option_sets import option_set
from lycosa.cli.output import ExitCode, counted, emit, emit_json, human_duration
from lycosa.cli.report_lines import ReportLines

if TYPE_CHECKING:
    from lycosa.feeds.projector_source import ProjectorSource
    from lycosa.feeds.registry.projector import ProjectionReport
    from lycosa.feeds.registry.registry_port import RegistryPlace


_POSTGRES, _CASSANDRA = "LYCOSA_POSTGRES_DSN", "LYCOSA_CASSANDRA_DSN"
_LIBPQ = {"PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE"}

_POSTGRES_EPILOG = f"""
\b
Examples:
  export {_POSTGRES}=postgresql://crawler@db.example/crawls
  lycosa project postgres crawls/example.org                       follow the crawl, until Ctrl-C
  lycosa project postgres crawls/example.org --once                catch up, and end
  lycosa project postgres --cluster cluster.toml                   a crawl on many machines
  lycosa project postgres crawls/shop --schema shop --once --json  a second crawl in the database

The schema gets the tables urls, hosts and crawl_log, and the view dead_letters; see
`lycosa docs registry` for queries. Rows and position are written in one transaction, so the tables
are always the state after a commit of the crawl. Stop and start the command at any time: it
continues where the database is. While the database is away, it waits and tries again; the crawl is
not affected.

Write no password into --dsn, because other users of the machine see it in the list of processes:
use the variable {_POSTGRES}, PGPASSWORD, or ~/.pgpass.
"""

_CASSANDRA_EPILOG = f"""
\b
Examples:
  export {_CASSANDRA}='cassandra://crawler@db1.example,db2.example:9042?datacenter=dc1'
  lycosa project cassandra crawls/example.org                         follow the crawl, until Ctrl-C
  lycosa project cassandra crawls/example.org --once                  catch up, and end
  lycosa project cassandra --cluster cluster.toml                     a crawl on many machines
  lycosa project cassandra crawls/shop --keyspace shop --once --json  a second crawl

\b
The keyspace must exist; you decide about its copies:
  CREATE KEYSPACE lycosa WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': 3}}

It gets the tables urls, urls_by_host, dead_letters, hosts, crawl_log and crawl_log_by_url;
`lycosa docs registry` has queries. Every row has the timestamp of its commit, so repeated
and late writes change nothing. Stop and start the command at any time: it continues where the
database is. While the database is away, or too few of its nodes answer, it waits and tries again;
the crawl is not affected.

\b
Parameters of the address, after "?" and separated by "&":
  datacenter=NAME              nodes to use [that of the node that answers first]
  consistency=LEVEL            local_quorum or quorum [local_quorum]
  ca=FILE, cert=FILE, key=FILE TLS: who signed the nodes' certificates; a certificate of your own

Write no password into --dsn, because other users of the machine see it in the list of processes:
use the variable {_CASSANDRA} with cassandra://USER:PASSWORD@HOST.
"""


@click.group("project", short_help="Keep a copy of a crawl's URL state in a database.")
def command() -> None:
    """Keep a copy of a crawl's URL state in a database, for queries by other programs."""


_following = option_set(
    click.option(
        "--once/--follow",
        "is_once",
        help="End when the database has all commits, or follow the crawl [--follow].",
    ),
    click.option(
        "--rebuild", "is_rebuilt", is_flag=True, help="Delete the tables, and fill new ones."
    ),
    click.option(
        "--json", "as_json", is_flag=True, help="Print reports as JSON: one, or one per line."
    ),
)
"""Add the options that all registries have."""


@command.command(
    "postgres", cls=CrawlCommand, epilog=_POSTGRES_EPILOG, short_help="A copy in PostgreSQL."
)
@crawl_place
@click.option(
    "--dsn",
    envvar=_POSTGRES,
    metavar="DSN",
    help=f"The database, as postgresql://USER@HOST:PORT/DATABASE [{_POSTGRES}, or PGHOST, ...].",
)
@click.option(
    "--schema", metavar="NAME", default="lycosa", help="Schema of this crawl's tables [lycosa]."
)
@_following
def postgres(place: CrawlPlace, dsn: str | None, schema: str, **options: Any) -> int:
    """Copy URLs, hosts and the crawl log of the crawl in DIR to PostgreSQL.

    The crawl may be running. With --cluster it is a crawl on many machines.
    """
    if not dsn and not _LIBPQ.intersection(os.environ):
        raise click.UsageError(f"no database given: set {_POSTGRES}, PGHOST or --dsn")
    with client_of("PostgreSQL", "postgres"):
        from lycosa.feeds.registry.postgres_tables import PostgresPlace
    return project_crawl(place, PostgresPlace(dsn or "", schema), ProjectOptions(**options))


@command.command(
    "cassandra", cls=CrawlCommand, epilog=_CASSANDRA_EPILOG, short_help="A copy in Cassandra."
)
@crawl_place
@click.option(
    "--dsn",
    envvar=_CASSANDRA,
    metavar="DSN",
    help=f"The database, as cassandra://USER@HOST,HOST:PORT?datacenter=NAME [{_CASSANDRA}].",
)
@click.option(
    "--keyspace", metavar="NAME", default="lycosa", help="Keyspace of this crawl's tables [lycosa]."
)
@click.option(
    "--buckets",
    metavar="NUMBER",
    type=click.IntRange(1, 256),
    default=16,
    help="Parts in which a new registry stores the URLs of a host [16].",
)
@_following
def cassandra(
    place: CrawlPlace, dsn: str | None, keyspace: str, buckets: int, **options: Any
) -> int:
    """Copy URLs, hosts and the crawl log of the crawl in DIR to Cassandra.

    The crawl may be running. With --cluster it is a crawl on many machines.
    """
    if not dsn:
        raise click.UsageError(f"no database given: set {_CASSANDRA} or --dsn")
    with client_of("Cassandra", "cassandra"):
        from lycosa.feeds.registry.cassandra_place import CassandraPlace
    return project_crawl(place, CassandraPlace(dsn, keyspace, buckets), ProjectOptions(**options))


class ProjectOptions(NamedTuple):
    """What all kinds of registries can be asked for."""

    is_once: bool = False
    is_rebuilt: bool = False
    as_json: bool = False


def project_crawl(crawl: CrawlPlace, registry: RegistryPlace, options: ProjectOptions) -> int:
    """Follow the crawl and print reports; returns the exit code."""
    if crawl.cluster is None:
        from lycosa.feeds.folder_source import FolderSource

        return _follow(FolderSource(crawl.folder), registry, options)
    with opened_cluster(crawl) as opened:
        from lycosa.feeds.cluster_source import ClusterSource

        source = ClusterSource(opened)
        try:
            return _follow(source, registry, options)
        finally:
            source.close()


def _follow(source: ProjectorSource, place: RegistryPlace, options: ProjectOptions) -> int:
    import msgspec

    from lycosa.feeds.registry.projector import Projector
    from lycosa.feeds.registry.registry import Registry

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
