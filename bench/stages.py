"""Where a crawl's CPU time goes, by stage: py-spy samples of all its processes, scaled to the CPU time that was accounted for.

A sample belongs to the stage of its innermost frame that is ours; what a library does for a stage counts there. py-spy sees Python
threads only: the rest of the time (RocksDB's and Arrow's own threads, py-spy's own disturbance) is a line of its own.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.measure import Cost, measure

_RATE = 250
_FRAME = re.compile(r"^(.*) \((.*?)(?::\d+)?\)$")

# Longest prefix decides. Modules are written as in imports.
STAGES = {
    "pycurl": "fetch",
    "aiodns": "fetch",
    "lycosa.fetch": "fetch",
    "lycosa.sender": "fetch",
    "lycosa.attempts": "attempt log",
    "lycosa.politeness": "politeness",
    "lycosa.pacing": "politeness",
    "lycosa.robots": "robots",
    "lycosa.politeness.robots": "robots",
    "lycosa.wire": "hop to the parse child",
    "lycosa.parse.parent": "hop to the parse child",
    "lycosa.parse.child": "hop to the parse child",
    "lycosa.parse": "parse: directives, headers and the rest",
    "lycosa.parse.html": "parse: tree, links, text",
    "lycosa.parse.fingerprint": "parse: SimHash",
    "lycosa.parse.language": "parse: language",
    "lycosa.parse.outlinks": "parse: canonical links",
    "lycosa.canonical": "parse: canonical links",
    "lycosa.url": "parse: canonical links",
    "lycosa.decode": "parse: content decoding",
    "lycosa.seen.simhash": "dedup",
    "lycosa.seen.content": "dedup",
    "lycosa.seen": "URL-seen",
    "lycosa.intake": "admit",
    "lycosa.admit": "admit",
    "lycosa.schedule": "admit",
    "lycosa.frontier": "frontier",
    "lycosa.kv": "frontier: records and RocksDB",
    "lycosa.store": "store: WARC records and rows",
    "lycosa.surt": "store: WARC records and rows",
    "lycosa.store.pending": "store: writing",
    "lycosa.store.journal": "store: row journal",
    "lycosa.store.parquet": "store: Parquet",
    "lycosa.store.pages": "store: Parquet",
    "lycosa.store.links": "store: Parquet",
    "lycosa.store.cdxj": "store: CDXJ",
    "lycosa.store.wet": "store: WET",
    "lycosa.store.closing": "store: derived files",
    "lycosa.commit": "commit log",
    "lycosa.durable": "commit log",
    "lycosa.pipeline": "pipeline and worker loop",
    "lycosa.worker": "pipeline and worker loop",
    "lycosa.assembly": "start and end",
    "lycosa.session": "start and end",
    "lycosa.sites": "start and end",
    "lycosa.recovery": "start and end",
    "lycosa.worker_process": "start and end",
    "lycosa.supervisor": "supervisor",
    "lycosa.cli": "supervisor",
    "lycosa.progress": "supervisor",
    "<imports>": "imports",
    "": "event loop and the rest",
}


def print_stages(command: Callable[[str, Path], list[str]], url: str, folder: Path) -> None:
    """Runs the crawl twice: alone, for its cost, and under py-spy, for the shares."""
    plain = measure(command(url, folder / "plain"), folder / "plain.log")
    shutil.rmtree(folder / "plain")
    stacks = folder / "stacks"
    spy = [str(Path(sys.executable).with_name("py-spy")), "record", "--subprocesses", "-r", str(_RATE), "-f", "raw", "-o", str(stacks)]
    measure([*spy, "--", *command(url, folder / "spied")], folder / "spy.log")
    samples, functions = read_stacks(stacks)
    print_table(plain, samples, functions)


def read_stacks(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Samples by stage, and by innermost frame of ours."""
    stages: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        module, function = _owner(stack.split(";"))
        stages[_stage(module)] += int(count)
        functions[f"{module}.{function}"] += int(count)
    return stages, functions


def print_table(cost: Cost, samples: Counter[str], functions: Counter[str]) -> None:
    """Seconds and shares of the samples, scaled to the whole cost."""
    total = sum(samples.values())
    sampled_s = total / _RATE
    print(f"\nlycosa alone: {cost.cpu_s:.2f} s CPU ({cost.user_s:.2f} user, {cost.system_s:.2f} system); {sampled_s:.2f} s in samples")
    print(f"{'stage':42} {'share':>6} {'s':>7}")
    for stage, count in samples.most_common():
        print(f"{stage:42} {count / total:6.1%} {cost.cpu_s * count / total:7.2f}")
    print(f"\n{'innermost function of ours':62} {'share':>6}")
    for function, count in functions.most_common(45):
        print(f"{function:62} {count / total:6.1%}")


def _owner(frames: list[str]) -> tuple[str, str]:
    """Module and function that a stack belongs to: its innermost frame that decides a stage."""
    for frame in reversed(frames):
        found = _FRAME.match(frame)
        if found is None:
            continue
        function, path = found.groups()
        if path.startswith("<frozen importlib"):
            return "<imports>", function
        if module := _module(path):
            return module, function
    return "", frames[-1]


def _module(path: str) -> str:
    for package in ("lycosa", "pycurl", "aiodns"):
        _, mark, rest = path.rpartition(f"{package}/")
        if mark and rest.endswith(".py"):
            return f"{package}.{rest.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"
    return ""


def _stage(module: str) -> str:
    while module not in STAGES:
        module = module.rpartition(".")[0]
    return STAGES[module]


if __name__ == "__main__":
    for number in sys.argv[1:]:
        print_table(Cost(0, 0, 0, 0, 0, 0), *read_stacks(Path(number)))
