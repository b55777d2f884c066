"""Whether any structure holds all hosts in memory: ``python -m bench.hosts [--millions 10] [--few 10000] [--folder DIR]``.

The same number of URLs waits once on few hosts and once each on its own; then links come in and URLs are fetched as in ``bench.frontier``.
Prints the memory of either process and the difference. The caches of RocksDB are bounded alike and full in both.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def own_mb(folder: Path, millions: float, per_host: float, links: int) -> int:
    """Memory of one run's process, files it has mapped not counted."""
    command = [sys.executable, "-m", "bench.frontier", "--millions", f"{millions:g}", "--per-host", f"{per_host:g}"]
    command += ["--folder", str(folder), "--links", str(links), "--cache-mb", "128", "--warm", "0"]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(said, end="", flush=True)
    found = re.search(r"memory: (\d+) MB own", said)
    assert found is not None
    return int(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, default=10.0, help="URLs, and hosts of the second run")
    parser.add_argument("--few", type=int, default=10_000, help="hosts of the first run")
    parser.add_argument("--links", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the states are made, and kept for the next time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        base = options.folder or Path(name)
        few = own_mb(base / "few", options.millions, options.millions * 1e6 / options.few, options.links)
        many = own_mb(base / "many", options.millions, 1.0, options.links)
    print(f"{options.few} hosts: {few} MB; {options.millions:g} million hosts: {many} MB; difference {many - few} MB")


if __name__ == "__main__":
    main()
