"""Makes the helper modules of this folder importable from every kind of test, and lets the
programs that tests start hear signals.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path

# Tests that run at the same time use the same loopback addresses: their crawls must not share a
# table of addresses.
_RUNTIME = tempfile.mkdtemp(prefix="lycosa-tests-")
os.environ["LYCOSA_RUNTIME_DIR"] = _RUNTIME
atexit.register(shutil.rmtree, _RUNTIME, ignore_errors=True)

# A job in the background (``nohup``, ``&`` of a script) ignores these, and so would every program
# that it starts. A handler that does nothing keeps it so for the tests themselves; a new program
# has the default.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

# A test that lets a worker of this process crash leaves all that it had open to the garbage
# collector, which seldom looks at everything in a process as large as this one.
_DESCRIPTORS = Path("/proc/self/fd")
_MANY = 200
_after_last = [0]  # how many were open after the last collection


def pytest_collection_finish() -> None:
    """Keep the tests themselves, a third of a million objects, out of every later collection."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    """Collect garbage when many descriptors were opened since the last time."""
    if _number_open() > _after_last[0] + _MANY:
        gc.collect()
        # Some stay open, such as those of Kafka's clients. If they counted again, every further
        # test would be followed by a collection, which takes a quarter of a second.
        _after_last[0] = _number_open()


def pytest_sessionfinish() -> None:
    """Let the interpreter free everything at its exit."""
    gc.unfreeze()


def _number_open() -> int:
    return sum(1 for _ in _DESCRIPTORS.iterdir()) if _DESCRIPTORS.is_dir() else 0
