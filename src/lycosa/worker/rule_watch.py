"""Breaks off rules that take too long: they run on the worker's loop, where all hosts wait.

A thread looks once in a while whether a call has exceeded its time, and then sends the main thread
a signal. Python runs the handler in the main thread, between two instructions of the rule or inside
its regular expression or its sleep, and there it raises ``TooSlow``. The handler raises only while
a rule is called, so nothing else can be hit. It cannot break off a call into C that never looks at
signals. Off the main thread, or where the program uses the signal itself, nothing is watched.

After some overruns the rule is not called any more in this run; all that it would judge is refused.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

from lycosa.base.model.code_failure import TooSlow

MOST_OVERRUNS = 20
"""Overruns of all rules in a run of a worker, after which they are not called."""


class RuleWatch:
    """Watches the calls of rules from ``start`` to ``stop``; ``longest_s`` for one call."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._began = 0.0  # when the call that runs began (monotonic); 0 while none does
        self.overruns = 0
        self._ended = threading.Event()
        self._main = threading.main_thread().ident or 0
        self._thread: threading.Thread | None = None

    @property
    def is_suspended(self) -> bool:
        """Whether rules took too long too often."""
        return self.overruns >= MOST_OVERRUNS

    def begin_call(self) -> None:
        """A rule is called now. ``end_call`` must follow, also after ``TooSlow``."""
        self._began = time.monotonic()

    def end_call(self) -> None:
        """No rule is called any more."""
        self._began = 0.0

    def start(self) -> bool:
        """Begin to watch; returns whether that is possible here."""
        is_main = threading.get_ident() == self._main
        if not is_main or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
            return False
        signal.signal(signal.SIGALRM, self._handle)
        self._thread = threading.Thread(target=self._watch, name="rules", daemon=True)
        self._thread.start()
        return True

    def stop(self) -> None:
        """Stop watching. Further calls do nothing."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._thread = None
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _watch(self) -> None:
        while not self._ended.wait(self._longest_s / 4):
            if self._is_late():
                signal.pthread_kill(self._main, signal.SIGALRM)

    def _is_late(self) -> bool:
        began = self._began
        return bool(began) and time.monotonic() - began > self._longest_s

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # The call may have ended between the look and the signal.
        if self._is_late():
            self._began = time.monotonic()  # for a rule that catches everything and goes on
            self.overruns += 1
            raise TooSlow(f"a call of a rule may take {self._longest_s:g} s")
