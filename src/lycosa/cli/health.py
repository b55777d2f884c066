"""``lycosa health``: whether a node or a coordinator on this machine runs, for probes."""

from __future__ import annotations

import time
from pathlib import Path

import click

from lycosa.cli.output import ExitCode, emit, emit_json

_EPILOG = """
\b
Examples:
  lycosa health /run/lycosa/health.json           the process runs
  lycosa health /run/lycosa/health.json --ready   and does its work

`lycosa serve --health FILE` and `lycosa node --health FILE` write the file every five seconds. A
file that is older than a minute says that the process hangs or has ended. A coordinator is ready
when it has the crawl; a node is ready when it is connected to a coordinator and every shard that it
was given runs. Losing Kafka, object storage or the coordinator is no reason to restart a process.

\b
Exit codes: 0 yes, 1 no, 2 bad usage
"""


@click.command("health", epilog=_EPILOG, short_help="Whether a node or coordinator here runs.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--ready", is_flag=True, help="Ask whether it is ready, not only whether it runs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(file: Path, ready: bool, as_json: bool) -> int:
    """Read the health FILE of a process and say whether it runs."""
    from lycosa.base.system.health_file import fault_of, read_health

    fault, state, is_ready = "", "", False
    try:
        health = read_health(file)
    except OSError as error:
        fault = f"{file}: {error.strerror}: the process has not started, or has ended"
    except ValueError as error:
        fault = str(error)
    else:
        fault, state = fault_of(health, time.time()), health.state
        is_ready = health.is_ready and not fault
    is_good = is_ready if ready else not fault
    if as_json:
        values = {"runs": not fault, "ready": is_ready, "state": state, "fault": fault}
        emit_json(values)
    else:
        emit(fault or f"{'ready' if is_ready else 'not ready'}: {state}")
    return ExitCode.FINISHED if is_good else ExitCode.INTERNAL
