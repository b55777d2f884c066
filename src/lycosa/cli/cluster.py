"""``lycosa cluster``: prepare a crawl on many machines, and check its topics and brokers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.output import ExitCode, emit, emit_json, human_bytes

if TYPE_CHECKING:
    from lycosa.config.cluster_file import ClusterFile
    from lycosa.kafka import Finding

_SHARD_BYTES = 270_000_000  # of memory: a worker with its parse child
_FILE = click.Path(path_type=Path, dir_okay=False)

_EPILOG = """
\b
Examples:
  lycosa cluster init cluster.toml     create missing topics, then check
  lycosa cluster check cluster.toml    list wrong settings, each with the command that corrects it

\b
A minimal cluster.toml:
  name = "example"
  [kafka]
  addresses = ["10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092"]
"""


@click.group(
    "cluster", epilog=_EPILOG, short_help="Prepare a crawl on many machines, and check it."
)
def command() -> None:
    """Prepare a crawl on many machines: its topics in Kafka, and their settings."""


@command.command("init", short_help="Create missing topics, then check.")
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def init(file: Path, as_json: bool) -> int:
    """Create the missing topics of the crawl that FILE (cluster.toml) describes.

    Then check all topics and brokers.
    """
    return run(file, makes=True, as_json=as_json)


@command.command("check", short_help="Check topics and brokers; change nothing.")
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def check(file: Path, as_json: bool) -> int:
    """Check that brokers and topics have the settings that the crawl of FILE (cluster.toml) needs.

    Nothing is changed.
    """
    return run(file, makes=False, as_json=as_json)


def run(file: Path, makes: bool, as_json: bool) -> int:
    """Create topics if ``makes``, check, and print the result; returns the exit code."""
    from lycosa.config.cluster_file import read_cluster_file

    given = read_cluster_file(file)
    try:
        from lycosa.kafka import KafkaClient, KafkaSettings, Topics, check_topics, make_topics

        client = KafkaClient(KafkaSettings(given.kafka.addresses, given.kafka.security))
    except ImportError as error:
        raise click.UsageError(
            f"the Kafka client is not installed ({error.name}): pip install 'lycosa[cluster]'"
        ) from error
    topics = Topics(given.name, given.shards, given.kafka.replication, given.kafka.min_insync)
    made = make_topics(client, topics) if makes else []
    findings = check_topics(client, topics)
    errors = [each for each in findings if not each.is_warning]
    if as_json:
        emit_json(
            {
                "name": given.name,
                "shards": given.shards,
                "memory_bytes": given.shards * _SHARD_BYTES,
                "made": made,
                "findings": [
                    {"what": each.what, "fix": each.fix, "is_warning": each.is_warning}
                    for each in findings
                ],
                "warnings": given.warnings(),
            }
        )
    else:
        _print(given, made, findings)
    return ExitCode.USAGE if errors else ExitCode.FINISHED


def _print(given: ClusterFile, made: list[str], findings: list[Finding]) -> None:
    for name in made:
        emit(f"made topic {name}")
    for each in findings:
        emit(f"{'warning' if each.is_warning else 'wrong'}: {each.what}")
        emit(f"  {each.fix.replace('cluster init FILE', f'cluster init {given.path}')}")
    for warning in given.warnings():
        emit(f"warning: {warning}")
    memory = human_bytes(given.shards * _SHARD_BYTES)
    emit(f"{given.shards} shards need about {memory} of memory on all nodes together.")
    if not any(not each.is_warning for each in findings):
        emit(f"Topics and brokers have the settings that the crawl {given.name} needs.")
