"""One log record for each attempt of a worker."""

from __future__ import annotations

import time

from lycosa.base.logs.log_records import FetchRecord, LogLevel, shown_time
from lycosa.base.logs.log_writer import EventLog
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of


class FetchLog:
    """Logs the attempts of a worker; ``note_attempt`` is an ``AttemptListener``."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def note_attempt(self, request: FetchRequest, fetched: Fetched, delay_s: float) -> None:
        """Log an attempt that has ended."""
        is_failed = fetched.reason is not Reason.NONE
        level = LogLevel.WARNING if is_failed else LogLevel.INFO
        if not self._log.writes(level):
            return
        self._log.fetch(
            FetchRecord(
                time=shown_time(time.time()),
                level=level.label,
                event="fetch",
                process=self._log.process,
                url=request.url,
                kind=request.kind.name.lower(),
                host=host_of(request.url),
                address=fetched.address,
                status=fetched.status,
                reason=fetched.reason.label if is_failed else "",
                detail=fetched.detail,
                protocol=fetched.protocol,
                tls=fetched.tls,
                bytes=fetched.body_bytes,
                duration_s=round(fetched.duration_s, 6),
                first_byte_s=round(fetched.first_byte_s, 6),
                sent_s=round(fetched.sent_s, 6),
                delay_s=round(delay_s, 3),
            )
        )
