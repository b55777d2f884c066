"""One host keeps the robots.txt of many: it is asked once at a time and after its delay, whatever
worker owns whom.

Real processes over loopback. Hosts of as many sites answer for robots.txt with a redirect to a hub,
which takes its time for each answer. Two witnesses must show no pause at the hub shorter than the
delay and no two requests at once: the server's log and ``lycosa audit``, which reads the attempt
logs. Run with 1, 2 and 4 workers; the long form has 24 hosts, a delay of 5 s and a hub that needs 2
s.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from lycosa.synthetic import Response
from serving import served_with_log

HUB = "hub.test"
CUT_S = (
    0.001  # what a busy machine may take between the end that a client sees and the server's stamp
)


class HubWeb:
    """Hosts ``s<n>.example`` whose robots.txt is at the hub, with one page each, and the hub."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        parts = urlsplit(url)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
        if host == HUB and parts.path.startswith("/r-"):
            return Response(
                200,
                [("Content-Type", "text/plain")],
                b"User-agent: *\nDisallow: /no\n",
                self._latency_s,
            )
        if parts.path == "/robots.txt" and host != HUB:
            return Response(302, [("Location", f"http://{HUB}{port}/r-{host}")])
        if parts.path == "/":
            return Response(200, [("Content-Type", "text/html")], b'<a href="/no">no</a>')
        return Response(404, [("Content-Type", "text/html")], b"nothing")


def prove(work: Path, short: bool = False) -> list[str]:
    """Gives what was shown, a line for each number of workers. Raises ``AssertionError``."""
    hosts, delay_s, latency_s = (8, 0.25, 0.1) if short else (24, 5.0, 2.0)
    return [
        _line(work / f"crawl-{workers}", workers, hosts, delay_s, latency_s)
        for workers in (1, 2, 4)
    ]


def _line(folder: Path, workers: int, hosts: int, delay_s: float, latency_s: float) -> str:
    with served_with_log(HubWeb(latency_s), pace=1.0) as (port, log):
        seeds = [f"http://s{number}.example:{port}/" for number in range(hosts)]
        crawl = [
            sys.executable,
            "-m",
            "lycosa",
            "crawl",
            *seeds,
            "--dir",
            str(folder),
            "--workers",
            str(workers),
            "--delay",
            f"{delay_s}s",
        ]
        crawl += [
            "--resolve",
            "*=127.0.0.1",
            "--allow-address",
            "127.0.0.0/8",
            "--contact",
            "test@example.org",
            "--json",
        ]
        crawl += [
            "--set",
            "politeness.adaptive_factor=0",
            "--set",
            "politeness.address_delay_s=0",
            "--set",
            "politeness.address_slots=64",
        ]
        done = subprocess.run(crawl, capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["captures"] == hosts, done.stdout
        gaps, requests = log.gaps(HUB), log.of_host(HUB)
    most = max(sum(each.start <= one.start < each.end for each in requests) for one in requests)
    told = (
        f"{workers} workers, {hosts} hosts, delay {delay_s:g} s: {len(requests)} requests to"
        " the hub"
    )
    told += (
        f", {sum(gap < delay_s - CUT_S for gap in gaps)} of {len(gaps)} pauses short, shortest"
        f" {min(gaps):.3f} s, most at once {most}"
    )
    assert len(requests) == hosts and min(gaps) >= delay_s - CUT_S and most == 1, told
    audit = subprocess.run(
        [sys.executable, "-m", "lycosa", "audit", str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert audit.returncode == 0, audit.stdout + audit.stderr
    return f"{told}; audit clean"
