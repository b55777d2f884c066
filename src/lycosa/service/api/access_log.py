"""Who used the interface and how: log-ins, refused requests and decisions, as events of the log.

Every event has the client's address, and the name of its token where one is known; no secret is in
it. Messages of refusals are constant, so the log's limit of bursts bounds them: a client that is
refused a million times costs some lines a minute and a count (docs/logs.md).
"""

from __future__ import annotations

from contextvars import ContextVar

from lycosa.base.logs.log_records import LogLevel
from lycosa.service.api.process_log import ProcessLog

_MAX_PATH = 200
_REFUSALS = {
    401: "a request without a valid token was refused",
    403: "a request that its client may not make was refused",
    421: "a request for another host was refused",
    429: "a client made too many requests",
}
_address: ContextVar[str] = ContextVar("address", default="")


class AccessLog:
    """One per process."""

    def __init__(self, log: ProcessLog) -> None:
        self._log = log

    def begin_request(self, address: str) -> None:
        """All that follows in this task is done for the client at the address."""
        _address.set(address)

    def note_login(self, name: str) -> None:
        """A session of the page has begun."""
        self._note(LogLevel.INFO, "api_login", f"{name} logged in", by=name)

    def note_logout(self, name: str) -> None:
        """A session was ended by its client."""
        self._note(LogLevel.INFO, "api_logout", f"{name} logged out", by=name)

    def note_failed_login(self) -> None:
        """The form was given something that is no token."""
        self._note(LogLevel.WARNING, "api_login_failed", "a log-in without a valid token")

    def note_refusal(self, status: int, method: str, path: str, name: str) -> None:
        """A request was refused because of who made it; other refusals are not logged."""
        if message := _REFUSALS.get(status):
            request = f"{method[:20]} {path[:_MAX_PATH]}"
            self._note(
                LogLevel.WARNING, "api_refused", message, status=status, request=request, by=name
            )

    def note_decision(self, what: str, by: str, why: str) -> None:
        """An operator decided something that is in force now."""
        self._note(LogLevel.INFO, "api_decision", what, by=by, why=why)

    def _note(self, level: LogLevel, event: str, message: str, **values: str | int) -> None:
        known = {name: value for name, value in values.items() if value}
        self._log.note(level, event, message, {"client": _address.get(), **known})
