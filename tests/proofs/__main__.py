"""``python -m proofs NAME [--short] [--keep DIR]``: runs one proof, or all, and prints what was
shown.

A proof is a module with ``prove(work, short)``; further parameters that it has are numbers, and a
database, that the command line may give.
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
from typing import Any

PROOFS = {
    "completeness": "the crawl fetches the same pages as wget2, each once",
    "politeness": (
        "every host gets its delay at full rate and across a kill; the rate is the maximum that"
        " politeness allows"
    ),
    "hub": (
        "a host to which the robots.txt of many others redirects gets one request at a time, after"
        " its delay, with 1, 2 and 4 workers"
    ),
    "links": (
        "the links of ten thousand pages, and of random tag soup, equal those of other HTML5"
        " parsers"
    ),
    "readers": "warcio, fastwarc, pywb and DuckDB read the output",
    "replay": (
        "a site with fonts, late style sheets and lazy images looks in Chromium from the archive and"
        " from its WACZ as it did from the server"
    ),
    "rendering": (
        "rendered pages of built frameworks have the text and the links that Chromium with a network"
        " shows, and pywb shows them from the archive"
    ),
    "unchanged": (
        "a second pass over nginx finds each changed page, also where ETags lie, spends 1 % of the"
        " bytes of the others, and pywb replays both passes"
    ),
    "durability": "the order of syncs, and a crawl that is killed again and again",
    "kills": "a crawl by several workers, killed a hundred times, ends like an undisturbed one",
    "inspecting": (
        "commands that read a folder work during a crawl and after a kill: no error, no false breach"
    ),
    "faults": (
        "stopped processes, closed sockets, a full disk and a failing one: the crawl ends like an"
        " undisturbed one"
    ),
    "outages": (
        "hosts, the network and name servers are away for 5 s to 2 h: every URL is fetched, and nobody"
        " is asked more than politeness allows"
    ),
    "soak": "a million pages: memory and descriptors stay constant",
    "memory": "a crawl stays below its memory limit, and still finishes",
    "histories": (
        "two thousand simulated crawls with faults by seed break no guarantee, and planted bugs are"
        " found"
    ),
    "nodes": (
        "two thousand simulated crawls on several nodes that die, hang and lose connections break"
        " no guarantee, and planted bugs are found"
    ),
    "month": (
        "thirty virtual days of continuous crawls with restarts, lost machines, changed policies and"
        " false announcements: no page starves, no host is pressed, the state stays bounded"
    ),
    "cluster": (
        "a crawl on three nodes over Kafka and object storage, through forty faults, ends like an"
        " undisturbed one; damaged parts and a log made again are reported, and nothing else is lost"
    ),
    "import": (
        "the crawl of a folder is imported into shards of a cluster, and then into twice as many,"
        " by programs that are killed again and again; it ends like an undisturbed one"
    ),
    "parser": (
        "parse children are killed and no process can be started: every page is found, and every"
        " failure is reported"
    ),
    "damage": (
        "commit logs are deleted, emptied and truncated: the next start ends like an undisturbed"
        " crawl, or refuses and changes nothing"
    ),
    "clock": (
        "fifty crawls whose clock is right, or up to 400 days ahead or behind in some runs: nothing"
        " is lost, nothing is late"
    ),
    "poison": "pages that kill the worker, crash the parser or make it hang",
    "hostile": (
        "attacks: each is bounded in time and memory, its reason is recorded, and the crawl"
        " continues"
    ),
    "tls_floods": (
        "hosts that send TLS handshake messages without end leave the others 90 % of their rate"
    ),
    "trap_sites": (
        "a site of endless near copies gets at most 2 % of the fetches while 50 honest sites have"
        " waiting URLs, and no honest page is missed"
    ),
    "simulation": (
        "predictions of lycosa simulate compared with real crawls; its scaling law; a thousand days"
        " over 100,000 hosts"
    ),
    "registry": (
        "a crawl, its projector and the database are killed again and again: the registry equals the"
        " crawl, and so does one that is filled from nothing"
    ),
    "exporting": (
        "exports to files, databases, a search engine and tables are killed a hundred times, two at"
        " once: every item is there once"
    ),
    "bad_input": "one clear line and a documented exit code for every wrong input",
}

_MODULES = {"import": "importing"}
"""Of proofs whose name no module can have."""

NUMBERS = {
    "seeds": (
        "number of histories (histories, nodes, clock, month), cases of each kind (outages), rounds of each kind (damage), crawls"
        " (cluster), or pages of tag soup (links)"
    ),
    "first": (
        "the seed of the first history, case, round or crawl (histories, nodes, clock, month, outages,"
        " damage, cluster)"
    ),
    "kills": "how often processes are killed (kills, registry), or the number of faults (cluster)",
    "pages": "how many pages are crawled (soak, cluster, unchanged, replay, for each site: rendering), or read (links)",
    "hosts": (
        "how many hosts are crawled (politeness), or simulated for a thousand days (simulation)"
    ),
    "rounds": (
        "how many crawls go through faults (parser), or how often a crawl is killed for each number"
        " of workers (inspecting)"
    ),
    "workers": "how many workers there are (kills, faults, soak, registry)",
}

DATABASES = ("postgres", "cassandra")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="script/prove",
        description="Proofs against real servers and real readers.",
        epilog="\n".join(f"  {name:14}{what}" for name, what in PROOFS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", choices=[*PROOFS, "all"], metavar="NAME", help="a proof from the list below, or all"
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="the short form that is part of the tests: seconds instead of minutes",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="work in DIR, which must be new, and keep it"
    )
    for name, what in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=what)
    parser.add_argument("--database", choices=DATABASES, help="of the registry (registry)")
    asked = parser.parse_args()
    given = {name: getattr(asked, name) for name in (*NUMBERS, "database")}
    numbers = {name: value for name, value in given.items() if value is not None}
    if unknown := numbers.keys() - _numbers_of(asked.name):
        parser.error(f"{asked.name} has no --{', --'.join(sorted(unknown))}")
    failures = 0
    # Crawls of a proof share their addresses with no other crawl of this machine.
    os.environ["LYCOSA_RUNTIME_DIR"] = runtime = tempfile.mkdtemp(prefix="lycosa-proof-")
    os.environ["LYCOSA_COPIES__PROBE_TURNS"] = "1"  # most pages of these sites are alike
    atexit.register(shutil.rmtree, runtime, ignore_errors=True)
    for name in PROOFS if asked.name == "all" else [asked.name]:
        failures += not _run(name, asked.short, asked.keep, numbers)
    return 1 if failures else 0


def _numbers_of(name: str) -> set[str]:
    if name == "all":
        return set()
    return set(inspect.signature(_module(name).prove).parameters) & {
        *NUMBERS,
        "database",
    }


def _module(name: str) -> Any:
    return importlib.import_module(f"proofs.{_MODULES.get(name, name)}")


def _run(name: str, short: bool, keep: Path | None, numbers: dict[str, Any]) -> bool:
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


def _prove(name: str, work: Path, short: bool, numbers: dict[str, Any]) -> bool:
    proof = _module(name)
    try:
        lines: list[str] = proof.prove(work, short, **numbers)
    except AssertionError as error:
        print(error)
        return False
    print("\n".join(lines))
    return True


if __name__ == "__main__":
    sys.exit(main())
