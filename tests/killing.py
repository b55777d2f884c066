"""The sudden end of a service that a test started."""

from __future__ import annotations

import os
import select
import signal


def kill_server(pid: int, longest_s: float = 20.0) -> None:
    """``kill -9`` of a process; it is gone when this returns."""
    ended = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(ended, signal.SIGKILL)
        waiting = select.poll()  # select() takes no descriptor above 1023
        waiting.register(ended, select.POLLIN)
        assert waiting.poll(longest_s * 1000), f"process {pid} is still there"
    finally:
        os.close(ended)
