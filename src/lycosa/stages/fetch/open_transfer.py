"""Waits for one transfer in progress, and ends it in time, whatever a server or libcurl does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from lycosa.base.reasons import Reason
from lycosa.stages.fetch.transfer import Transfer


class OpenTransfer:
    """One transfer in progress.

    It ends with libcurl's result, at a time limit or by cancellation, whichever comes first.
    """

    def __init__(self, transfer: Transfer, multi: Any, now: Callable[[], float]) -> None:
        self._transfer, self._multi, self._now = transfer, multi, now
        self._loop = asyncio.get_running_loop()
        self._result: asyncio.Future[tuple[int, str]] = self._loop.create_future()
        self.is_whole = False  # libcurl has finished with the handle, so it can be used again
        self._future = multi.add_handle(transfer.curl)
        self._future.add_done_callback(self._on_done)
        limits = transfer.limits
        window = limits.min_speed_window_s if limits.min_bytes_per_s else limits.total_s
        self._timer = self._loop.call_later(
            min(limits.first_byte_s, limits.total_s, window), self._tick
        )

    async def done(self) -> tuple[int, str]:
        """libcurl's result code (0 = success, -1 = stopped by us) and its message."""
        try:
            return await self._result
        finally:
            self._timer.cancel()
            self._remove()

    def stop(self, reason: Reason, detail: str) -> None:
        """End the transfer now and close its connection."""
        self._transfer.end_with(reason, detail)
        if not self._result.done():
            self._result.set_result((-1, detail))
        self._remove()

    def _remove(self) -> None:
        if not self._future.done():
            self._multi.remove_handle(self._transfer.curl)

    def _tick(self) -> None:
        reason, next_s = self._transfer.overdue(self._now())
        if reason is Reason.NONE:
            self._timer = self._loop.call_later(next_s, self._tick)
        else:
            self.stop(reason, reason.meaning)

    def _on_done(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            outcome = (-1, "the transfer was removed")
        else:
            error = future.exception()
            self.is_whole = True
            outcome = (0, "") if error is None else _code_and_message(error)
        if not self._result.done():
            self._result.set_result(outcome)


def _code_and_message(error: BaseException) -> tuple[int, str]:
    code, *message = error.args
    text = str(message[0]) if message else ""
    # it may quote bytes of the server, as surrogates that cannot be written to a file
    text = text.encode("utf-8", "replace").decode("utf-8")
    return (code, text) if isinstance(code, int) else (-1, str(error))
