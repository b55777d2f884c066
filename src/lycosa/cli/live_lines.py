"""A table at the bottom of a terminal that is redrawn, below lines that stay."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lycosa.cli.output import clean


class LiveLines:
    """Writes to standard error, from ``start`` to ``stop``."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    @property
    def can_redraw(self) -> bool:
        """Whether standard error is a terminal that can redraw lines; ``TERM=dumb`` cannot."""
        return self._console.is_terminal and not self._console.is_dumb_terminal

    def start(self) -> None:
        self._live.start()

    def stop(self) -> None:
        """Remove the table."""
        self._live.stop()

    def print_line(self, text: str, style: str = "") -> None:
        """Print a line that stays; it is not markup."""
        self._console.print(
            text, style=style or None, highlight=False, markup=False, soft_wrap=True
        )

    def show_table(self, rows: Iterable[tuple[str, str]]) -> None:
        """Show this table of names and values."""
        table = Table.grid(padding=(0, 2))
        for name, value in rows:
            table.add_row(Text(name, style="bold"), Text(clean(value)))
        self._live.update(table, refresh=True)
