"""``python -m proofs NAME [--short] [--keep DIR]``: runs one proof, or all, and prints what was shown."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

PROOFS = {
    "completeness": "the pages that wget2 reaches, no more and no less, each once",
    "politeness": "nobody is pressed at full rate, across a kill, and the rate is what politeness allows",
    "readers": "warcio, fastwarc, pywb and DuckDB read what was written",
    "durability": "the order of syncs, and a crawl killed again and again",
    "poison": "pages that kill the worker, crash the parser or hang it",
    "bad_input": "one clear line and a documented exit code for everything that can be wrong",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="script/prove",
        description="Proofs against real servers and real readers.",
        epilog="\n".join(f"  {name:14}{what}" for name, what in PROOFS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=[*PROOFS, "all"], metavar="NAME", help="a proof of the list below, or all")
    parser.add_argument("--short", action="store_true", help="the form that runs as a test: seconds instead of minutes")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work in DIR, which is new, and leave it")
    asked = parser.parse_args()
    failures = 0
    for name in PROOFS if asked.name == "all" else [asked.name]:
        failures += not _run(name, asked.short, asked.keep)
    return 1 if failures else 0


def _run(name: str, short: bool, keep: Path | None) -> bool:
    print(f"== {name}: {PROOFS[name]}", flush=True)
    began = time.monotonic()
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="lycosa-proof-") as folder:
            shown = _prove(name, Path(folder), short)
    else:
        (keep / name).mkdir(parents=True)
        shown = _prove(name, (keep / name).resolve(), short)
    print(f"== {name}: {'shown' if shown else 'NOT SHOWN'} in {time.monotonic() - began:.0f} s", flush=True)
    return shown


def _prove(name: str, work: Path, short: bool) -> bool:
    proof = importlib.import_module(f"proofs.{name}")
    try:
        lines: list[str] = proof.prove(work, short)
    except AssertionError as error:
        print(error)
        return False
    print("\n".join(lines))
    return True


if __name__ == "__main__":
    sys.exit(main())
