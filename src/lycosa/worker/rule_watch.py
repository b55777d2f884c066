"""Breaks off rules that take too long: they run on the worker's loop, where all hosts wait.

A timer of the system sends the process a signal a few times in the time of one call. Python runs
the handler in the main thread, between two instructions of the rule or inside its regular
expression or its sleep, and if the call is too old, the handler raises ``TooSlow`` there. (A thread
could not watch: a regular expression does not let other threads run.) The handler raises only while
a rule is called, so nothing else can be hit. It cannot break off a call into C that never looks at
signals. Off the main thread, or where the program uses the timer itself, nothing is watched.

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
        self._is_watching = False

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
        is_main = threading.current_thread() is threading.main_thread()
        is_free = signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        if not is_main or not is_free or signal.getitimer(signal.ITIMER_REAL)[0]:
            return False
        signal.signal(signal.SIGALRM, self._handle)
        signal.siginterrupt(signal.SIGALRM, False)  # libraries need not know of it
        signal.setitimer(signal.ITIMER_REAL, self._longest_s / 2, self._longest_s / 2)
        self._is_watching = True
        return True

    def stop(self) -> None:
        """Stop watching. Further calls do nothing."""
        if self._is_watching:
            self._is_watching = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            # This drops a signal that waits to be delivered; by default it would kill the process.
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _is_late(self) -> bool:
        began = self._began
        return bool(began) and time.monotonic() - began > self._longest_s

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_late():
            self._began = time.monotonic()  # for a rule that catches everything and continues
            self.overruns += 1
            raise TooSlow(f"a call of a rule may take {self._longest_s:g} s")
