"""The log of one process: records are taken at once and written by a thread.

The event loop only puts a record into a queue. A thread encodes and writes what has gathered, about
five times a second, so a slow disk or a full pipe never delays a fetch. The queue is bounded: when
nothing can be written for long, records are dropped and counted, and the count is written when the
log works again. ``kill -9`` loses the records of the last fraction of a second.

Where the log is, its form and its level are in the environment (``VARIABLE``), which every process
of a crawl inherits: supervisor, workers, parse children, nodes, coordinators.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from lycosa.base.logs.bursts import BurstKey, BurstLimiter
from lycosa.base.logs.log_file import STDERR, LogFile
from lycosa.base.logs.log_records import (
    EventRecord,
    FetchRecord,
    LogLevel,
    LogRecord,
    encode_json,
    encode_text,
    shown_time,
)

VARIABLE = "LYCOSA_LOG"
"""The environment variable with the ``LogTarget`` as JSON."""
TRACES_VARIABLE = "LYCOSA_TRACES"
"""The environment variable with the share of the hosts whose fetches are traced."""
_GATHER_S = 0.2
_MAX_QUEUED = 50_000
_SUMMARY_S = 5.0  # the longest wait until a burst that is over is reported


class LogTarget(msgspec.Struct, frozen=True):
    """Where the log is written and how.

    ``path`` is a file, or ``-`` for standard error. ``form`` is ``text`` or ``json``. A file of
    ``most_bytes`` is renamed, and ``most_files`` are kept, the current one included.
    """

    path: str
    form: str = "text"
    level: int = LogLevel.INFO
    most_bytes: int = 100_000_000
    most_files: int = 5


def log_target(environment: Mapping[str, str]) -> LogTarget | None:
    """The log of this process; ``None`` without one, or when the variable is damaged."""
    try:
        return msgspec.json.decode(environment.get(VARIABLE, ""), type=LogTarget)
    except (msgspec.MsgspecError, ValueError):
        # Set by our own processes only. A process without a log still works.
        return None


class EventLog:
    """The log of one process, which is named ``process`` in the records.

    Without a target nothing is logged. ``close`` writes what is queued. ``monotonic`` is the time
    of bursts.
    """

    def __init__(
        self,
        target: LogTarget | None,
        process: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._process, self._monotonic = target, process, monotonic
        self._queue: queue.SimpleQueue[tuple[LogRecord, BurstKey | None] | None]
        self._queue = queue.SimpleQueue()
        self._limiter = BurstLimiter()
        self._stop = threading.Event()
        self.dropped = 0
        """Records that were dropped because the queue was full."""
        self._thread: threading.Thread | None = None
        if target is not None:
            self._file = LogFile(target.path, target.most_bytes, target.most_files)
            self._encode: Callable[[LogRecord], str] = (
                encode_json if target.form == "json" else encode_text
            )
            self._thread = threading.Thread(target=self._run, name="log", daemon=True)
            self._thread.start()

    def __repr__(self) -> str:
        return f"<EventLog {self._target} queued={self._queue.qsize()} dropped={self.dropped}>"

    @property
    def process(self) -> str:
        """The name of the process in the records."""
        return self._process

    @property
    def is_on_stderr(self) -> bool:
        """Whether the records go to standard error, which then has nothing else."""
        return self._target is not None and self._target.path == STDERR

    @property
    def suppressed(self) -> int:
        """Records that were counted instead of written: in bursts, or as the log took none."""
        lost = self._file.lost if self._target is not None else 0
        return self._limiter.suppressed + self.dropped + lost

    def writes(self, level: LogLevel) -> bool:
        """Whether records of this level are written at all."""
        return self._target is not None and level >= self._target.level

    def note(
        self,
        level: LogLevel,
        event: str,
        message: str = "",
        host: str = "",
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """Log an event. Equal ones about one host are limited."""
        if self.writes(level):
            record = EventRecord(
                time=shown_time(time.time()),
                level=level.label,
                event=event,
                process=self._process,
                message=message,
                host=host,
                values=dict(values or {}),
            )
            self._put(record, (event, host, message))

    def fetch(self, record: FetchRecord) -> None:
        """Log an attempt. Failures of one host for one reason are limited."""
        is_failure = bool(record.reason)
        key = (record.event, record.host, record.reason) if is_failure else None
        self._put(record, key)

    def close(self) -> None:
        """Write what is queued, and end. Blocks for some seconds at most."""
        if self._thread is not None:
            self._stop.set()
            self._queue.put(None)
            self._thread.join(timeout=5.0)
            self._thread = None

    # -- on the thread

    def _put(self, record: LogRecord, key: BurstKey | None) -> None:
        if self._queue.qsize() >= _MAX_QUEUED:
            self.dropped += 1
        else:
            self._queue.put((record, key))

    def _run(self) -> None:
        told_lost = 0
        while True:
            timeout = _SUMMARY_S if self._limiter.has_pending else None
            batch = self._gather(timeout)
            now = self._monotonic()
            is_end = self._stop.is_set() and self._queue.empty()
            # first the windows that are over, so that their records do not hold back new ones
            lines = self._summaries(now)
            lines += [
                self._encode(record)
                for record, key in batch
                if key is None or self._limiter.may_write(key, now)
            ]
            if is_end:
                lines += self._summaries(now, everything=True)
            is_written = not lines or self._file.append(lines)
            lost = self.dropped + self._file.lost
            if is_written and lost > told_lost:
                told_lost = self._tell_lost(lost, told_lost)
            if is_end:
                self._file.close()
                return

    def _gather(self, timeout: float | None) -> list[tuple[LogRecord, BurstKey | None]]:
        """Wait for a record, then for those that follow it closely."""
        try:
            first = self._queue.get(timeout=timeout)
        except queue.Empty:
            return []
        self._stop.wait(_GATHER_S)
        batch = [first] if first is not None else []
        while True:
            try:
                record = self._queue.get_nowait()
            except queue.Empty:
                return batch
            if record is not None:
                batch.append(record)

    def _summaries(self, now: float, everything: bool = False) -> list[str]:
        return [
            self._encode(
                EventRecord(
                    time=shown_time(time.time()),
                    level=LogLevel.WARNING.label,
                    event="suppressed",
                    process=self._process,
                    message=f"more of the same: {key[0]} {key[2]}".rstrip(),
                    host=key[1],
                    count=count,
                )
            )
            for key, count in self._limiter.close_windows(now, everything)
        ]

    def _tell_lost(self, lost: int, told: int) -> int:
        """Write how many records were lost; returns how many of them the log now tells."""
        line = self._encode(
            EventRecord(
                time=shown_time(time.time()),
                level=LogLevel.WARNING.label,
                event="suppressed",
                process=self._process,
                message="records were dropped because the log could not be written",
                count=lost - told,
            )
        )
        return lost if self._file.append([line], is_counted=False) else told


def traced_share(environment: Mapping[str, str]) -> float:
    """The share of the hosts whose fetches are traced; 0 without the variable."""
    try:
        return float(environment.get(TRACES_VARIABLE, "") or 0.0)
    except ValueError:
        return 0.0


def opened_log(process: str) -> EventLog:
    """The log of this process by its environment."""
    return EventLog(log_target(os.environ), process)
