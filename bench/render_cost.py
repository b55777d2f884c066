"""What a rendered page costs against a plain one: crawls of the same pages with and without their
scripts.

    python -m bench.render_cost SITES [--pages 16] [--at-once 2] [--browser PATH] [--json]

SITES has a folder for each built site (``tests/built_sites.py``), served on loopback addresses
without any delay; ``--pages`` of each are seeds. Processor time is that of all processes of a
crawl, browsers included, also of those that were killed: orphans become children of this process
(``PR_SET_CHILD_SUBREAPER``), and ``wait`` adds what they used. A first crawl of the same kind with
one page is subtracted, so what is left is the cost of pages and not of starting.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from bench.interpreter import described

from built_sites import SiteServer, built_sites
from proofs.crawls import FAST, LOOPBACK, LYCOSA, environment

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h


class Cost(NamedTuple):
    """Processor seconds of all processes, and seconds."""

    processor_s: float
    elapsed_s: float


def crawl_cost(folder: Path, seeds: list[str], options: list[str]) -> Cost:
    """Crawl the seeds and nothing else."""
    before, began = _used_s(), time.monotonic()
    bounds = ["--max-pages", str(len(seeds))]
    command = [*LYCOSA, "crawl", "--dir", str(folder), *LOOPBACK, *FAST, *seeds, *bounds, *options]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment(None)
    )
    assert done.returncode in (0, 3), done.stderr[-2000:]
    elapsed_s = time.monotonic() - began
    while True:
        try:
            os.wait()  # orphans of browsers
        except ChildProcessError:
            return Cost(_used_s() - before, elapsed_s)


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rounds(folder: Path) -> tuple[int, int, float]:
    statement = (
        "SELECT count(*) AS pages, sum(len(rounds)) AS rounds, sum(processor_s) AS browser_s"
        " FROM renders"
    )
    command = [*LYCOSA, "sql", str(folder), statement, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (row,) = json.loads(done.stdout)
    return row["pages"], row["rounds"], row["browser_s"]


def main() -> int:
    """Run the crawls and print what a page costs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("sites", type=Path)
    parser.add_argument("--pages", type=int, default=16, help="of each site")
    parser.add_argument("--at-once", type=int, default=2, help="render.pages")
    parser.add_argument("--browser", default="")
    asked = parser.parse_args()
    print(described(), file=sys.stderr)
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    render = ["--render", "always", "--set", f"render.browser={asked.browser}"]
    render += ["--set", f"render.pages={asked.at_once}"]
    sites = built_sites(asked.sites)
    with SiteServer(sites) as server, tempfile.TemporaryDirectory() as folder:
        seeds = [server.bases[s.name] + path for s in sites for path in s.paths[: asked.pages]]
        # In another process the server's time would not count either way: threads of this one are
        # none of its children.
        costs = {}
        for name, options in (("plain", []), ("rendered", render)):
            one = crawl_cost(Path(folder, f"{name}-1"), seeds[:1], options)
            costs[name] = all_ = crawl_cost(Path(folder, name), seeds, options)
            costs[name] = Cost(all_.processor_s - one.processor_s, all_.elapsed_s - one.elapsed_s)
        pages, rounds, browser_s = _rounds(Path(folder, "rendered"))
    plain, rendered = costs["plain"], costs["rendered"]
    report = {
        "pages": len(seeds),
        "rendered": pages,
        "rounds_a_page": round(rounds / pages, 2),
        "plain_processor_s_a_page": round(plain.processor_s / len(seeds), 4),
        "rendered_processor_s_a_page": round(rendered.processor_s / len(seeds), 3),
        "of_that_browser_s": round(browser_s / pages, 3),
        "rendered_pages_a_minute": round(60 * pages / rendered.elapsed_s, 1),
        "plain_pages_a_minute": round(60 * len(seeds) / plain.elapsed_s, 1),
        "at_once": asked.at_once,
    }
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
