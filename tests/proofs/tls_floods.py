"""Hosts that flood with TLS handshake messages take no time from the others.

Four good hosts, each with its delay, are crawled by one worker: once alone, and once with eight
hosts that send handshake messages without end, two of each kind. The rate of the good hosts is the
number of their requests, divided by the time from the first to the last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import trustme

from lycosa.state.attempts import read_attempts
from lycosa.state.folder.names import attempts_folder
from lycosa.synthetic import SyntheticWeb, WebPlan
from proofs.crawls import RunningCrawl, Whom
from serving import served_with_log
from tls_floods import flooding

LEAST_SHARE = 0.9
_GOOD = 4
_KINDS = ("hello requests", "single hello requests", "tickets", "key updates")
_POLITE = [
    *("--delay", "0.2s", "--set", "politeness.adaptive_factor=0"),
    *("--set", "politeness.address_delay_s=0.01", "--set", "politeness.jitter=0"),
    *("--resolve", "*=127.0.0.1", "--scope", "any"),
    *("--set", "robots.retry_s=1", "--set", "retry.first_s=1", "--set", "frontier.finish_wait_s=1"),
]


class Run(NamedTuple):
    """The good hosts' requests, their rate, and how the other hosts' requests ended."""

    requests: int
    rate: float
    missing: int
    outcomes: set[str]
    floods: int
    deaths: int


def prove(work: Path, short: bool) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    web = SyntheticWeb(
        WebPlan(seed=3, hosts=_GOOD, pages=10 if short else 120, cross_links=0, latency_s=0)
    )
    authority = trustme.CA()
    ca_file = work / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    names = [f"flood{number}.test" for number in range(2 * len(_KINDS))]
    issued = authority.issue_cert(*names)
    with contextlib.ExitStack() as floods:
        ports = [floods.enter_context(flooding(kind, issued)) for kind in _KINDS]
        seeds = [
            f"https://{name}:{ports[number % len(ports)]}/" for number, name in enumerate(names)
        ]
        trust = ["--set", f"fetch.ca_file={ca_file}"]
        alone = None if short else _crawl(work / "alone", web, [], trust)
        beside = _crawl(work / "beside", web, seeds, trust)
    report = [
        f"{beside.requests} requests to {_GOOD} good hosts beside {len(names)} that flood:"
        f" {beside.rate:.2f} a second; {beside.floods} requests to the others ended as"
        f" {', '.join(sorted(beside.outcomes))}; {beside.deaths} workers died"
    ]
    faults = []
    if alone is not None:
        share = beside.rate / alone.rate
        report.append(f"alone: {alone.requests} requests, {alone.rate:.2f} a second; {share:.1%}")
        if share < LEAST_SHARE:
            faults.append(f"the good hosts kept {share:.1%} of their rate")
    if beside.missing or beside.deaths:
        faults.append(f"{beside.missing} good pages are missing, {beside.deaths} workers died")
    if beside.outcomes != {"tls_failed"} or beside.floods < len(names):
        faults.append("a flood did not end as tls_failed")
    assert not faults, "\n".join([*report, *faults])
    return report


def _crawl(folder: Path, web: SyntheticWeb, floods: Sequence[str], more: Sequence[str]) -> Run:
    """A crawl until it has all good pages. Before that every host that floods was asked."""
    output = folder.with_suffix(".out")
    with served_with_log(web) as (port, log):
        seeds = [web.seed_url(number, port) for number in range(_GOOD)]
        wanted = web.reachable(seeds)
        crawl = RunningCrawl(folder, [*floods, *seeds, *_POLITE, *more], output)
        crawl.runs_until(lambda: wanted <= set(log.urls()), 120)
        crawl.process.terminate()
        try:
            crawl.finish(60)
        finally:
            crawl.kill(Whom.ALL)
        missing = wanted - set(log.urls())
        starts = [exchange.start for exchange in log.exchanges]
    ended = [
        attempt.outcome.label
        for attempt in read_attempts(attempts_folder(folder))
        if attempt.host.startswith("flood")
    ]
    return Run(
        len(starts),
        len(starts) / max(starts[-1] - starts[0], 1e-9),
        len(missing),
        set(ended),
        len(ended),
        output.read_text().count(" died ("),
    )
