"""Follows a feed into a target: batches, waits for targets that are away, reports.

    position in the target ──► rows after it, in batches ──► write(rows, before, after) ──► ...
    TargetAway, Overtaken  ──► open the target again, continue behind the position that it has

A batch in memory is all that a dead target costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from lycosa.feeds.export_port import (
    Exporter,
    ExportRow,
    ExportTable,
    Overtaken,
    TableChanged,
    TargetAway,
)
from lycosa.state.store.journal import JournalError

_POLL_S = 0.5
_SETTLE_S = 15.0  # the last commit of a killed crawl counts after some seconds
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0


class RowFeed(Protocol):
    """The rows of a feed after a position."""

    @property
    def position(self) -> str:
        """The position after the row that was given last."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether there are commits of which the rows were not given yet."""
        ...

    def new_rows(self) -> Iterator[bytes]:
        """The rows that were not given yet, to the present end, as JSON without a line end.

        Raises ``LogDamaged``, ``JournalError``, ``StoreDamaged`` or ``OSError``.
        """
        ...


class ExportFeed(RowFeed, Protocol):
    """A feed with a table: what its rows are is known before the first one.

    ``position`` is between two rows, or between those of two captures.
    """

    crawl: str
    """The id of the crawl."""

    @property
    def table(self) -> ExportTable: ...


class ExportReport(msgspec.Struct, frozen=True):
    """What an export has done since its start, and what it waits for (empty = nothing).

    ``overtaken`` counts batches that another exporter of the same target had written.
    """

    rows: int = 0
    batches: int = 0
    overtaken: int = 0
    position: str = ""
    is_behind: bool = True
    waits_for: str = ""


class ExportRun:
    """One feed and one target.

    ``open_feed`` gives the feed after a position, and ``exporter_of`` the exporter of a table.
    ``tell`` gets a report after each step. ``wait`` pauses for some seconds, and returns whether to
    end.
    """

    def __init__(
        self,
        open_feed: Callable[[str], ExportFeed],
        exporter_of: Callable[[ExportTable], Exporter],
        tell: Callable[[ExportReport], None],
        wait: Callable[[float], bool],
    ) -> None:
        self._open_feed, self._exporter_of = open_feed, exporter_of
        self._tell, self._wait = tell, wait
        self._report = ExportReport()
        self._failures, self._is_ending = 0, False

    def follow(self, is_once: bool) -> ExportReport:
        """Export until ``wait`` says so, or the end if ``is_once``.

        What is committed when ``wait`` says so is exported too, unless the target is away. Raises
        ``TargetError``, ``BadPosition``, and what the feed raises.
        """
        exporter = self._exporter_of(self._open_feed("").table)
        while True:
            try:
                self._follow(exporter, is_once)
                return self._report
            except TableChanged:
                exporter.close()
                exporter = self._exporter_of(self._open_feed("").table)
                continue
            except Overtaken:
                self._note(overtaken=self._report.overtaken + 1)
                pause = _POLL_S
            except TargetAway as error:
                pause = min(_FIRST_WAIT_S * 2.0 ** min(self._failures, 10), _LONGEST_WAIT_S)
                self._failures += 1
                self._note(waits_for=str(error))
                if self._is_ending:
                    return self._report
            finally:
                exporter.close()
            self._pause(pause)
            if self._is_ending and self._report.waits_for:
                return self._report

    def _follow(self, exporter: Exporter, is_once: bool) -> None:
        stored = exporter.open()
        feed, began = self._open_feed(stored), time.monotonic()
        batch = _Batch(exporter, feed, stored, self._written)
        while True:
            had, ends = batch.added, is_once or self._is_ending
            try:
                for line in feed.new_rows():
                    batch.add(line)
            except JournalError:  # the rows before it are given
                batch.write()
                raise
            is_over = not feed.is_behind or time.monotonic() - began > _SETTLE_S
            if (is_over and ends) or batch.is_late:
                batch.write()
            if self._report.waits_for and not batch.has_rows:
                self._note(waits_for="")
            if feed.is_behind != self._report.is_behind:
                self._note(is_behind=feed.is_behind)
            if is_over and ends:
                return
            if batch.added == had:
                was_ending = self._is_ending
                self._pause(_POLL_S)
                if self._is_ending and not was_ending:
                    began = time.monotonic()  # the last commits become final in some seconds

    def _pause(self, seconds: float) -> None:
        """Wait; after the end has been told, only a moment."""
        if self._is_ending:
            time.sleep(_POLL_S)
        else:
            self._is_ending = self._wait(seconds)

    def _written(self, rows: int, position: str) -> None:
        self._failures = 0
        self._note(
            rows=self._report.rows + rows,
            batches=self._report.batches + 1,
            position=position,
            waits_for="",
        )

    def _note(self, **changes: object) -> None:
        self._report = msgspec.structs.replace(self._report, **changes)
        self._tell(self._report)


class _Batch:
    """Rows that wait to be written, never a part of those that belong to one capture."""

    def __init__(
        self,
        exporter: Exporter,
        feed: ExportFeed,
        stored: str,
        written: Callable[[int, str], None],
    ) -> None:
        self._exporter, self._feed, self._written = exporter, feed, written
        self._limit, self._table = exporter.batch, feed.table
        self._capture = self._table.index(self._table.capture) if self._table.capture else -1
        self._rows: list[ExportRow] = []
        self._bytes, self._since = 0, 0.0
        self._before, self._full = stored, ""
        self.added = 0
        """The number of rows since the beginning."""

    def add(self, line: bytes) -> None:
        """Add the row that the feed has just given."""
        row = ExportRow(self._table, line)
        if self._full and not self._continues(row):
            self._write(self._full)
        if not self._rows:
            self._since = time.monotonic()
        self._rows.append(row)
        self._bytes += len(line)
        self.added += 1
        if len(self._rows) >= self._limit.rows or self._bytes >= self._limit.bytes:
            # It is written when the next row is known to belong to another capture.
            self._full = self._feed.position

    def _continues(self, row: ExportRow) -> bool:
        at = self._capture
        return at >= 0 and self._rows[-1].values[at] == row.values[at]

    @property
    def has_rows(self) -> bool:
        """Whether there are rows that wait."""
        return bool(self._rows)

    @property
    def is_late(self) -> bool:
        """Whether the first row has waited as long as it may, or only the position has moved."""
        if not self._rows:
            return self._limit.moves
        return time.monotonic() - self._since >= self._limit.seconds

    def write(self) -> None:
        """Write what waits, when the feed has given all rows up to its position."""
        position = self._feed.position
        if self._rows or (self._limit.moves and position != self._before):
            self._write(position)

    def _write(self, position: str) -> None:
        rows, self._rows, self._bytes, self._full = self._rows, [], 0, ""
        self._exporter.write(rows, self._before, position)
        self._before = position
        self._written(len(rows), position)
