"""Messages of the HTTP process to operators: events of the crawl's log, as lines or JSON.

The log is that of the crawl: where it is and its form are inherited (``logs.log_writer``). While it
is a file or there is none, the lines are on standard error as well, as those of the crawl are.
Libraries report by Python's ``logging``, which ends here too, so that standard error keeps one
form.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping

from lycosa.base.logs.log_records import LogLevel, one_line
from lycosa.base.logs.log_writer import EventLog

_QUIET = "uvicorn"  # tells about requests that are none, which the client is told


class ProcessLog:
    """The log of this process."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def note(
        self, level: LogLevel, event: str, message: str, values: Mapping[str, str | int]
    ) -> None:
        """Log an event that is for the log only."""
        self._log.note(level, event, message, values=values)

    def tell(self, event: str, text: str, level: LogLevel = LogLevel.WARNING) -> None:
        """Tell of something that an operator should know; ``event`` as in docs/logs.md."""
        self._log.note(level, event, text)
        self._say(text)

    def tell_failure(self, text: str, error: BaseException | None = None) -> None:
        """Tell of a failure; ``error`` is given when it is one of the program."""
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        self._log.note(LogLevel.ERROR, "api_failed", text, values={"trace": trace} if trace else {})
        self._say(text)
        if trace and not self._log.is_on_stderr:
            for line in trace.splitlines():
                print(one_line(line), file=sys.stderr, flush=True)

    def take_libraries(self) -> None:
        """Take the warnings of libraries from now on."""
        logging.getLogger().addHandler(_FromLibraries(self))
        logging.getLogger(_QUIET).setLevel(logging.CRITICAL)

    def close(self) -> None:
        """Write what is queued."""
        self._log.close()

    def _say(self, text: str) -> None:
        if not self._log.is_on_stderr:
            print(f"lycosa api: {one_line(text)}", file=sys.stderr, flush=True)


class _FromLibraries(logging.Handler):
    def __init__(self, log: ProcessLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.name}: {record.getMessage()}"
        if record.levelno >= logging.ERROR:
            self._log.tell_failure(text, record.exc_info[1] if record.exc_info else None)
        else:
            self._log.tell("note", text)
