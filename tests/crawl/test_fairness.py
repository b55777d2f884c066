"""A crawl of two thousand hosts of which one has twenty thousand pages: each host has its turn,
and important URLs come first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_host_is_visited_within_its_bound_and_important_urls_come_first() -> None:
    """The short form of ``bench/fairness.py``, which ends with 1 when a host was late or left
    out.
    """
    command = [
        sys.executable,
        "-m",
        "bench.fairness",
        "--hosts",
        "2000",
        "--pages",
        "20000",
        "--slots",
        "40",
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2,000 of 2,000 hosts visited, 0 late" in ran.stdout
    found = re.search(r"fetch order: ([\d.-]+) over .* hosts, ([\d.-]+) within hosts", ran.stdout)
    assert found is not None, ran.stdout
    assert "not in the order of their bands: 0 of 1,000 hosts" in ran.stdout
    # Hosts and URLs are ordered by eight bands, of which the priorities of this web fill five, and
    # those of one host three, because its authority is the same for all of its URLs. So the order
    # by bands, first in first out, is 0.79 here.
    assert float(found[1]) > 0.7 and float(found[2]) > 0.75
