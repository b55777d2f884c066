"""Common parts of the commands for clusters: ``cluster.toml``, Kafka, object storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.base.config.extras import install_command
from lycosa.cli.log_options import program_log

if TYPE_CHECKING:
    from lycosa.base.config.cluster_file import ClusterFile
    from lycosa.cluster.kafka.kafka_clients import KafkaClient
    from lycosa.cluster.kafka.topics import Topics
    from lycosa.cluster.redis.redis_check import RedisFinding
    from lycosa.state.objects.objects_port import ObjectStore

CLUSTER_FILE = click.Path(path_type=Path, dir_okay=False)
health_option = click.option(
    "--health",
    "health_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write this file every five seconds, for `lycosa health`.",
)
"""The option of programs that probes watch."""


def tell_line(text: str) -> None:
    """Print a line for the operator on standard error."""
    from lycosa.base.logs.log_records import LogLevel

    log = program_log()
    log.note(LogLevel.INFO, "note", text)
    if not log.is_on_stderr:
        click.echo(f"lycosa: {text}", err=True)


def given_cluster(file: Path) -> ClusterFile:
    """The file's content. Raises ``SettingsError`` or ``OSError``."""
    from lycosa.base.config.cluster_file import read_cluster_file

    return read_cluster_file(file)


def reachable_cluster(file: Path) -> ClusterFile:
    """The content of a file that names coordinators. Raises ``click.UsageError`` as well."""
    given = given_cluster(file)
    if not given.coordinators:
        raise click.UsageError(
            f"{file} names no coordinator: add the section [coordinator] with addresses ="
            ' ["HOST:PORT"], where `lycosa serve` listens'
        )
    return given


@contextmanager
def client_of(service: str, extra: str) -> Iterator[None]:
    """For an import that needs the client of a service, which ``extra`` installs.

    Raises ``click.UsageError``.
    """
    try:
        yield
    except ImportError as error:
        raise click.UsageError(
            f"the client of {service} is not installed ({error.name}): {install_command(extra)}"
        ) from error


def kafka_client(given: ClusterFile) -> KafkaClient:
    """A client of the cluster's Kafka. Raises ``click.UsageError``, ``BadClientSettings``."""
    with client_of("Kafka", "cluster"):
        from lycosa.cluster.kafka.kafka_clients import KafkaClient, KafkaSettings
    return KafkaClient(KafkaSettings(given.kafka.addresses, given.kafka.security))


def redis_findings(given: ClusterFile) -> list[RedisFinding]:
    """What is wrong with the servers of ``[redis]``. Raises ``click.UsageError``."""
    if given.redis is None:
        return []
    check_redis_client(given)
    import asyncio

    from lycosa.cluster.redis.redis_check import check_redis

    return asyncio.run(check_redis(given.redis))


def check_redis_client(given: ClusterFile) -> None:
    """Raise ``click.UsageError`` when ``[redis]`` is given and its client is not installed."""
    from importlib.util import find_spec

    if given.redis is not None and find_spec("redis") is None:
        raise click.UsageError(
            f"{given.path} has the section [redis], and the Redis client is not installed here:"
            f" {install_command('redis')}"
        )


def topics_of(given: ClusterFile, store: ObjectStore) -> Topics:
    """The topics of the crawl, also if it is not created yet. Raises ``ObjectError``."""
    from lycosa.cluster.kafka.topics import crawl_topics
    from lycosa.cluster.shards.stored_crawl import newest_manifest
    from lycosa.state.objects.object_errors import ObjectMissing

    try:
        generation = newest_manifest(store)[0].generation
    except ObjectMissing:
        generation = ""
    return crawl_topics(given, generation)


def object_store(given: ClusterFile) -> ObjectStore:
    """The object storage of the crawl. Raises ``click.UsageError`` or ``StoreUnusable``."""
    from lycosa.state.objects.store_opening import open_store

    if not given.objects:
        raise click.UsageError(
            f"{given.path} has no object storage, which a crawl on many machines needs: add the"
            ' section [objects] with url = "s3://BUCKET/PREFIX"'
        )
    return open_store(given.objects)
