"""Soak: a crawl of a million small pages by two workers, watched from ``/proc``: memory and
descriptors stay as they were.

nginx answers from its configuration, without a file: each of 1,296 addresses of the loopback
network is a host with a tree of ten links a page, four levels deep, and every page also links to
another host, so that workers have URLs for each other. The words of a page are those of a random
number, so that no two are alike.

The crawl has little memory (600 MB a worker with its parser), and the million is counted after
300,000 pages: in these the caches fill that this memory bounds (RocksDB's blocks and memtables,
URL-seen's newest hashes). With the default of 1.5 GB they grow with the state for the whole
million, as they may.

Compared are the means over its first and its last tenth; segments are small, so that in both some
are closed, which takes memory for a while. Mapped files of URL-seen are told beside: they are the
system's cache and grow by eight bytes a URL by design. Closing the last files after the last page
is not part of the crawl's steady state and is told apart.
"""

from __future__ import annotations

import csv
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from nginx_site import NginxSite
from proofs.crawls import FAST, RunningCrawl
from proofs.watching import Lines, Sample, look

_SIDE = 36
_HOSTS = _SIDE * _SIDE
_WARM = 0.3  # of the pages that count: fetched before them
_TREE = 1111  # pages of a host: 1 + 10 + 100 + 1000
_WORKER_MB = 600
_SAMPLE_S, _SHORT_SAMPLE_S = 1.0, 0.2
_MOST_S = 7200.0
_GROWTH = 0.05
# of a process: a segment that is being closed beside the one that is written, a connection that is
# being made
_SPARE_DESCRIPTORS = 8
_LETTERS = "abcdefghijklmnop"
_PAIRS = "".join(f"(?<{letter}>..)" for letter in _LETTERS)
_TEXT = " ".join(
    [
        *(f"${one}${other}" for one, other in pairwise(_LETTERS)),
        *(f"${letter}" for letter in _LETTERS),
    ]
)
_DOWN = "".join(f"<a href=${{uri}}{digit}>${{b}}{digit}</a> " for digit in range(10))
_PAGE = "<!DOCTYPE html><html lang=en><title>$words</title><p>$words</p>"
_OTHER = "<a href=http://$other:$server_port$uri>other</a></html>"
SITE = f"""
  if ($host ~ "^127\\.1\\.(?<x>\\d+)\\.(?<y>\\d+)$") {{ set $other 127.1.$y.$x; }}
  if ($request_id ~ "^{_PAIRS}") {{ set $words "{_TEXT}"; }}
  default_type text/html;
  location = /robots.txt {{ default_type text/plain; return 200 "User-agent: *\nDisallow: /private/\n"; }}
  location ~ "^/\\d{{0,2}}$" {{ return 200 "{_PAGE}{_DOWN}{_OTHER}"; }}
  location ~ "^/\\d{{3}}$" {{ return 200 "{_PAGE}<a href=/>up</a> {_OTHER}"; }}
  location / {{ return 404; }}
"""


class Moment(NamedTuple):
    """Requests that the server had answered, and what each process had then, by its part."""

    requests: int
    parts: dict[str, Sample]


def seeds(port: int) -> str:
    """The first page of each host, one a line."""
    return "".join(f"http://127.1.{n // _SIDE}.{n % _SIDE}:{port}/\n" for n in range(_HOSTS))


