"""``lycosa simulate`` against real crawls, against itself at three sample sizes, and for a thousand
days.

**Against real crawls.** A real nginx serves hosts whose pages we know. They are crawled as users
crawl, and what the simulation says before is compared with what happens, twice:

* *politeness-bound*: hosts of different sizes on a few addresses, some with a Crawl-delay, listed
  as ``--hosts-of`` wants them. Compared
  are the times at which half, nine tenths and all of the pages are fetched, from the first request
  on, by the attempt log.
* *CPU-bound*: no delays, and a part of one core by a control group. A crawl tells what a page costs
  (``--means-of``); one of other
  hosts, another number of pages and a third more processor is predicted from that. Compared is how
  long the whole run takes. On virtual
  cores a second of processor time does not always do the same, by up to a third from one minute to
  the next, so it is asked what a page
  costs before and after, and the mean is taken. The short form allows twice the error: a second of
  waiting in a run of ten is a tenth.

Both crawls run in a control group that is served first, since how busy the machine is with other
things is nothing that a model can know. Where no such group can be made the processor time of the
CPU-bound run is compared, and not how long it took.

**The law.** The same web, a billion pages on 45 million hosts, at three sizes of the sample, of
which each is twice the one before: the answers of the smaller ones are those of the largest one.

**A thousand days** over 100,000 hosts, all of them in the sample, with five million fetches.
"""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lycosa.base.model.fetched import FetchKind
from lycosa.simulate.past_crawl import past_means
from lycosa.state.attempts import Attempt, read_attempts
from lycosa.state.folder.run_cost import read_costs
from nginx_site import NginxSite, write_tree
from proofs.crawls import FAST, LOOPBACK, LYCOSA, children, environment, lycosa
from proofs.quota import Quota

WANTED = 0.10
DAY_S = 86_400.0
ADDRESSES = tuple(f"127.0.0.{number}" for number in range(1, 6))
LATENCY_S = 0.004  # of nginx on a machine that does other things too
BRANCHES = "3"  # of the pages of write_tree
_PAGE_BYTES = 12_000
_COMPARED = (
    "pages_per_day", "pages_per_day_late", "most_day", "known", "stored", "fresh_late", "age_days_late", "queued_most", "requests",
    "bits_per_s", "disk_bytes", "busy_cores",
)  # fmt: skip


def prove(work: Path, short: bool, hosts: int = 0) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    return [
        *_politeness_bound(work / "politeness", short),
        *_cpu_bound(work / "cpu", short),
        *_law([500, 1000, 2000] if short else [2000, 4000, 8000], days=5 if short else 30),
        *_thousand_days(hosts or (500 if short else 100_000)),
    ]


def simulated(*arguments: str, timeout: float = 3600) -> dict[str, Any]:
    """What ``lycosa simulate --json`` says."""
    done = lycosa("simulate", "--json", *arguments, timeout=timeout)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


# -- against real crawls


class Site:
    """Hosts of different sizes behind one nginx, and how a crawl of them is called."""

    def __init__(self, work: Path, pages: Sequence[int], crawl_delays: dict[int, int]) -> None:
        self.work, self.pages = work, pages
        self.names = [f"h{number:03d}.site{number:03d}.test" for number in range(len(pages))]
        self._delays = crawl_delays
        for number, name in enumerate(self.names):
            write_tree(work / "root" / name, pages[number], seed=number, size=_PAGE_BYTES)
            if number in crawl_delays:
                (work / "root" / name / "robots.txt").write_text(
                    f"User-agent: *\nCrawl-delay: {crawl_delays[number]}\n"
                )

    def address(self, number: int) -> str:
        return ADDRESSES[number % len(ADDRESSES)]

    def listed(self) -> Path:
        """The hosts as a user would list them."""
        path = self.work / "hosts.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("pages", "captures", "bytes", "time_s", "crawl_delay_s", "address"))
            for number, pages in enumerate(self.pages):
                writer.writerow(
                    (
                        pages,
                        1,
                        _PAGE_BYTES,
                        LATENCY_S,
                        self._delays.get(number, ""),
                        self.address(number),
                    )
                )
        return path

    def crawl(
        self, folder: Path, arguments: Sequence[str], quota: Quota | None, others: Quota | None
    ) -> None:
        """Crawls all of it."""
        seeds = self.work / "seeds.txt"
        with NginxSite(self.work / "nginx", self.work / "root" / "$host", ADDRESSES) as site:
            if others is not None:
                for pid in (site.pid, *children(site.pid)):
                    others.join(pid)
            seeds.write_text("".join(f"http://{name}:{site.port}/\n" for name in self.names))
            pins = [
                word
                for number, name in enumerate(self.names)
                for word in ("--resolve", f"{name}={self.address(number)}")
            ]
            command = [
                *(quota.prefix if quota else ()),
                *LYCOSA,
                "crawl",
                "--dir",
                str(folder),
                "--seeds",
                str(seeds),
                *LOOPBACK,
                *pins,
                *arguments,
            ]
            done = subprocess.run(
                command,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=3000,
                check=False,
            )
        assert done.returncode == 0, done.stderr


