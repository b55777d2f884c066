"""``lycosa serve``: the coordinator of a crawl on many machines."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.cluster_parts import (
    CLUSTER_FILE,
    given_cluster,
    health_option,
    kafka_client,
    object_store,
    tell_line,
)
from lycosa.cli.output import ExitCode
from lycosa.model.compatibility import PROTOCOL

if TYPE_CHECKING:
    from lycosa.config.cluster_file import ClusterFile
    from lycosa.config.sections import LimitSection
    from lycosa.folder.bucket import StoredCrawl
    from lycosa.kafka import KafkaClient
    from lycosa.network import Credentials
    from lycosa.objects.port import ObjectStore
    from lycosa.serve.running_coordinator import ServeEnd
    from lycosa.system.health import HealthFile

_EPILOG = """
\b
Examples:
  lycosa serve --cluster cluster.toml                         at an address of [coordinator]
  lycosa serve --cluster cluster.toml --listen 10.0.0.5:7070  at this address

A coordinator that is started takes over from the one before it, which then ends. SIGTERM or Ctrl-C
ends the coordinator; the crawl continues without it, but no shard moves until there is one again.

\b
Exit codes: 0 ended by a signal, or another coordinator took over
            1 a service failed, 2 bad usage or settings
"""


@click.command("serve", epilog=_EPILOG, short_help="Coordinate a crawl on many machines.")
@click.option(
    "--cluster", "file", type=CLUSTER_FILE, required=True, help="The crawl's cluster.toml."
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address for nodes and callers [the first of coordinator.addresses that is free here].",
)
@health_option
def command(file: Path, listen: str | None, health_file: Path | None) -> int:
    """Run the coordinator of the crawl that cluster.toml describes.

    It decides which node runs which shard, passes on seeds, and detects the end of the crawl.
    """
    return run(file, listen, health_file)


def run(
    file: Path,
    listen: str | None,
    health_file: Path | None = None,
    protocol: int = PROTOCOL,
) -> ExitCode:
    """Serve until the end as a program of the number ``protocol``; returns the exit code."""
    from lycosa.folder.bucket import read_crawl
    from lycosa.network import credentials_of
    from lycosa.system.health import HealthFile

    given = given_cluster(file)
    addresses = [listen] if listen else list(given.coordinators)
    if not addresses:
        raise click.UsageError(
            f"{file} names no coordinator: add the section [coordinator] with addresses ="
            ' ["HOST:PORT"], where nodes find it, or use --listen'
        )
    credentials, client, store = credentials_of(given), kafka_client(given), object_store(given)
    for warning in given.warnings():
        tell_line(f"warning: {warning}")
    health = HealthFile(health_file)
    health.write(False, "starts")
    try:
        crawl = read_crawl(store, given, protocol)
        end = asyncio.run(
            _serve(given, crawl, client, store, credentials, addresses, health, protocol)
        )
    finally:
        health.remove()
    if end.is_superseded:
        tell_line("another coordinator has taken over; this one ends")
    else:
        tell_line("the coordinator ends; the crawl continues without it")
    return ExitCode.FINISHED


async def _serve(
    given: ClusterFile,
    crawl: StoredCrawl,
    client: KafkaClient,
    store: ObjectStore,
    credentials: Credentials,
    addresses: list[str],
    health: HealthFile,
    protocol: int,
) -> ServeEnd:
    from lycosa.folder.bucket import read_crawl
    from lycosa.kafka import crawl_topics
    from lycosa.serve.running_coordinator import RunningCoordinator, ServeEnd
    from lycosa.serve.saved_records import SavedRecords
    from lycosa.serve.server import CoordinatorServer

    def read_limits() -> LimitSection:
        return read_crawl(store, given, protocol).config.limits

    def note_waiting(text: str) -> None:
        runner.note_waiting(text)

    topics = crawl_topics(given, crawl.manifest.generation)
    records = SavedRecords(client, topics, crawl.manifest.crawl, note_waiting)
    try:
        runner = RunningCoordinator(given.name, records, tell_line)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN or number is signal.SIGINT:
                loop.add_signal_handler(number, runner.finish, ServeEnd())
        service = CoordinatorServer(
            given,
            runner,
            read_limits,
            tell_line,
            generation=crawl.manifest.generation,
            protocol=protocol,
        )
        keeping = asyncio.create_task(health.keep(runner.health))
        try:
            return await service.run(credentials, addresses, crawl.config)
        finally:
            keeping.cancel()
    finally:
        records.close()
