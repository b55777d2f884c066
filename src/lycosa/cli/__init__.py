"""The command line."""

from lycosa.cli.main import main

__all__ = ["main"]
