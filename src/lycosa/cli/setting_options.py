"""The options by which commands take settings: ``--config FILE`` and ``--set KEY=VALUE``."""

from __future__ import annotations

from pathlib import Path

import click

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings file in TOML; see `lycosa config`.",
)
set_option = click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting; may be repeated. See `lycosa config`.",
)
