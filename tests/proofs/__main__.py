"""``python -m proofs NAME [--short] [--keep DIR]``: runs one proof, or all, and prints what was
shown.

A proof is a module with ``prove(work, short)``; further parameters that it has are numbers that the
command line may give.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import inspect
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

PROOFS = {
    "completeness": "the pages that wget2 reaches, no more and no less, each once",
    "politeness": (
        "nobody is pressed at full rate, across a kill, and the rate is what politeness allows"
    ),
    "hub": (
        "a host that keeps the robots.txt of many is asked once at a time and after its delay, with"
        " 1, 2 and 4 workers"
    ),
    "links": (
        "the links of ten thousand pages, and of random tag soup, are what other HTML5 parsers find"
    ),
    "readers": "warcio, fastwarc, pywb and DuckDB read what was written",
    "durability": "the order of syncs, and a crawl killed again and again",
    "kills": "one crawl by several workers, killed a hundred times, ends like one left in peace",
    "inspecting": (
        "every command that reads a folder, beside running crawls and on what kills leave: no"
        " error, no false breach"
    ),
    "faults": (
        "stopped processes, shut sockets, a full disk and a failing one: the crawl ends like one"
        " left in peace"
    ),
    "soak": "a million pages: memory and descriptors stay as they were",
    "memory": "a crawl stays under the memory that it is given, and ends all the same",
    "histories": (
        "two thousand simulated crawls under faults by seed, no promise broken, and planted bugs"
        " found"
    ),
    "nodes": (
        "two thousand simulated crawls on several nodes that die, hang and are cut off, no promise"
        " broken, and planted bugs found"
    ),
    "parser": (
        "parse children killed and no process to be had: every page is found, and nothing is silent"
    ),
    "damage": (
        "commit logs deleted, emptied and cut: the next start ends like an undisturbed crawl, or"
        " refuses and changes nothing"
    ),
    "clock": (
        "fifty crawls whose clock is right, or up to 400 days ahead or behind in some runs: nothing"
        " lost, nothing late"
    ),
    "poison": "pages that kill the worker, crash the parser or hang it",
    "hostile": (
        "a web that bites: each attack bounded in time and memory, with a reason on record, and the"
        " crawl goes on"
    ),
    "simulation": (
        "what lycosa simulate says before a crawl is what happens then; its law; a thousand days"
        " over 100,000 hosts"
    ),
    "bad_input": "one clear line and a documented exit code for everything that can be wrong",
}

NUMBERS = {
    "seeds": (
        "how many histories are lived (histories, nodes, clock), rounds of each kind (damage), or"
        " how much tag soup is read (links)"
    ),
    "first": "the seed of the first history or round (histories, nodes, clock, damage)",
    "kills": "how often processes are killed (kills)",
    "pages": "how many pages are crawled (soak), or read (links)",
    "hosts": (
        "how many hosts are crawled (politeness), or simulated for a thousand days (simulation)"
    ),
    "rounds": (
        "how many crawls go through faults (parser), or how often a crawl is killed for each number"
        " of workers (inspecting)"
    ),
    "workers": "how many workers there are (kills, faults, soak)",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="script/prove",
        description="Proofs against real servers and real readers.",
        epilog="\n".join(f"  {name:14}{what}" for name, what in PROOFS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", choices=[*PROOFS, "all"], metavar="NAME", help="a proof of the list below, or all"
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="the form that runs as a test: seconds instead of minutes",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="work in DIR, which is new, and leave it"
    )
    for name, what in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=what)
    asked = parser.parse_args()
    numbers = {name: number for name in NUMBERS if (number := getattr(asked, name)) is not None}
    if unknown := numbers.keys() - _numbers_of(asked.name):
        parser.error(f"{asked.name} has no --{', --'.join(sorted(unknown))}")
    failures = 0
    # Crawls of a proof share their addresses with no other crawl of this machine.
    os.environ["LYCOSA_RUNTIME_DIR"] = runtime = tempfile.mkdtemp(prefix="lycosa-proof-")
    atexit.register(shutil.rmtree, runtime, ignore_errors=True)
    for name in PROOFS if asked.name == "all" else [asked.name]:
        failures += not _run(name, asked.short, asked.keep, numbers)
    return 1 if failures else 0


def _numbers_of(name: str) -> set[str]:
    if name == "all":
        return set()
    return (
        set(inspect.signature(importlib.import_module(f"proofs.{name}").prove).parameters)
        & NUMBERS.keys()
    )


def _run(name: str, short: bool, keep: Path | None, numbers: dict[str, int]) -> bool:
    print(f"== {name}: {PROOFS[name]}", flush=True)
    began = time.monotonic()
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="lycosa-proof-") as folder:
            shown = _prove(name, Path(folder), short, numbers)
    else:
        (keep / name).mkdir(parents=True)
        shown = _prove(name, (keep / name).resolve(), short, numbers)
    print(
        f"== {name}: {'shown' if shown else 'NOT SHOWN'} in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return shown


def _prove(name: str, work: Path, short: bool, numbers: dict[str, int]) -> bool:
    proof = importlib.import_module(f"proofs.{name}")
    try:
        lines: list[str] = proof.prove(work, short, **numbers)
    except AssertionError as error:
        print(error)
        return False
    print("\n".join(lines))
    return True


if __name__ == "__main__":
    sys.exit(main())
