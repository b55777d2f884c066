"""Options that several commands share, as one decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import click

Command: TypeAlias = Callable[..., Any]


def option_set(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """A decorator that adds these options and arguments, in this order."""

    def add(command: Command) -> Command:
        for each in reversed(options):
            command = each(command)
        return command

    return add


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
