"""What the signals to ``lycosa serve`` do."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable


def handle_signals(stop: Callable[[], None], reload: Callable[[], None]) -> None:
    """SIGINT and SIGTERM call ``stop``; SIGHUP calls ``reload``, as service managers expect.

    In a terminal SIGHUP says that the terminal is gone, and calls ``stop``. A signal that was
    ignored at the start stays so (``nohup``), apart from SIGINT.
    """
    loop = asyncio.get_running_loop()
    in_terminal = any(os.isatty(number) for number in range(3))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN or number is signal.SIGINT:
            is_reload = number is signal.SIGHUP and not in_terminal
            loop.add_signal_handler(number, reload if is_reload else stop)
