"""``lycosa cluster``: create a crawl on many machines, check its topics, and control it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli import (
    cluster_control,
    cluster_import,
    cluster_rescue,
    cluster_status,
    cluster_upgrade,
)
from lycosa.cli.cluster_parts import (
    CLUSTER_FILE,
    given_cluster,
    kafka_client,
    object_store,
    redis_findings,
    topics_of,
)
from lycosa.cli.extension import store_first_code
from lycosa.cli.output import ExitCode, emit, emit_json, human_bytes
from lycosa.cli.setting_options import config_option, set_option

if TYPE_CHECKING:
    from lycosa.base.config.cluster_file import ClusterFile
    from lycosa.base.config.sections import Config
    from lycosa.cluster.kafka.kafka_clients import KafkaClient
    from lycosa.cluster.kafka.topics import Topics
    from lycosa.cluster.kafka.upkeep import Finding
    from lycosa.cluster.redis.redis_check import RedisFinding
    from lycosa.cluster.shards.stored_crawl import CreationReport
    from lycosa.state.objects.objects_port import ObjectStore

_SHARD_BYTES = 270_000_000  # of memory: a worker with its parse child

_EPILOG = """
\b
Examples:
  lycosa cluster init cluster.toml --set scope.rule=site   create topics and the crawl, then check
  lycosa cluster check cluster.toml          list wrong settings, each with its correction
  lycosa cluster status cluster.toml         nodes, shards, progress
  lycosa cluster drain cluster.toml node-2   move all shards away from a node
  lycosa cluster move cluster.toml 3 node-2  move shard 3 to that node
  lycosa cluster set cluster.toml politeness.delay_s=5s    for all workers, at once
  lycosa cluster import cluster.toml DIR     bring the crawl of a folder to the cluster
  lycosa cluster stop cluster.toml           end the crawl; it can be resumed
  lycosa cluster resume cluster.toml         continue it
  lycosa cluster upgrade cluster.toml        use the formats of a version that all nodes have

\b
A minimal cluster.toml:
  name = "example"
  [kafka]
  addresses = ["10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092"]
  [objects]
  url = "s3://bucket/example"
  [coordinator]
  addresses = ["10.0.0.4:7070"]
