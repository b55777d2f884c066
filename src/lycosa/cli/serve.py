"""``lycosa serve``: a crawl without an end, on this machine or as coordinator of many machines."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.base.model.compatibility import PROTOCOL
from lycosa.cli.api_options import DEFAULT_ADDRESS, api_given, api_options
from lycosa.cli.cluster_parts import (
    CLUSTER_FILE,
    given_cluster,
    health_option,
    kafka_client,
    object_store,
    tell_line,
)
from lycosa.cli.crawl_seeds import CrawlSeeds
from lycosa.cli.log_options import log_options
from lycosa.cli.output import ExitCode
from lycosa.cli.serve_signals import handle_signals
from lycosa.cli.setting_options import (
    address_options,
    config_option,
    contact_option,
    delay_option,
    scope_option,
    set_option,
)

if TYPE_CHECKING:
    from lycosa.base.config.cluster_file import ClusterFile
    from lycosa.base.config.sections import LimitSection
    from lycosa.base.messages.coordinator_messages import ServedCrawl
    from lycosa.base.system.health_file import HealthFile
    from lycosa.cluster.kafka.kafka_clients import KafkaClient
    from lycosa.cluster.network.credentials import Credentials
    from lycosa.cluster.serve.running_coordinator import ServeEnd
    from lycosa.cluster.shards.stored_crawl import StoredCrawl
    from lycosa.processes.api_keeper import ApiKeeper, ApiListener
    from lycosa.service.api.api_job import ApiSettings
    from lycosa.state.objects.objects_port import ObjectStore

_EPILOG = """
\b
Examples:
  lycosa serve news                                           the crawl folder news, by HTTP
  lycosa serve news --seed https://example.org/ --api 127.0.0.1:8480
  lycosa serve --cluster cluster.toml                         at an address of [coordinator]
  lycosa serve --cluster cluster.toml --listen 10.0.0.5:7070  at this address
  lycosa serve --cluster cluster.toml --api                   with the HTTP interface

A crawl that is served on this machine does not end when it has nothing to do: it is given URLs,
paused, stopped and resumed by HTTP (`lycosa docs api`, `lycosa docs service`). SIGTERM or
Ctrl-C ends the service in order; the same command resumes the crawl.

A coordinator that is started takes over from the one before it, which then ends. SIGTERM or Ctrl-C
ends the coordinator; the crawl continues without it, but no shard moves until there is one again.

\b
Exit codes: 0 ended by a signal, or another coordinator took over
            1 a service failed, 2 bad usage or settings
