"""Pages a second of the whole machine, the web server on it too, with one worker and with two; and
what a page costs with each.

``python -m bench.throughput`` (or ``bench/throughput``); see README.md beside this file. Runs with
one and with two workers take turns, so that what else the machine does hits both alike. The web has
many hosts and a fifth of the links lead to other hosts, so with two workers a tenth of all links
goes through the exchange.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.interpreter import described
from bench.many_hosts import ManyHosts, make_hosts
from bench.measure import measure
from bench.page_cost import LYCOSA

_CORES = os.cpu_count() or 1


class Run(NamedTuple):
    """One crawl: HTML pages, CPU seconds of the crawler and of the web server, seconds from
    start to end.
    """

    pages: int
    cpu_s: float
    server_s: float
    wall_s: float

    @property
    def page_ms(self) -> float:
        return self.cpu_s * 1000 / self.pages

    @property
    def rate(self) -> float:
        return self.pages / self.wall_s

    @property
    def server_share(self) -> float:
        """Of all cores, while the crawl ran."""
        return self.server_s / (self.wall_s * _CORES)


def run_once(
    server: ManyHosts, hosts: list[str], workers: int, folder: Path, more: list[str]
) -> Run:
    """One crawl of all hosts in a folder that is deleted afterwards."""
    own = folder / "crawl"
    shutil.rmtree(own, ignore_errors=True)
    seeds = [f"{server.base.format(host)}/index.html" for host in hosts]
    server.pages_since_last_call()
    before = server.cpu_s()
    command = [
        str(Path(sys.executable).with_name("lycosa")),
        "crawl",
        *seeds,
        "--dir",
        str(own),
        *LYCOSA,
        *more,
        "--workers",
        str(workers),
    ]
    cost = measure(command, folder / "lycosa.log")
    used = server.cpu_s() - before
    pages, _ = server.pages_since_last_call()
    if cost.code != 0 or len(pages) < len(hosts):
        raise SystemExit(
            f"lycosa ended with {cost.code} after {len(pages)}"
            f" pages:\n{(folder / 'lycosa.log').read_text()[-3000:]}"
        )
    return Run(len(pages), cost.cpu_s, used, cost.wall_s)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench/throughput",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=3, help="crawls with each number of workers")
    parser.add_argument("--hosts", type=int, default=32)
    parser.add_argument("--pages", type=int, default=250, help="of each host")
    parser.add_argument("--workers", default="1,2", help="numbers of workers that take turns")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all crawls"
    )
    parser.add_argument(
        "--site",
        type=Path,
        metavar="DIR",
        help="keep the site here, or take the one that is here: --hosts and --pages as then",
    )
    asked = parser.parse_args()
    print(described())
    hosts = [f"127.0.{1 + number // 200}.{1 + number % 200}" for number in range(asked.hosts)]
    counts = [int(word) for word in asked.workers.split(",")]
    with TemporaryDirectory(prefix="lycosa-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        root = asked.site or folder / "site"
        server = ManyHosts(root, folder / "nginx", hosts, asked.tls)
        if asked.site is None or not root.exists():
            make_hosts(root, hosts, asked.pages, server.base)
        more = [word for pair in asked.set for word in ("--set", pair)]
        if asked.tls:
            more += ["--set", f"fetch.ca_file={server.certificate}"]
        with server:
            runs: dict[int, list[Run]] = {count: [] for count in counts}
            for _ in range(asked.runs):
                for count in counts:
                    run = run_once(server, hosts, count, folder, more)
                    runs[count].append(run)
                    told = (
                        f"{run.page_ms:.3f} ms a page, {run.rate:.0f} pages a second, nginx"
                        f" {100 * run.server_share:.1f} % of the cores"
                    )
                    print(
                        f"  {count} worker(s): {run.pages} pages, {run.cpu_s:.2f} s CPU in"
                        f" {run.wall_s:.2f} s, {told}",
                        flush=True,
                    )
    medians = {
        count: statistics.median(run.page_ms for run in each) for count, each in runs.items()
    }
    for count, each in runs.items():
        rate = statistics.median(run.rate for run in each)
        share = statistics.median(run.server_share for run in each)
        print(
            f"{count} workers: {medians[count]:.3f} ms a page, {rate:.0f} pages a second, nginx"
            f" {100 * share:.1f} % of the machine",
            end="",
        )
        print(
            f", {medians[count] / medians[counts[0]]:.3f} times the cost with {counts[0]}"
            if count != counts[0]
            else ""
        )


if __name__ == "__main__":
    main()