def _politeness_bound(work: Path, short: bool) -> list[str]:
    hosts = 20 if short else 60
    most = 18 if short else 120
    pages = [max(most * (1 + number) // hosts, 1) for number in range(hosts)]
    site = Site(work, pages, dict.fromkeys(range(0, hosts // 2, 5), 2))
    settings = ["--delay", "500ms", "--set", "politeness.address_delay_s=50ms"]
    with ExitStack() as stack:
        group = stack.enter_context(Quota("lycosa-all", 0.0)) if Quota.is_possible() else None
        site.crawl(work / "crawl", settings, group, group)
    attempts = list(read_attempts(work / "crawl" / "log"))
    first = min(attempt.started_wall for attempt in attempts)
    ends = sorted(
        attempt.ended_wall - first for attempt in attempts if attempt.kind is FetchKind.PAGE
    )
    assert len(ends) == sum(pages), (len(ends), sum(pages), _wrong(attempts))
    means = ("--let", "means.start_cpu_s=0s")
    days = str(2 * ends[-1] / DAY_S)
    said = simulated(
        "--hosts-of",
        str(site.listed()),
        *means,
        "--days",
        days,
        "--let",
        f"web.branches={BRANCHES}",
        *_SURE,
        *settings,
    )
    assert said["binds"] == "politeness", said["binds"]
    told = [f"politeness-bound: {len(ends)} pages on {hosts} hosts at {len(ADDRESSES)} addresses"]
    for share in (0.5, 0.9, 1.0):
        really = ends[round(share * len(ends)) - 1]
        told.append(_compared(f"{100 * share:.0f} % of the pages", _time_of(said, share), really))
    return told


_SURE = ("--let", "web.errors=0", "--let", "web.dead=0", "--let", "web.changes_per_day=0")


def _cpu_bound(work: Path, short: bool) -> list[str]:
    """Calibrates with one crawl, predicts the other."""
    cores = (0.6, 0.8) if Quota.is_possible() else (0.0, 0.0)
    wanted = 2 * WANTED if short else WANTED
    first = Site(work / "first", [80 if short else 300] * 30, {})
    second = Site(work / "second", [number * (4 if short else 20) for number in range(25, 50)], {})
    with ExitStack() as stack:
        quotas: list[Quota | None] = [None, None, None]
        if cores[0]:
            quotas = [
                stack.enter_context(Quota(f"lycosa-{name}", size))
                for name, size in (("a", cores[0]), ("b", cores[1]), ("nginx", 0.0))
            ]
        first.crawl(work / "before", FAST, quotas[0], quotas[2])
        second.crawl(work / "crawl", FAST, quotas[1], quotas[2])
        first.crawl(work / "after", FAST, quotas[0], quotas[2])
    said = simulated(
        *("--means-of", str(work / "before"), *_mean_costs(work / "before", work / "after")),
        *("--hosts-of", str(second.listed()), "--cores", str(cores[1] or 2)),
        *("--days", "0.01", "--let", f"web.branches={BRANCHES}", *_SURE, *FAST),
    )
    cost = read_costs(work / "crawl")[-1]
    assert cost.captures == sum(second.pages), cost
    means = said["means"]
    told = [
        f"CPU-bound: {means['page_ms']:.3f} ms a page and {means['start_cpu_s']:.2f} s for the"
        f" start, from twice {sum(first.pages)} pages; then {cost.captures} pages on"
        f" {len(second.pages)} hosts took {cost.cpu_s:.2f} s of processor time in"
        f" {cost.seconds:.2f} s"
    ]
    told.append(
        _compared("processor time", said["busy_cores"] * said["days"] * DAY_S, cost.cpu_s, wanted)
    )
    if cores[1]:
        assert said["binds"] == "cpu", said["limits"]
        told.append(
            _compared(
                f"the run on {cores[1]} cores",
                said["first_round_day"] * DAY_S,
                cost.seconds,
                wanted,
            )
        )
    else:
        told.append("no control group can be made here: how long the run takes is not compared")
    return told


def _mean_costs(*folders: Path) -> list[str]:
    """What pages and the start cost on average of two crawls, as options of ``lycosa simulate``."""
    means = [past_means(folder) for folder in folders]
    found = {}
    for name in ("means.page_ms", "means.request_ms", "means.start_cpu_s"):
        values = [mean[name] for mean in means]
        found[name] = sum(value for value in values if isinstance(value, float)) / len(values)
    return [word for name, value in found.items() for word in ("--let", f"{name}={value}")]


def _compared(what: str, said: float, really: float, wanted: float = WANTED) -> str:
    error = said / really - 1.0
    line = f"  {what}: predicted {said:.2f} s, really {really:.2f} s: {100 * error:+.1f} %"
    assert abs(error) <= wanted, line
    return line


def _time_of(said: dict[str, Any], share: float) -> float:
    """When that share of the pages had been fetched, in the simulation."""
    if share == 1.0:
        return float(said["first_round_day"]) * DAY_S
    wanted, before, stored = share * said["stored"], 0.0, 0.0
    for row in said["rows"]:
        if row["stored"] >= wanted:
            part = (wanted - stored) / (row["stored"] - stored)
            return float(before + part * (row["day"] - before)) * DAY_S
        before, stored = row["day"], row["stored"]
    raise AssertionError(f"{wanted} pages are never fetched")


def _wrong(attempts: Sequence[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.status not in (200, 404)][:5]


# -- against itself


def _law(sizes: Sequence[int], days: int) -> list[str]:
    model = (
        "--hosts",
        "45M",
        "--pages",
        "1G",
        "--workers",
        "8",
        "--cores",
        "8",
        "--let",
        "means.bandwidth_bytes_per_s=1250MB",
    )
    found = [simulated(*model, "--days", str(days), "--sample", str(size)) for size in sizes]
    best = found[-1]
    told = [
        f"the law: a billion pages on 45 million hosts, {days} days, 8 workers on 8 cores; binds:"
        f" {best['binds']}"
    ]
    for said in found:
        sample = said["sample"]
        told.append(
            f"  {sample['hosts']:,} hosts with {sample['pages']:,} pages: {sample['requests']:,}"
            f" requests in {sample['cpu_s']} s of CPU; {said['pages_per_day']:,.0f} pages a day, 90"
            f" % after {said['most_day']:.2f} days, {100 * said['fresh_late']:.1f} % current"
        )
    for said in found[:-1]:
        errors = {name: said[name] / best[name] - 1.0 for name in _COMPARED if best[name]}
        worst = max(errors, key=lambda name: abs(errors[name]))
        told.append(
            f"  {said['sample']['hosts']:,} against {best['sample']['hosts']:,} hosts: at most"
            f" {100 * errors[worst]:+.1f} % ({worst})"
        )
        assert abs(errors[worst]) <= WANTED, (told, errors)
        assert said["binds"] == best["binds"], told
    return told


def _thousand_days(hosts: int) -> list[str]:
    """Pages are fetched again after two months at first, a year at most: some ten times each."""
    said = simulated(
        *(
            "--hosts",
            str(hosts),
            "--pages",
            str(6 * hosts),
            "--sample",
            str(hosts),
            "--days",
            "1000",
            "--let",
            "web.changes_per_day=0.005",
        ),
        *(
            "--set",
            "refetch.first_s=60d",
            "--set",
            "refetch.min_s=60d",
            "--set",
            "refetch.max_s=365d",
        ),
    )
    sample, fetches = said["sample"], said["captures"]
    told = (
        f"a thousand days over {hosts:,} hosts: {fetches:,.0f} fetches of pages"
        f" ({sample['requests']:,} requests), {sample['wall_s']:.0f} s on the clock,"
        f" {sample['cpu_s']:.0f} s of CPU in {sample['parts']} parts,"
        f" {1e6 * sample['cpu_s'] / sample['requests']:.0f} us a request"
    )
    assert sample["hosts"] == hosts, told
    assert fetches >= 50 * hosts, told
    assert sample["cpu_s"] <= 2 * 600, told
    return [told]
