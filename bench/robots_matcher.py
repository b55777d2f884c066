"""What a robots.txt costs: reading it, compiling its rules, and each judgement; on real files, and
on files made to be expensive.

    python -m bench.robots_matcher [--runs 5] [--against SRC]

``--against`` names the ``src`` folder of another checkout, which is measured in turns with this
one: a run of one, a run of the other. Each run is a process of its own; figures are CPU time, and
the medians of all runs, with the least and the most.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, permutations
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

HERE = Path(__file__).parents[1]
REAL = HERE.parent / "shared" / "data" / "robots" / "real-robots-txt.tgz"
_QUESTIONS = 20  # about each real file
_FILE_BYTES = 512_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--against", type=Path, help="src folder of another checkout")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(_measure()))
        return
    sources = {"this": HERE / "src", **({"other": asked.against} if asked.against else {})}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for _ in range(asked.runs):
        for name, source in sources.items():
            runs[name].append(_run(source))
    print(f"| figure | {' | '.join(sources)} |\n|---|{'---|' * len(sources)}")
    for figure in runs["this"][0]:
        cells = []
        for measured in runs.values():
            values = sorted(run[figure] for run in measured)
            cells.append(f"{median(values):,.2f} ({values[0]:,.2f} to {values[-1]:,.2f})")
        print(f"| {figure} | {' | '.join(cells)} |")


def _run(source: Path) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{HERE}"}
    command = [sys.executable, "-m", "bench.robots_matcher", "--measure"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def _measure() -> dict[str, float]:
    return {**(_real() if REAL.is_file() else {}), **_hostile()}


def _real() -> dict[str, float]:
    """Every file, asked about paths that its own rules suggest, and about its front page."""
    # Imported here: the parent has another checkout on its path.
    from lycosa.stages.politeness.robots_parser import parse_robots
    from lycosa.stages.politeness.robots_rules import Matcher

    with tarfile.open(REAL) as archive:
        bodies = [file.read() for member in archive if (file := archive.extractfile(member))]
    read_s, rules = _timed(lambda: [parse_robots(body, "lycosa") for body in bodies])
    compile_s, matchers = _timed(lambda: [Matcher(each) for each in rules])
    chance = Random(7)
    questions = [
        list(islice(_questions([rule[1] for rule in each.rules], chance), _QUESTIONS))
        for each in rules
    ]
    asked = sum(map(len, questions))

    def ask() -> float:
        slowest = 0.0
        for matcher, targets in zip(matchers, questions, strict=True):
            judge = matcher.judge_target
            began = time.thread_time()
            for target in targets:
                judge(target)
            slowest = max(slowest, (time.thread_time() - began) / len(targets))
        return slowest

    ask()
    judge_s, slowest = _timed(ask)
    return {
        "real files: reading one, us": read_s / len(bodies) * 1e6,
        "real files: compiling one, us": compile_s / len(bodies) * 1e6,
        "real files: a judgement, ns": judge_s / asked * 1e9,
        "real files: a judgement by the slowest file, us": slowest * 1e6,
    }


def _questions(patterns: list[str], chance: Random) -> Iterator[str]:
    while True:
        path = (
            chance.choice(patterns or ["/"])
            .replace("*", chance.choice(("", "x", "a/b", "?q=1&", "index.html")))
            .removesuffix("$")
        )
        yield chance.choice(
            (
                "/",
                path + "index.html",
                path,
                f"/{chance.getrandbits(40):x}/a.html?b=c",
                path[: len(path) // 2],
            )
        )


def _hostile() -> dict[str, float]:
    """Files of 512 kB, asked about paths of 70 octets and of 2 kB."""
    from lycosa.stages.politeness.robots_parser import parse_robots
    from lycosa.stages.politeness.robots_rules import Matcher

    figures = {}
    for name, lines, letters in _hostile_files():
        body = b"User-agent: *\n" + b"".join(f"Disallow: {line}\n".encode() for line in lines)
        rules = parse_robots(body[:_FILE_BYTES], "lycosa")
        compile_s, matcher = _timed(partial(Matcher, rules))
        figures[f"{name}: compiling, ms"] = compile_s * 1e3
        for size in (70, 2000):
            ask = partial(matcher.judge_target, "/" + (letters * size)[:size])
            figures[f"{name}: a judgement of {size} octets, ms"] = (
                min(_timed(ask)[0] for _ in range(3)) * 1e3
            )
    return figures


def _hostile_files() -> Iterator[tuple[str, Iterator[str], str]]:
    yield "numbered wildcards", (f"/*a*b{number:05}" for number in range(24_588)), "a/b0000"
    yield "nearly found", (f"/*{'a' * 8}{number:05}{'a' * 8}" for number in range(20_000)), "a"
    yield "permutations", (f"/*{'*'.join(each)}*z" for each in permutations("abcdefgh")), "hgfedcba"


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.thread_time()
    result = work()
    return time.thread_time() - began, result


if __name__ == "__main__":
    main()
