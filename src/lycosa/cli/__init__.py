"""The command line: one module for each command, and what several commands share."""

from lycosa.cli.main import main

__all__ = ["main"]
