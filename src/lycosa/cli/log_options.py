"""The options of the log, for the commands that run for long: crawl, node and serve.

They are put into the environment, which all processes of the crawl inherit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.base.config.extras import install_command
from lycosa.cli.option_sets import option_set

if TYPE_CHECKING:
    from lycosa.base.logs.log_writer import EventLog

_LOG = "lycosa.log"
_LEVELS = ("debug", "info", "warning", "error")


def program_log() -> EventLog:
    """The log of the command that runs, named after it; closed when the command ends."""
    from lycosa.base.logs.log_writer import EventLog, opened_log

    context = click.get_current_context(silent=True)
    if context is None:
        return EventLog(None, "lycosa")
    root = context.find_root()
    log: EventLog | None = root.meta.get(_LOG)
    if log is None:
        name = str(context.info_name)
        log = root.meta[_LOG] = opened_log("supervisor" if name == "crawl" else name)
        root.call_on_close(log.close)
    return log


def _take(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Put one option into the environment."""
    if value is None or context.resilient_parsing:
        return
    import msgspec

    from lycosa.base.logs.log_file import STDERR
    from lycosa.base.logs.log_records import LogLevel
    from lycosa.base.logs.log_writer import VARIABLE, LogTarget, log_target

    # What was inherited is another program's log, so the first option starts a new target.
    mine = context.meta.setdefault(VARIABLE, LogTarget(STDERR))
    if parameter.name == "log_file":
        _check_file(value)
        mine = msgspec.structs.replace(mine, path=str(Path(value).resolve()))
    elif parameter.name == "log_format":
        mine = msgspec.structs.replace(mine, form=value)
    elif parameter.name == "log_level":
        mine = msgspec.structs.replace(mine, level=LogLevel[value.upper()])
    else:
        size, number = _rotation(value)
        mine = msgspec.structs.replace(mine, most_bytes=size, most_files=number)
    context.meta[VARIABLE] = mine
    os.environ[VARIABLE] = msgspec.json.encode(mine).decode()
    assert log_target(os.environ) == mine


def _take_traces(context: click.Context, _: click.Parameter, share: float | None) -> None:
    """Put the share into the environment, when everything for traces is there."""
    if not share or context.resilient_parsing:
        return
    from importlib.util import find_spec

    if find_spec("opentelemetry") is None:
        raise click.UsageError(f"--traces needs OpenTelemetry: {install_command('traces')}")
    endpoints = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    if not any(os.environ.get(name) for name in endpoints):
        raise click.UsageError(
            f"--traces: set {endpoints[1]} to the collector, for example http://127.0.0.1:4318"
        )
    from lycosa.base.logs.log_writer import TRACES_VARIABLE

    os.environ[TRACES_VARIABLE] = str(share)


def _check_file(path: str) -> None:
    """Refuse a file that cannot be written, before anything is started."""
    try:
        Path(path).open("ab").close()
    except OSError as error:
        raise click.BadParameter(
            f"cannot write {path}: {error.strerror}; give a file in a folder that exists"
        ) from error


def _rotation(text: str) -> tuple[int, int]:
    """``100MBx5`` as bytes and number. Raises ``click.BadParameter``."""
    from lycosa.base.config.units import read_bytes

    size, _, number = text.lower().partition("x")
    try:
        most_bytes, most_files = read_bytes(size), int(number or "5")
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not SIZE or SIZExN, for example 50MBx3") from error
    if most_bytes < 10_000 or not 1 <= most_files <= 1000:
        raise click.BadParameter("the size is at least 10kB, and N is from 1 to 1000")
    return most_bytes, most_files


log_options = option_set(
    click.option(
        "--log-file",
        metavar="FILE",
        callback=_take,
        expose_value=False,
        help="Log events and each fetch to FILE (`lycosa docs logs`).",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        callback=_take,
        expose_value=False,
        help="Lines for people or JSON; without --log-file to standard error [text].",
    ),
    click.option(
        "--log-level",
        type=click.Choice(_LEVELS),
        callback=_take,
        expose_value=False,
        help="Minimum level to log [info].",
    ),
    click.option(
        "--log-rotate",
        metavar="SIZE[xN]",
        callback=_take,
        expose_value=False,
        help="Rename the log file at SIZE and keep N files [100MBx5].",
    ),
    click.option(
        "--traces",
        metavar="SHARE",
        type=click.FloatRange(0, 1),
        callback=_take_traces,
        expose_value=False,
        help="Send OpenTelemetry spans of the fetches of this share of the hosts [0].",
    ),
)
"""Add ``--log-file``, ``--log-format``, ``--log-level``, ``--log-rotate`` and ``--traces``.

The function does not get them: they are in effect before it is called.
"""
