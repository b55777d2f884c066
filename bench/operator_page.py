"""Answer times of the operator's page and of the endpoints beside a large crawl, and what they cost
it.

    python -m bench.operator_page make FOLDER [--hosts 500000] [--pages 10]
    python -m bench.operator_page measure FOLDER [--rate 2] [--window 30] [--rounds 3]

``make`` writes the state of a crawl that knows every page of a synthetic web and has fetched none:
a worker takes them as the links of pages, through intake, URL-seen, partitions and commits.
``measure`` serves that web, crawls it with the folder's two workers and the HTTP interface, and
alternates windows without and with requests: every page and endpoint in turn, ``--rate`` a second.
It prints the percentiles of each address in the windows with requests, and how many requests to the
web ended in a second, and in a second of the workers' processor time, in both kinds of windows. On
a machine that does other work too, the second of the two rates is the better one.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import quote

import uvloop

from lycosa.base.config.sections import BudgetSection, Config, ScopeRule, ScopeSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.system.clock import SystemClock
from lycosa.base.urls.identity import hash8, host_of
from lycosa.processes.session import Session
from lycosa.state.kv.rocks import rocks_opener
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.real_ports import real_ports

_PORT, _API = 18090, 18476
_PAGE_LINKS, _COMMIT_LINKS = 200, 10_000
_CONFIG = Config(
    scope=ScopeSection(rule=ScopeRule.ANY), budgets=BudgetSection(discovery_per_page=0)
)
_CRAWL = [
    "--scope",
    "any",
    "--resolve",
    "*=127.0.0.1",
    "--allow-address",
    "127.0.0.0/8",
    "--contact",
    "test@example.org",
    "--workers",
    "2",
    "--set",
    "politeness.address_delay_s=0",
    "--set",
    "politeness.address_slots=64",
    "--set",
    "budgets.discovery_per_page=0",
]


def web_of(hosts: int, pages: int) -> SyntheticWeb:
    """The web of both commands; an answer takes no time, so the crawl is bound by its processors."""
    plan = WebPlan(hosts=hosts, pages=pages, links=12, latency_s=0.0, seed=15)
    return SyntheticWeb(plan)


# -- making the tables


async def make(folder: Path, hosts: int, pages: int) -> None:
    """Write the state of a crawl that knows all pages."""
    web = web_of(hosts, pages)
    with Session(folder, _CONFIG, rocks_opener(), SystemClock()) as session:
        job = session.job(0, tuple(range(_CONFIG.frontier.partitions)))
        assembled = assemble(job, ports := real_ports(job))
        try:
            await _discover(assembled, web, hosts, pages)
        finally:
            await ports.parser.close()
            await assembled.sender.close()
            assembled.close()


async def _discover(assembled: Assembled, web: SyntheticWeb, hosts: int, pages: int) -> None:
    worker, intake, began = assembled.worker, assembled.intake, time.monotonic()
    intake.take_seeds([web.seed_url(port=_PORT)])
    await worker.committer.commit()
    host = worker.frontier.acquire(time.monotonic(), time.time())
    assert host is not None, "the seed's host is ready"
    partition = worker.frontier.partitions[host.partition]
    lease = partition.lease_next(host)
    assert lease is not None, "the seed waits"
    links: list[Link] = []
    for number in range(hosts * pages):
        if number % pages == 0:
            origin = web.seed_url(number // pages, _PORT).rstrip("/")
            key = hash8(host_of(f"{origin}/"))
        path = web.pages.path(number // pages, number % pages)
        url = f"{origin}{path}"
        links.append(Link(url, key, hash8(url), LinkKind.A, "a page"))
        if len(links) == _PAGE_LINKS:
            intake.take_outlinks(lease, Parsed(links=links))
            links = []
        if number % _COMMIT_LINKS == 0:
            await worker.committer.commit()
        if number % 500_000 == 0:
            print(f"{number:,} URLs, {time.monotonic() - began:.0f} s", flush=True)
    intake.take_outlinks(lease, Parsed(links=links))
    partition.restore_lease(lease)
    worker.frontier.give_back(host)
    await worker.committer.commit()


# -- measuring


class Measurement:
    """One crawl of the folder, and what was measured."""

    def __init__(self, folder: Path, hosts: int, pages: int) -> None:
        self._web, self._hosts, self._pages = web_of(hosts, pages), hosts, pages
        self.times: defaultdict[str, list[float]] = defaultdict(list)
        self.failures: defaultdict[str, int] = defaultdict(int)
        self.windows: defaultdict[bool, list[tuple[float, float]]] = defaultdict(list)
        self._chance = random.Random(15)
        serving = [sys.executable, "-m", "lycosa.synthetic", "--hosts", str(hosts)]
        serving += ["--pages", str(pages), "--port", str(_PORT), "--seed", "15"]
        serving += ["--plan", "links=12", "--plan", "latency_s=0.0"]
        self._server = subprocess.Popen(serving, stdout=subprocess.DEVNULL)
        command = [sys.executable, "-m", "lycosa", "crawl", "--dir", str(folder)]
        command += ["--api", f"127.0.0.1:{_API}", "--delay", "1s", *_CRAWL]
        self._crawl = subprocess.Popen(command)

    def close(self) -> None:
        """End both processes."""
        self._crawl.send_signal(signal.SIGINT)
        try:
            self._crawl.wait(60)
        except subprocess.TimeoutExpired:
            self._crawl.kill()
        self._server.kill()

    def await_rate(self, seconds: float) -> None:
        """Wait until the crawl fetches at its usual rate."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            try:
                if self._fetched() > 1000:
                    break
            except (OSError, ValueError):
                pass
            time.sleep(1.0)
        time.sleep(seconds)

    def run_window(self, seconds: float, rate: float) -> None:
        """One window; with ``rate`` 0 it has no requests."""
        workers = self._workers()
        answering = self._metric("lycosa_question_seconds_total")
        fetched, began, cpu = self._fetched(), time.monotonic(), _cpu_s(workers)
        due = began
        addresses = list(self.addresses())
        while (now := time.monotonic()) < began + seconds:
            due += 1 / rate if rate else seconds
            if rate:
                name, path = addresses[len(self.times["all"]) % len(addresses)]
                self._request(name, path)
            time.sleep(max(min(due, began + seconds) - time.monotonic(), 0.0) if due > now else 0.0)
        ended, lasted = self._fetched() - fetched, time.monotonic() - began
        used = _cpu_s(workers) - cpu
        self.windows[rate > 0].append((ended / lasted, ended / max(used, 0.001)))
        share = (self._metric("lycosa_question_seconds_total") - answering) / max(used, 0.001)
        kind = "with" if rate else "without"
        print(
            f"{kind} requests: {ended / lasted:.1f} requests/s, {ended / used:.1f} a CPU second,"
            f" {share:.1%} of the workers' processor time for answers",
            flush=True,
        )

    def addresses(self) -> list[tuple[str, str]]:
        """Every page and endpoint that reads, each with a fresh random host and URL."""
        number = self._chance.randrange(self._hosts)
        origin = self._web.seed_url(number, _PORT).rstrip("/")
        url = quote(f"{origin}{self._web.pages.path(number, 1)}", safe="")
        host = quote(origin.removeprefix("http://"), safe="")
        site = host.partition(".")[2].partition("%3A")[0]
        captured = quote(self._web.seed_url(port=_PORT), safe="")
        pages = {
            "page: overview": "/",
            "page: numbers": "/overview/numbers",
            "page: charts": "/charts.json",
            "page: hosts by name": "/hosts",
            "page: hosts, next piece": f"/hosts?after=example.site{number:06d}",
            "page: hosts of a domain": f"/hosts?search={site}",
            "page: hosts, part of a name": f"/hosts?search=h{number:06d}",
            "page: hosts by queue": "/hosts?sort=queue",
            "page: hosts by wait": "/hosts?sort=wait",
            "page: hosts by errors": "/hosts?sort=errors",
            "page: one host": f"/hosts/{host}",
            "page: one URL": f"/urls?url={url}",
            "page: captures": f"/captures?url={captured}",
            "page: text of a capture": f"/content?url={captured}",
            "page: dead letters": "/dead-letters",
            "page: settings": "/settings",
            "page: actions": "/actions",
            "page: workers": "/cluster",
            "GET stats": "/api/v1/stats",
            "GET frontier/stats": "/api/v1/frontier/stats",
            "GET hosts": "/api/v1/hosts",
            "GET hosts/{host}": f"/api/v1/hosts/{host}",
            "GET hosts/{host}/urls": f"/api/v1/hosts/{host}/urls",
            "GET urls/{url}": f"/api/v1/urls/{url}",
            "GET captures/{url}": f"/api/v1/captures/{captured}",
            "GET dlq": "/api/v1/dlq",
            "GET actions": "/api/v1/actions",
            "GET settings": "/api/v1/settings",
        }
        return list(pages.items())

    def _request(self, name: str, path: str) -> None:
        began = time.perf_counter()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{_API}{path}", timeout=30) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            self.failures[f"{name}: {error.code}"] += 1
        spent = time.perf_counter() - began
        for each in (name, "all"):
            self.times[each].append(spent)

    def _metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{_API}/metrics", timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return float(line.rpartition(" ")[2])
        return 0.0

    def _fetched(self) -> int:
        """Requests that have ended; of hosts that are new, most are for robots.txt."""
        return int(self._metric('lycosa_fetch_seconds_count{phase="total"}'))

    def _workers(self) -> list[int]:
        found = []
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = each.read_bytes().split(b"\0")
                parent = int((each.parent / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if b"lycosa.processes.worker_process" in words and parent == self._crawl.pid:
                found.append(int(each.parent.name))
        return found


def _cpu_s(pids: list[int]) -> float:
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def report(found: Measurement) -> None:
    """Print the table, and the loss of rate."""
    print(f"{'address':32} {'requests':>8} {'p50 ms':>8} {'p95 ms':>8} {'max ms':>8}")
    for name, times in found.times.items():
        p95 = quantiles(times, n=20, method="inclusive")[-1] if len(times) > 1 else times[0]
        print(
            f"{name:32} {len(times):8} {median(times) * 1000:8.0f} {p95 * 1000:8.0f}"
            f" {max(times) * 1000:8.0f}"
        )
    for at, what in enumerate(("requests a second", "requests a CPU second of the workers")):
        without, with_ = (median(w[at] for w in found.windows[kind]) for kind in (False, True))
        print(
            f"{what}: {without:.1f} without, {with_:.1f} with requests: {1 - with_ / without:+.1%} lost"
        )
    print(f"answers that were errors: {dict(found.failures) or 'none'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["make", "measure"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hosts", type=int, default=500_000)
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--rate", type=float, default=2.0)
    parser.add_argument("--window", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.what == "make":
        uvloop.run(make(given.folder, given.hosts, given.pages))
        return
    measurement = Measurement(given.folder, given.hosts, given.pages)
    try:
        measurement.await_rate(20.0)
        for number in range(given.rounds):  # the order turns, as the rate falls while a crawl grows
            for rate in (0.0, given.rate) if number % 2 == 0 else (given.rate, 0.0):
                measurement.run_window(given.window, rate)
    finally:
        measurement.close()
    report(measurement)


if __name__ == "__main__":
    main()
