"""Reports of a command that follows a crawl, on standard error or as JSON lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import click
import msgspec

from lycosa.cli.output import clean, emit

_EVERY_S = 10.0


class WaitingReport(Protocol):
    """What a command has done, and what it waits for (empty = nothing)."""

    @property
    def waits_for(self) -> str: ...


_Report = TypeVar("_Report", bound=WaitingReport)


class ReportLines(Generic[_Report]):
    """Reports on standard error, or as JSON lines: at most one a second, and none twice."""

    def __init__(
        self,
        place: str,
        line: Callable[[_Report], str],
        back: str = "the database is back",
        shown_at: float = 0.0,
    ) -> None:
        self._place, self._line, self._back = place, line, back
        self._is_terminal = sys.stderr.isatty()
        self._at = shown_at  # of the last line, monotonic
        self._last: _Report | None = None

    def show(self, report: _Report) -> None:
        """One line that is rewritten; without a terminal a line every ten seconds.

        What the command waits for stays on the screen.
        """
        before = self._last.waits_for if self._last else ""
        if report.waits_for != before and report.waits_for:
            self._print(f"{report.waits_for}; trying again")
        elif before and not report.waits_for:
            self._print(self._back)
        elif self._is_due(report, 1.0 if self._is_terminal else _EVERY_S):
            text = f"{self._place}: {self._line(report)}"
            if self._is_terminal:
                sys.stderr.write(f"\r\x1b[K{clean(text)}")
                sys.stderr.flush()
            else:
                self._print(text)
        self._last = report

    def print_json(self, report: _Report) -> None:
        """One line of JSON."""
        if self._is_due(report, 1.0) or (self._last and report.waits_for != self._last.waits_for):
            emit(msgspec.json.encode(report).decode())
            sys.stdout.flush()
            self._last = report

    def clear(self) -> None:
        """Remove the line."""
        if self._is_terminal and self._last is not None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _is_due(self, report: _Report, every_s: float) -> bool:
        now = time.monotonic()
        if report == self._last or now - self._at < every_s:
            return False
        self._at = now
        return True

    def _print(self, text: str) -> None:
        self.clear()
        click.echo(f"lycosa: {clean(text)}", err=True)
