"""``lycosa completion``: the script with which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lycosa.cli.output import ExitCode, emit

_EPILOG = """
\b
To switch it on for the present user:
  bash  lycosa completion bash > ~/.local/share/bash-completion/completions/lycosa
  zsh   lycosa completion zsh > ~/.zfunc/_lycosa      with ~/.zfunc in fpath, before compinit
  fish  lycosa completion fish > ~/.config/fish/completions/lycosa.fish

A new shell then completes the program that is called lycosa on its PATH.
"""


@click.command("completion", epilog=_EPILOG, short_help="Completion for bash, zsh or fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> ExitCode:
    """Print the script that completes commands, options and their values in SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    emit(kind(click.get_current_context().find_root().command, {}, "lycosa", _VARIABLE).source())
    return ExitCode.FINISHED


_VARIABLE = "_LYCOSA_COMPLETE"
"""The variable by which a shell asks the program (``click.shell_completion``)."""
