"""The options ``--why`` and ``--by`` of commands whose decisions are in the log of actions."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from typing import Any

import click


def remark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--why`` and ``--by``; the function gets both, ``by`` never empty."""
    for add in (
        click.option(
            "--by",
            default="",
            metavar="NAME",
            callback=_decider,
            help="Who decides [USER@MACHINE].",
        ),
        click.option(
            "--why",
            default="",
            metavar="TEXT",
            callback=_bounded,
            help="A remark for the log of actions.",
        ),
    ):
        function = add(function)
    return function


def _decider(context: click.Context, parameter: click.Parameter, value: str) -> str:
    return _bounded(context, parameter, value) or f"{getpass.getuser()}@{socket.gethostname()}"


def _bounded(context: click.Context, parameter: click.Parameter, value: str) -> str:
    from lycosa.base.calls import read_remark

    try:
        return read_remark(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
