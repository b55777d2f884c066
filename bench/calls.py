"""How many Python functions a page calls, in the worker and in its parse child.

``call_counter/sitecustomize.py`` counts all calls of a process. Two crawls of different length tell
the calls of a page from those of start and end. What a process calls by time (reports, watches)
depends on how busy the machine is; a third crawl, which does the work of the second one slowly,
tells how many a second these are.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

COUNTER = Path(__file__).with_name("call_counter")
# Which process a command is: the end of the name of its module.
_PARTS = {
    "worker_process": "worker",
    "parser_process": "child",
    "child": "child",  # of checkouts before the parse process had this name
    "frontier": "frontier",
}


@dataclass(frozen=True)
class Calls:
    """Calls of each function by part of the crawl, and the seconds that it took."""

    by_part: dict[str, Counter[str]]
    seconds: float


def part_of(command: str) -> str | None:
    """The part that a process with this command line is; None for what is not measured."""
    words = command.split()
    if "-m" not in words[:-1] or "--make" in words:
        return None
    module = words[words.index("-m") + 1]
    return _PARTS.get(module.rpartition(".")[2])


def function_name(line: str) -> str:
    """A function as the same function of another checkout or environment is called."""
    path, _, name = line.rpartition(":")
    for mark in ("/site-packages/", "/src/", "/lib/", "/bench/"):
        if mark in path:
            path = path.rpartition(mark)[2]
            break
    return f"{path}:{name}"


def read_counts(folder: Path) -> dict[str, Counter[str]]:
    """What the counters of all processes wrote, their threads together."""
    found: dict[str, Counter[str]] = {}
    for path in folder.glob("*.functions"):
        command, *functions = path.read_text(errors="replace").splitlines()
        part = part_of(command)
        if part is None:
            continue
        numbers = array("Q", path.with_suffix(".counts").read_bytes())
        counts = found.setdefault(part, Counter())
        for function, number in zip(functions, numbers, strict=False):
            counts[function_name(function)] += number
    return found


def calls_a_unit(
    small: Calls, large: Calls, units: int, slow: Calls | None = None
) -> dict[str, dict[str, float]]:
    """Calls of each function that one more page (or link) causes, by part.

    ``large`` has ``units`` more of them than ``small``; ``slow`` does the same as ``large`` in more
    time, and its additional calls a second are subtracted.
    """
    found: dict[str, dict[str, float]] = {}
    for part, calls in large.by_part.items():
        before = small.by_part.get(part, Counter[str]())
        rates = _calls_a_second(part, large, slow)
        names = {*calls, *before, *rates}
        by_time = large.seconds - small.seconds
        found[part] = {
            name: (calls[name] - before[name] - rates.get(name, 0.0) * by_time) / units
            for name in names
        }
    return found


def _calls_a_second(part: str, large: Calls, slow: Calls | None) -> dict[str, float]:
    if slow is None:
        return {}
    more_s = slow.seconds - large.seconds
    if more_s < large.seconds / 4:
        raise ValueError(
            f"the slow crawl took {slow.seconds:.1f} s and the other one {large.seconds:.1f} s:"
            " too little more to count calls by time"
        )
    calls, slowly = large.by_part[part], slow.by_part.get(part, Counter[str]())
    return {name: (slowly[name] - calls[name]) / more_s for name in {*calls, *slowly}}


def fewer(
    first: dict[str, dict[str, float]], second: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]]:
    """Of two counts of the same, the smaller one of each part: a busy machine only adds calls."""
    return {
        part: min(first[part], second.get(part, first[part]), key=lambda each: sum(each.values()))
        for part in first
    }


def largest_differences(
    base: dict[str, float], head: dict[str, float], most: int
) -> list[tuple[str, float, float]]:
    """Functions whose calls differ most: name, calls at the base, calls at the head.

    Their modules are left out, so that a function that moved is not two.
    """
    before, after = _without_modules(base), _without_modules(head)
    names = sorted({*before, *after}, key=lambda name: -abs(after[name] - before[name]))
    return [(name, before[name], after[name]) for name in names[:most]]


def _without_modules(calls: dict[str, float]) -> defaultdict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for name, number in calls.items():
        found[name.rpartition(":")[2]] += number
    return found
