"""``lycosa cluster``: prepares a crawl on many machines, and checks what it is to run on."""

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
  lycosa cluster init cluster.toml     makes the topics that are missing, then checks
  lycosa cluster check cluster.toml    what is set otherwise than a crawl needs, with the command that corrects it

\b
A smallest cluster.toml:
  name = "example"
  [kafka]
  addresses = ["10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092"]
"""


@click.group(
    "cluster", epilog=_EPILOG, short_help="Prepare a crawl on many machines, and check it."
)
def command() -> None:
    """Prepare a crawl on many machines: the topics in Kafka, and whether they are set right."""


@command.command("init", short_help="Make the topics that are missing, then check.")
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def init(file: Path, as_json: bool) -> int:
    """Make the topics of the crawl that FILE (cluster.toml) describes, as far as they are missing, and check all of them."""
    return run(file, makes=True, as_json=as_json)


@command.command("check", short_help="Check topics and brokers; change nothing.")
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def check(file: Path, as_json: bool) -> int:
    """Check that brokers and topics are set as the crawl of FILE (cluster.toml) needs them. Nothing is changed."""
    return run(file, makes=False, as_json=as_json)


def run(file: Path, makes: bool, as_json: bool) -> int:
    """Makes and checks; gives the exit code."""
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
        emit(f"Topics and brokers are set as the crawl {given.name} needs them.")