"""


_OF_A_FOLDER = (
    *("config_file", "pairs", "extension", "scope", "delay", "contact", "resolve"),
    "allow_address",
)


@click.command(
    "serve", epilog=_EPILOG, short_help="Run a crawl as a service, or coordinate many machines."
)
@click.argument("folder", required=False, type=click.Path(path_type=Path, file_okay=False))
@click.option("--cluster", "file", type=CLUSTER_FILE, help="The crawl's cluster.toml.")
@click.option("--seed", "seeds", multiple=True, metavar="URL", help="A seed; may be repeated.")
@config_option
@set_option
@scope_option
@delay_option
@contact_option
@address_options
@click.option(
    "--extension",
    multiple=True,
    metavar="FILE.py:NAME",
    help="Run this code on fetched pages of a FOLDER's crawl; may be repeated.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address for nodes and callers [the first of coordinator.addresses that is free here].",
)
@api_options
@health_option
@log_options
def command(
    folder: Path | None,
    file: Path | None,
    seeds: tuple[str, ...],
    listen: str | None,
    health_file: Path | None,
    **options: Any,
) -> int:
    """Run the crawl in FOLDER without an end, or the coordinator of a cluster's crawl.

    A FOLDER that is no crawl yet becomes one, with the settings that are given. The coordinator of
    --cluster decides which node runs which shard, passes on seeds, and detects the end of the
    crawl.
    """
    if (folder is None) == (file is None):
        raise click.UsageError("give either a crawl FOLDER or --cluster FILE")
    if folder is not None:
        if listen:
            raise click.UsageError("--listen is for a coordinator (--cluster); see --api")
        from lycosa.cli import serve_folder

        api = api_given(options, DEFAULT_ADDRESS)
        assert api is not None, "it has a default"
        return serve_folder.run(folder, CrawlSeeds(seeds), options, api, health_file)
    if seeds or any(options[name] for name in _OF_A_FOLDER):
        raise click.UsageError(
            "--seed, --extension, --config, --set and other settings are for a FOLDER: a cluster"
            " has its settings from `lycosa cluster init`, and its seeds from `lycosa crawl"
            " --cluster`"
        )
    assert file is not None
    return run(file, listen, health_file, api_given(options))


def run(
    file: Path,
    listen: str | None,
    health_file: Path | None = None,
    api: tuple[ApiSettings, ApiListener] | None = None,
    protocol: int = PROTOCOL,
) -> ExitCode:
    """Serve until the end as a program of the number ``protocol``; returns the exit code."""
    from lycosa.base.system.health_file import HealthFile
    from lycosa.cluster.network.credentials import credentials_of
    from lycosa.cluster.shards.stored_crawl import read_crawl

    given = given_cluster(file)
    addresses = [listen] if listen else list(given.coordinators)
    if not addresses:
        raise click.UsageError(
            f"{file} names no coordinator: add the section [coordinator] with addresses ="
            ' ["HOST:PORT"], where nodes find it, or use --listen'
        )
    credentials = credentials_of(given, tell_line)
    client, store = kafka_client(given), object_store(given)
    for warning in given.warnings():
        tell_line(f"warning: {warning}")
    health = HealthFile(health_file)
    health.write(False, "starts")
    try:
        crawl = read_crawl(store, given, protocol)
        end = asyncio.run(
            _serve(given, crawl, client, store, credentials, addresses, health, api, protocol)
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
    api: tuple[ApiSettings, ApiListener] | None,
    protocol: int,
) -> ServeEnd:
    from lycosa.cluster.kafka.topics import crawl_topics
    from lycosa.cluster.serve.coordinator_server import CoordinatorServer
    from lycosa.cluster.serve.running_coordinator import RunningCoordinator, ServeEnd
    from lycosa.cluster.serve.saved_records import SavedRecords
    from lycosa.cluster.shards.stored_crawl import read_crawl
    from lycosa.state.store.foreign_records import ForeignRecords

    def read_limits() -> LimitSection:
        return read_crawl(store, given, protocol).config.limits

    def note_waiting(text: str) -> None:
        runner.note_waiting(text)

    topics = crawl_topics(given, crawl.manifest.generation)
    foreign = ForeignRecords(store, tell_line)
    records = SavedRecords(client, topics, crawl.manifest.crawl, note_waiting, foreign.note)
    try:
        runner = RunningCoordinator(given.name, records, tell_line)
        keeper: ApiKeeper | None = None

        def reload() -> None:
            if keeper is not None:
                keeper.reload()

        handle_signals(partial(runner.finish, ServeEnd()), reload)
        service = CoordinatorServer(
            given,
            runner,
            read_limits,
            tell_line,
            crawl=_served(crawl),
            protocol=protocol,
        )
        keeping = asyncio.create_task(health.keep(runner.health))
        keeper = _api_keeper(given, api)
        try:
            return await service.run(credentials, addresses, crawl.config)
        finally:
            keeping.cancel()
            if keeper is not None:
                await keeper.close()
    finally:
        records.close()


def _served(crawl: StoredCrawl) -> ServedCrawl:
    from lycosa.base.messages.coordinator_messages import ServedCrawl

    manifest = crawl.manifest
    return ServedCrawl(manifest.crawl, manifest.generation, crawl.formats, crawl.code)


def _api_keeper(
    given: ClusterFile, api: tuple[ApiSettings, ApiListener] | None
) -> ApiKeeper | None:
    """The running keeper of the HTTP process, if there is to be one."""
    if api is None:
        return None
    from lycosa.processes.api_keeper import ApiKeeper
    from lycosa.service.api.api_job import ApiJob

    settings, listener = api
    job = ApiJob(settings, -1, cluster_file=str(given.path.resolve()))
    keeper = ApiKeeper(job, listener, tell_line)
    keeper.start()
    tell_line(f"the API and the operator's page are at {listener.url}")
    return keeper
