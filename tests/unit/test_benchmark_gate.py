"""The benchmark that compares two checkouts: its arithmetic, its parsing, its counter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # benchmarks are not installed

from bench.calls import (
    COUNTER,
    Calls,
    calls_a_unit,
    fewer,
    function_name,
    largest_differences,
    part_of,
    read_counts,
)
from bench.gate import (
    Pairs,
    calls_table,
    exceeded,
    frontier_cost,
    in_turn,
    pairs_table,
    sums,
)


def _calls(seconds: float, **functions: int) -> Calls:
    return Calls({"worker": Counter(functions)}, seconds)


def test_calls_of_start_and_end_are_not_those_of_a_page() -> None:
    small, large = _calls(1, fetch=110, start=70), _calls(2, fetch=510, start=70)
    assert calls_a_unit(small, large, 100) == {"worker": {"fetch": 4.0, "start": 0.0}}


def test_calls_by_time_are_not_those_of_a_page() -> None:
    # four calls a page, and ten a second
    small, large = _calls(3, fetch=430), _calls(9, fetch=890)
    slow = _calls(30, fetch=890 + 210)
    assert calls_a_unit(small, large, 100, slow) == {"worker": {"fetch": 4.0}}


def test_a_slow_crawl_that_was_not_slow_tells_nothing() -> None:
    with pytest.raises(ValueError, match="too little more"):
        calls_a_unit(_calls(1, f=1), _calls(8, f=9), 8, _calls(9, f=9))


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("/a/.venv/bin/python3 -m lycosa.processes.worker_process 11", "worker"),
        ("/a/.venv/bin/python3 -m lycosa.worker_process 11", "worker"),
        ("python -P -m lycosa.stages.parse.parser_process 9 4711", "child"),
        ("python -O -m bench.frontier --links 5", "frontier"),
        ("python -m bench.frontier --make 1,2,3", None),
        ("/a/.venv/bin/python3 /a/.venv/bin/lycosa crawl http://x/", None),
        ("python -m", None),
    ],
)
def test_a_command_line_tells_the_part(command: str, part: str | None) -> None:
    assert part_of(command) == part


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("/x/lycosa/src/lycosa/clock.py:Clock.now", "lycosa/clock.py:Clock.now"),
        ("/x/.venv/lib/python3.11/site-packages/uvloop/run.py:run", "uvloop/run.py:run"),
        ("/usr/lib/python3.11/enum.py:Enum.__new__", "python3.11/enum.py:Enum.__new__"),
        ("<frozen abc>:ABCMeta.__new__", "<frozen abc>:ABCMeta.__new__"),
    ],
)
def test_a_function_has_one_name_in_every_checkout(line: str, name: str) -> None:
    assert function_name(line) == name


def test_the_smaller_of_two_counts_decides_for_each_part() -> None:
    first = {"child": {"a": 5.0}, "worker": {"b": 3.0, "c": 3.0}}
    again = {"child": {"a": 5.5}, "worker": {"b": 5.0}}
    assert fewer(first, again) == {"child": {"a": 5.0}, "worker": {"b": 5.0}}


def test_functions_that_differ_most_come_first() -> None:
    differ = largest_differences({"a": 1, "b": 5, "gone": 3}, {"a": 1.5, "b": 1, "new": 2}, 3)
    assert differ == [("b", 5, 1), ("gone", 3, 0.0), ("new", 0.0, 2)]


def test_a_function_that_moved_is_not_two() -> None:
    base, head = {"lycosa/url.py:host_of": 14.0}, {"lycosa/base/urls/url_parts.py:host_of": 15.0}
    assert largest_differences(base, head, 3) == [("host_of", 14.0, 15.0)]


def test_the_counter_counts_every_call_in_every_thread(tmp_path: Path) -> None:
    module = tmp_path / "src" / "frontier.py"
    module.parent.mkdir()
    module.write_text(
        "import os, signal, threading\n"
        "def many():\n"
        "    yield from range(20)\n"
        "def once(): list(many())\n"
        "def work():\n"
        "    for _ in range(30): once()\n"
        "threads = [threading.Thread(target=work) for _ in range(2)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    counts = tmp_path / "counts"
    counts.mkdir()
    paths = os.pathsep.join([str(COUNTER), str(module.parent)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHON_CALL_COUNTS": str(counts)}
    subprocess.run([sys.executable, "-m", "frontier"], env=environment, check=False)
    found = read_counts(counts)
    assert set(found) == {"frontier"}
    calls = found["frontier"]
    assert {name: calls[f"frontier.py:{name}"] for name in ("work", "once", "many")} == {
        "work": 2,
        "once": 60,
        "many": 60 * 21,  # each value, and the end
    }


def test_base_and_head_take_turns() -> None:
    assert [who for pair in in_turn(1) for who in pair] == ["base", "head", "head", "base"]


def test_the_table_has_ratios_of_pairs_and_of_minima() -> None:
    pairs = Pairs("s", base=[2.0, 4.0, 2.0], head=[2.2, 4.0, 3.0])
    assert pairs.ratios == [1.1, 1.0, 1.5]
    _, base, head = pairs_table({"docs": pairs}).splitlines()
    assert base.split() == ["docs", "base", "s", "2.000", "2.000", "4.000"]
    assert head.split()[3:] == [
        "3.000",
        "2.200",
        "4.000",
        "1.100",
        "1.100",
        "1.100",
        "1.000",
        "1.500",
    ]


def test_more_calls_than_the_bound_fail() -> None:
    base = {"child": {"a": 100.0}, "worker": {"b": 100.0}}
    head = {"child": {"a": 101.9}, "worker": {"b": 60.0, "c": 42.1}}
    assert sums(head) == pytest.approx({"child": 101.9, "worker": 102.1, "both": 204.0})
    assert exceeded("a page", base, head) == [
        "a page, worker: 1.021 times the calls of the base, more than 1.02"
    ]
    assert exceeded("a page", base, base) == []
    assert "-40.00  b" in calls_table(base, head)


def test_a_part_that_the_base_does_not_have_fails() -> None:
    assert exceeded("a page", {"worker": {"a": 1.0}}, {"child": {"a": 1.0}})


def test_the_cost_of_a_link_is_read_from_the_output() -> None:
    output = "made 5 URLs\n186,000 links a second of CPU (5.38 us a link), 90,000 on the clock;\n"
    assert frontier_cost(output) == 5.38
    with pytest.raises(SystemExit, match="no cost"):
        frontier_cost("Traceback")