def watch(
    site: NginxSite, work: Path, pages: int, workers: int, sample_s: float
) -> tuple[list[Moment], float, int]:
    """Crawls so many pages; gives what was seen meanwhile every ``sample_s``, the seconds that it
    took, the exit code.
    """
    seed_file = work / "seeds"
    seed_file.write_text(seeds(site.port))
    limits = [
        "--workers",
        str(workers),
        "--memory",
        f"{_WORKER_MB * workers}MB",
        "--max-pages",
        str(pages),
        "--set",
        "frontier.finish_wait_s=1",
        "--set",
        "store.segment_bytes=100MB",
    ]
    began, moments = time.monotonic(), []
    running = RunningCrawl(
        work / "crawl", ["--seeds", str(seed_file), *FAST, *limits], work / "crawl.out"
    )
    log = Lines(site.folder / "access.log")
    with (work / "samples.csv").open("w") as file:
        table = csv.writer(file)
        table.writerow(["seconds", "requests", "part", *Sample._fields])
        while running.runs_for(sample_s) and time.monotonic() - began < _MOST_S:
            moment = Moment(log.number(), look(running.process.pid))
            moments.append(moment)
            for part, sample in moment.parts.items():
                table.writerow([round(time.monotonic() - began, 1), moment.requests, part, *sample])
            file.flush()
    return moments, time.monotonic() - began, running.finish(60)


def judge(moments: list[Moment], pages: int, part_of: float = 0.1) -> tuple[list[str], list[str]]:
    """Compares the first and the last part of the pages. Gives a table and what is wrong."""
    fetching = [moment for moment in moments if moment.requests < moments[-1].requests]
    warm, end = pages * _WARM, moments[-1].requests
    first = [moment for moment in fetching if warm < moment.requests <= warm + pages * part_of]
    last = [moment for moment in fetching if moment.requests >= end - pages * part_of]
    report, wrong = [], []
    for part in sorted({part for moment in moments for part in moment.parts}):
        early, late = _of(first, part), _of(last, part)
        if not early or not late:
            continue
        before, after = (
            statistics.mean(s.own_mb for s in early),
            statistics.mean(s.own_mb for s in late),
        )
        files = [statistics.mean(s.mapped_mb for s in samples) for samples in (early, late)]
        opened = [max(s.descriptors for s in samples) for samples in (early, late)]
        more = (after / before - 1) * 100
        report.append(
            f"{part}: {before:.1f} -> {after:.1f} MB ({more:+.1f} %), mapped files {files[0]:.1f}"
            f" -> {files[1]:.1f} MB, most descriptors {opened[0]} -> {opened[1]}; most memory ever"
            f" {max(s.own_mb for s in _of(moments, part)):.1f} MB"
        )
        if after > before * (1 + _GROWTH):
            wrong.append(f"{part}: memory grew by {more:.1f} %")
        if opened[1] > opened[0] + _SPARE_DESCRIPTORS:
            wrong.append(f"{part}: descriptors grew from {opened[0]} to {opened[1]}")
    return report, wrong


def _of(moments: list[Moment], part: str) -> list[Sample]:
    return [moment.parts[part] for moment in moments if part in moment.parts]


def prove(work: Path, short: bool, pages: int = 0, workers: int = 2) -> list[str]:
    """Watches one crawl; gives the lines of its report. Raises ``AssertionError``."""
    pages = pages or (1_000 if short else 1_000_000)
    total = int(pages * (1 + _WARM))
    assert total <= _HOSTS * _TREE, f"the site has {_HOSTS * _TREE} pages"
    root = work / "empty"
    root.mkdir()
    with NginxSite(work / "nginx", root, ("0.0.0.0",), extra=SITE) as site:
        sample_s = _SHORT_SAMPLE_S if short else _SAMPLE_S
        moments, seconds, code = watch(site, work, total, workers, sample_s)
    assert code == 3, f"the crawl ended with {code}:\n{(work / 'crawl.out').read_text()[-3000:]}"
    report, wrong = judge(moments, pages, 0.4 if short else 0.1)
    report.insert(
        0,
        f"{total} pages in {seconds:.0f} s ({total / seconds:.0f} a second) by {workers} workers,"
        f" {len(moments)} looks",
    )
    # In the short form a child may start too late to be in the first part.
    seen = {part for moment in moments for part in moment.parts} if short else report[1:]
    assert len(seen) == 1 + 2 * workers, f"processes are missing: {sorted(seen)}, {report}"
    assert short or not wrong, "\n".join([*report, *wrong])
    return report
