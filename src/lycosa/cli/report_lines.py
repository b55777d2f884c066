"""Reports of a command that follows a crawl, on standard error or as JSON lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from lycosa.cli.crawl_reading import ProgressLine
from lycosa.cli.output import emit

_EVERY_S, _PLAIN_S = 1.0, 10.0  # on a terminal and elsewhere


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
        is_late: bool = False,
    ) -> None:
        self._place, self._line, self._back = place, line, back
        self._progress = ProgressLine(_EVERY_S, _PLAIN_S, is_late)
        self._json_at = 0.0  # of the last line of JSON, monotonic
        self._last: _Report | None = None
        self.clear = self._progress.clear

    def show(self, report: _Report) -> None:
        """One line that is rewritten; without a terminal a line every ten seconds.

        What the command waits for stays on the screen.
        """
        before = self._last.waits_for if self._last else ""
        if report.waits_for != before and report.waits_for:
            self._progress.say(f"{report.waits_for}; trying again")
        elif before and not report.waits_for:
            self._progress.say(self._back)
        elif report != self._last:
            self._progress.show(f"{self._place}: {self._line(report)}")
        self._last = report

    def print_json(self, report: _Report) -> None:
        """One line of JSON."""
        now, waited = time.monotonic(), self._last.waits_for if self._last else ""
        is_due = report != self._last and now - self._json_at >= _EVERY_S
        if is_due or report.waits_for != waited:
            self._json_at, self._last = now, report
            emit(msgspec.json.encode(report).decode())
            sys.stdout.flush()