"""


@click.group(
    "cluster", epilog=_EPILOG, short_help="Create, check and control a crawl on many machines."
)
def command() -> None:
    """Create, check and control a crawl on many machines."""


@command.command("init", short_help="Create missing topics and the crawl, then check.")
@click.argument("file", type=CLUSTER_FILE)
@config_option
@set_option
@click.option(
    "--extension",
    "extensions",
    multiple=True,
    metavar="FILE.py:NAME",
    help="Run this code on fetched pages, on nodes that allow it; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def init(
    file: Path,
    config_file: Path | None,
    pairs: tuple[str, ...],
    extensions: tuple[str, ...],
    as_json: bool,
) -> int:
    """Create the missing topics, and the crawl that FILE (cluster.toml) describes.

    The crawl's identity and settings are stored in object storage. If the crawl exists, the given
    settings are changed; those that stored data depends on cannot change. Then check all topics and
    brokers. Nothing is made when the topics have the log of another crawl, or have lost commits.
    """
    given = given_cluster(file)
    client, store = kafka_client(given), object_store(given)
    from lycosa.cluster.kafka.upkeep import check_topics, make_topics

    config = _config(given, store, config_file, pairs, extensions)
    topics = topics_of(given, store)
    cluster_rescue.refuse_lost_topics(given, store, client, topics)
    _refuse_contradictions(given, store, client, topics)
    made = make_topics(client, topics)
    findings: list[Finding | RedisFinding] = [
        *check_topics(client, topics),
        *redis_findings(given),
    ]
    store_first_code(store, given, config)
    return _report(given, made, findings, _store(given, store, config), as_json)


@command.command("check", short_help="Check topics, brokers and the crawl; change nothing.")
@click.argument("file", type=CLUSTER_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def check(file: Path, as_json: bool) -> int:
    """Check that brokers and topics have the settings that the crawl of FILE (cluster.toml) needs.

    And that the crawl was created in object storage, that the log of each shard belongs to it and
    ends at or behind the newest snapshot, and that Redis can be used, if it is configured. Nothing
    is changed.
    """
    given = given_cluster(file)
    client, store = kafka_client(given), object_store(given)
    from lycosa.cluster.kafka.upkeep import check_topics

    topics = topics_of(given, store)
    findings: list[Finding | RedisFinding] = [
        *check_topics(client, topics),
        *_crawl_findings(given, store),
        *_log_findings(store, client, topics),
        *redis_findings(given),
    ]
    return _report(given, [], findings, None, as_json)


command.add_command(cluster_status.status)
command.add_command(cluster_import.import_crawl)
command.add_command(cluster_rescue.rescue)
command.add_command(cluster_upgrade.upgrade)
for _each in cluster_control.COMMANDS:
    command.add_command(_each)


def _config(
    given: ClusterFile,
    store: ObjectStore,
    file: Path | None,
    pairs: Sequence[str],
    extensions: Sequence[str],
) -> Config:
    """The settings of all sources; those of an existing crawl replace the defaults.

    Raises ``SettingsError``, ``ManifestError``, ``ObjectError``.
    """
    from lycosa.base.config.sources import DEFAULT, SAVED, SettingsError, load_settings
    from lycosa.cluster.shards.stored_crawl import check_cluster_settings, stored_config

    flags = {"extensions.code": tuple(extensions)}
    settings = load_settings(file, os.environ, pairs, flags, base=stored_config(store, given))
    origin = settings.origin("frontier.partitions")
    if origin not in (DEFAULT, SAVED) and settings.config.frontier.partitions != given.shards:
        raise SettingsError(
            [
                f"{origin}: frontier.partitions: a cluster has one partition for each shard; set"
                f" shards in {given.path}, where it is {given.shards}"
            ]
        )
    check_cluster_settings(settings.config)
    return settings.config


def _store(given: ClusterFile, store: ObjectStore, config: Config) -> CreationReport:
    from lycosa.base.system.software import SOFTWARE
    from lycosa.cluster.shards.stored_crawl import store_crawl

    return store_crawl(store, given, config, SOFTWARE, time.time())


def _crawl_findings(given: ClusterFile, store: ObjectStore) -> list[Finding]:
    """What is wrong with the crawl in object storage."""
    from lycosa.cluster.kafka.upkeep import Finding
    from lycosa.cluster.shards.stored_crawl import NoStoredCrawl, read_crawl
    from lycosa.state.folder.manifest import ManifestError
    from lycosa.state.objects.object_errors import ObjectError

    try:
        read_crawl(store, given)
    except NoStoredCrawl:
        return [
            Finding(
                f"the crawl {given.name} was not created at {given.objects}, or not completely",
                "lycosa cluster init FILE creates it",
            )
        ]
    except (ManifestError, ObjectError) as error:
        return [Finding(str(error), "correct the place, the file or the credentials")]
    return []


def _log_findings(store: ObjectStore, client: KafkaClient, topics: Topics) -> list[Finding]:
    """What contradicts between the logs of the shards and the object storage."""
    from lycosa.cluster.shards.stored_crawl import newest_manifest
    from lycosa.processes.log_comparison import compare_logs
    from lycosa.state.objects.object_errors import ObjectMissing

    try:
        manifest, _ = newest_manifest(store)
    except ObjectMissing:
        return compare_logs(client, topics, store, None)
    return compare_logs(client, topics, store, manifest)


def _refuse_contradictions(
    given: ClusterFile, store: ObjectStore, client: KafkaClient, topics: Topics
) -> None:
    """Change nothing when the topics are of another crawl, or have lost commits.

    Raises ``click.UsageError``.
    """
    if found := _log_findings(store, client, topics):
        raise click.UsageError(f"{found[0].what}; {_with_path(found[0].fix, given)}")


def _report(
    given: ClusterFile,
    made: list[str],
    findings: Sequence[Finding | RedisFinding],
    crawl: CreationReport | None,
    as_json: bool,
) -> ExitCode:
    """Print what was made and what is wrong; returns the exit code."""
    errors = [each for each in findings if not each.is_warning]
    if as_json:
        emit_json(
            {
                "name": given.name,
                "shards": given.shards,
                "memory_bytes": given.shards * _SHARD_BYTES,
                "made": made,
                "crawl": crawl.crawl.manifest.crawl if crawl else None,
                "is_new": crawl.is_new if crawl else None,
                "changes": crawl.changes if crawl else [],
                "findings": [
                    {"what": each.what, "fix": each.fix, "is_warning": each.is_warning}
                    for each in findings
                ],
                "warnings": given.warnings(),
            }
        )
    else:
        _print(given, made, findings, crawl)
    return ExitCode.USAGE if errors else ExitCode.FINISHED


def _print(
    given: ClusterFile,
    made: list[str],
    findings: Sequence[Finding | RedisFinding],
    crawl: CreationReport | None,
) -> None:
    for name in made:
        emit(f"made topic {name}")
    if crawl is not None:
        for line in _crawl_lines(given, crawl):
            emit(line)
    for each in findings:
        emit(f"{'warning' if each.is_warning else 'wrong'}: {each.what}")
        emit(f"  {_with_path(each.fix, given)}")
    for warning in given.warnings():
        emit(f"warning: {warning}")
    memory = human_bytes(given.shards * _SHARD_BYTES)
    emit(f"{given.shards} shards need about {memory} of memory on all nodes together.")
    if not any(not each.is_warning for each in findings):
        emit(f"Topics and brokers have the settings that the crawl {given.name} needs.")


def _with_path(fix: str, given: ClusterFile) -> str:
    """A correction with the path of the file in our own commands."""
    for name in ("init", "rescue"):
        fix = fix.replace(f"cluster {name} FILE", f"cluster {name} {given.path}")
    return fix


def _crawl_lines(given: ClusterFile, crawl: CreationReport) -> list[str]:
    name = f"crawl {crawl.crawl.manifest.crawl[:8]}"
    if crawl.is_new:
        return [f"made {name} at {given.objects}"]
    if not crawl.changes:
        return [f"{name} exists at {given.objects}, with these settings"]
    return [
        f"changed settings of {name}; each worker uses them from its next start:",
        *(f"  {change}" for change in crawl.changes),
    ]
