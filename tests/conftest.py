"""Makes the helper modules of this folder importable from every kind of test, lets the programs that
tests start hear signals, and chooses the tests of ``script/test --quick``.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from kafka_broker import Broker

# Hypothesis allows an example 200 ms of wall time, and finds generating slow after seconds of it:
# a busy machine may take more. Its examples are the same in every run of the same tests, so that a
# change does not fail by what was there before it. ``script/test -m long`` looks for new ones, and
# so does ``script/test --hypothesis-profile=explore FILE``.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tests", _PATIENT, derandomize=True)
settings.register_profile("explore", _PATIENT, derandomize=False)
settings.load_profile("tests")

# Tests that run at the same time use the same loopback addresses: their crawls must not share a
# table of addresses.
_RUNTIME = tempfile.mkdtemp(prefix="lycosa-tests-")
os.environ["LYCOSA_RUNTIME_DIR"] = _RUNTIME
# Most pages of the sites that commands crawl here are copies of each other, so a crawl without
# delays would wait for its hosts to rest. Tests of that set it themselves.
os.environ["LYCOSA_COPIES__PROBE_TURNS"] = "1"
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


def pytest_configure(config: pytest.Config) -> None:
    """Long runs try other examples each time; before tests are imported, which take the profile."""
    # Python 3.14 counts fewer references, so Hypothesis takes numpy.random for garbage.
    wrong = "ignore:It looks like `register_random`:hypothesis.errors.HypothesisWarning"
    config.addinivalue_line("filterwarnings", wrong)
    if config.getoption("markexpr") == "long":
        settings.load_profile("explore")


def pytest_collection() -> None:
    """Look for no garbage among the tests while they are collected: a fifth of that time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the tests themselves, a third of a million objects, out of every later collection."""
    gc.enable()
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


@pytest.fixture(scope="session")
def kafka() -> Iterator[Broker]:
    """A Kafka broker that nothing kills: on a busy machine it may be silent for seconds."""
    from kafka_broker import started  # few tests need its libraries, which take long to import

    with started(session_s=60.0) as broker:
        yield broker


# -- script/test --quick

# The functions of tests that took this processor time (all parameters together) when they were
# measured. A name that is outdated does no harm: its test runs again.
_SLOW_S = 0.2
_SLOW_TESTS = Path(__file__).with_name("slow_tests.txt")
_NEEDS_MORE = ("service", "browser", "long")  # another program, or minutes
_measured: Counter[str] = Counter()

# A whole run must stay below ten minutes on two cores: 1,200 s of processor time. A test of more than
# this is named at the end of a run. It needs a short form; its whole form is marked long.
_COSTLY_S = 8.0
_used_before = [0.0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out slow tests and services")
    parser.addoption("--measure-slow", action="store_true", help=f"write {_SLOW_TESTS.name}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to the full run what takes long or needs another program."""
    if not (config.getoption("quick") or config.getoption("measure_slow")):
        return
    slow = set(_SLOW_TESTS.read_text().split()) if config.getoption("quick") else set()
    left_out = [
        item
        for item in items
        if _function(item.nodeid) in slow or any(map(item.get_closest_marker, _NEEDS_MORE))
    ]
    config.hook.pytest_deselected(items=left_out)
    kept = set(items).difference(left_out)
    items[:] = [item for item in items if item in kept]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Do not count for the test what was used between it and the one before."""
    _used_before[0] = _used_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in each report the processor time of its phase, of programs that ended in it too."""
    report = yield
    now = _used_s()
    report.processor_s = now - _used_before[0]  # xdist sends it with the report
    _used_before[0] = now
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _measured[report.nodeid] += getattr(report, "processor_s", 0.0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name the tests that cost most, or write the list of slow ones."""
    if config.getoption("measure_slow"):
        functions: Counter[str] = Counter()
        for test, seconds in _measured.items():
            functions[_function(test)] += seconds
        slow = sorted(name for name, seconds in functions.items() if seconds >= _SLOW_S)
        _SLOW_TESTS.write_text("\n".join(slow) + "\n")
    if config.getoption("markexpr") == "long":
        return
    for line in _costs(_measured):
        terminalreporter.write_line(line)


def _costs(measured: Counter[str]) -> list[str]:
    """What the tests used in all, and those of more than ``_COSTLY_S`` that are not marked long."""
    costly = [(test, seconds) for test, seconds in measured.most_common() if seconds > _COSTLY_S]
    lines = [f"COSTLY {seconds:.1f} s of processor time: {test}" for test, seconds in costly]
    return [*lines, f"{sum(measured.values()):.0f} s of processor time in {len(measured)} tests"]


def _used_s() -> float:
    """Processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _function(test: str) -> str:
    """The test's name, without its parameters."""
    return test.partition("[")[0]
