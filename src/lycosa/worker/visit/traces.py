"""OpenTelemetry spans of a worker's fetches: an optional extra, off unless the operator asks.

A share of the hosts is traced, chosen by a hash of the host's name, so a host is traced completely
or not at all and all workers and runs choose alike. A span is made when an attempt has ended, from
the times that the attempt measured anyway. The library's thread sends the spans; its queue is
bounded, so a collector that is away costs spans and nothing else. What the library complains about
goes to the log.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Mapping
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode

from lycosa.base.logs.log_records import LogLevel, without_secrets
from lycosa.base.logs.log_writer import EventLog
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of

_NS = 1_000_000_000
_END_S = 3.0  # for sending what is left, at the end of a process


class FetchTraces:
    """The spans of one process; ``note_attempt`` is an ``AttemptListener``."""

    def __init__(self, share: float, log: EventLog) -> None:
        self._share = share
        library = logging.getLogger("opentelemetry")
        library.addHandler(_ToLog(log))
        library.propagate = False  # else it writes to the terminal
        defaults = {"service.name": "lycosa", "service.instance.id": f"{log.process} {os.getpid()}"}
        if os.environ.get("OTEL_SERVICE_NAME"):
            del defaults["service.name"]
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource.create(defaults))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("lycosa.fetch")

    def note_attempt(self, request: FetchRequest, fetched: Fetched, delay_s: float) -> None:
        """Make a span of an attempt, if its host is traced."""
        host = host_of(request.url)
        if not is_traced(host, self._share):
            return
        began = int(fetched.started * _NS)
        span = self._tracer.start_span(
            "fetch",
            kind=SpanKind.CLIENT,
            start_time=began,
            attributes=_attributes(request, fetched, host, delay_s),
        )
        for name, seconds in (("sent", fetched.sent_s), ("first byte", fetched.first_byte_s)):
            if seconds:
                span.add_event(name, timestamp=began + int(seconds * _NS))
        if fetched.reason is not Reason.NONE:
            span.set_status(Status(StatusCode.ERROR, fetched.reason.meaning))
        span.end(end_time=began + int(fetched.duration_s * _NS))

    def close(self) -> None:
        """Send what is left, for a few seconds at most. Blocks."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(_END_S)


def is_traced(host: str, share: float) -> bool:
    """Whether the fetches of a host are traced, when that share of the hosts is."""
    digest = hashlib.blake2b(host.encode(), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


def _attributes(
    request: FetchRequest, fetched: Fetched, host: str, delay_s: float
) -> Mapping[str, str | int | float]:
    """The attributes, named by OpenTelemetry's conventions for HTTP clients."""
    parts = urlsplit(request.url)
    found: dict[str, str | int | float] = {
        "http.request.method": "GET",
        "url.full": without_secrets(request.url),
        "server.address": parts.hostname or host,
        "network.peer.address": fetched.address,
        "http.response.body.size": fetched.body_bytes,
        "lycosa.kind": request.kind.name.lower(),
        "lycosa.delay_s": round(delay_s, 3),
    }
    if parts.port:
        found["server.port"] = parts.port
    if fetched.status:
        found["http.response.status_code"] = fetched.status
    if fetched.protocol:
        version = fetched.protocol.removeprefix("http/").removeprefix("h")
        found["network.protocol.version"] = version
    if fetched.reason is not Reason.NONE:
        found["error.type"] = fetched.reason.label
    elif fetched.status >= 400:
        found["error.type"] = str(fetched.status)
    return found


class _ToLog(logging.Handler):
    """Gives complaints of the library to the log, where bursts are limited."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.note(LogLevel.WARNING, "traces", record.getMessage())
