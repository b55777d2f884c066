"""Makes the helper modules of this folder importable from every kind of test, and lets the programs that tests start hear signals."""

from __future__ import annotations

import signal

# A job in the background (``nohup``, ``&`` of a script) ignores these, and so would every program that it starts. A handler that does
# nothing keeps it so for the tests themselves; a new program has the default.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
