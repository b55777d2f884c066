"""Servers, the crawl's own network, and name servers that are away for 5 s to 2 h, of one host, of
some and of all: every URL is fetched in the end, and nobody is asked more than politeness allows.

Most of it is virtual time: a synthetic web, real workers, a clock that jumps. What is away, from
when and for how long, follows from the seed of a case; ``script/prove outages --first SEED --seeds
1`` repeats its cases. A run that ends because its hosts are away is followed by another one half an
hour later, as by cron. Judged are: the outcome of each URL and the captures, by the web's own
survey; the delay of each host between any two attempts, failed ones included; and the number of
attempts at a host while it is away, which grows with the logarithm of the time.

One case is real processes: a server on a socket is stopped and started again under
``lycosa crawl``, for seconds.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import tempfile
import threading
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import Any

import msgspec

from absences import Absence, Attempt, AwayFetcher, AwayQuery, away_by
from histories import judge_end
from judging import asked, is_polite, new_folder, quick_config
from lycosa.base.config.sections import Config, DnsSection
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.cli.output import ExitCode
from lycosa.inspect.committed_state import read_folder
from lycosa.stages.fetch.dns import CachingResolver
from lycosa.synthetic import SyntheticResolver, SyntheticWeb, WebPlan
from lycosa.synthetic.synthetic_hosts import host_name
from lycosa.synthetic.synthetic_server import SyntheticServer
from proofs.crawls import RunningCrawl, crawl
from several_workers import run_workers
from virtual_crawl import VirtualCrawl

_KINDS = ("one host", "a third", "all hosts", "one name", "all names", "network")
_LENGTHS_S = (5.0, 20.0, 120.0, 900.0, 7200.0)
_REASONS = (
    Reason.CONNECT_REFUSED,
    Reason.CONNECT_TIMEOUT,
    Reason.NETWORK_UNREACHABLE,
    Reason.TLS_FAILED,
)
_NAME_REASONS = (Reason.DNS_TIMEOUT, Reason.DNS_FAILED)
_HOSTS, _PAGES, _FEW_PAGES = 9, 30, 12  # few in the short form
_SEEDS, _SHORT = 6, 1
_MOST_RUNS, _BETWEEN_S = 30, 1800.0
_REAL_S = 4.0


class Case(msgspec.Struct, frozen=True):
    """What is away in one crawl, and how its crawl went."""

    kind: str
    lasts_s: float
    seed: int
    pages: int = _PAGES
    workers: int = 0
    runs: int = 0
    urls: int = 0
    attempts: int = 0
    late_s: float = 0.0
    wrong: str = ""


def absences_of(case: Case, hosts: list[str], chance: random.Random) -> list[Absence]:
    """Drawn: when it begins, who is away, and how that looks."""
    # a page a second and host
    start, reason = chance.uniform(3.0, case.pages - 5.0), chance.choice(_REASONS)
    name_reason = chance.choice(_NAME_REASONS)
    one, third = frozenset({chance.choice(hosts)}), frozenset(chance.sample(hosts, 3))
    lasts = case.lasts_s
    if case.kind == "one host":
        return [Absence(start, lasts, reason, one)]
    if case.kind == "a third":
        begins = [start + chance.uniform(0.0, min(lasts, case.pages)) for _ in third]
        return [
            Absence(begin, lasts, chance.choice(_REASONS), frozenset({host}))
            for begin, host in zip(begins, sorted(third), strict=True)
        ]
    if case.kind == "all hosts":
        return [Absence(start, lasts, reason)]
    if case.kind == "one name":
        return [Absence(0.0, lasts, name_reason, one, names=True)]
    if case.kind == "all names":
        return [Absence(start, lasts, name_reason, names=True)]
    return [Absence(start, lasts, reason), Absence(start, lasts, name_reason, names=True)]


def live(folder: str, case: Case) -> Case:
    """One crawl to its end, over as many runs as it takes."""
    chance = random.Random(f"{case.kind} {case.lasts_s} {case.seed}")
    web = SyntheticWeb(
        WebPlan(
            seed=case.seed,
            hosts=_HOSTS,
            pages=case.pages,
            page_bytes=300,
            links=8,
            cross_links=0.2,
            gone=0.03,
        )
    )
    seeds = [web.seed_url(number) for number in range(3)]
    hosts = [host_name(number) for number in range(_HOSTS)]
    absences = absences_of(case, hosts, chance)
    end = max(each.start + each.lasts_s for each in absences)
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as work:
        crawl = VirtualCrawl(new_folder(Path(work) / "c"), web, quick_config(seed=case.seed))
        attempts: list[Attempt] = []
        is_away = away_by(absences, names=False)
        crawl.wrap = lambda inner: AwayFetcher(inner, crawl.clock, is_away, attempts)
        names = SyntheticResolver(web.hosts, crawl.clock, hosts_per_address=1.0)
        query = AwayQuery(names, crawl.clock, away_by(absences, names=True), ttl_s=60.0)
        crawl.resolver = CachingResolver(DnsSection(), crawl.clock, query)
        workers, required, runs = chance.choice((1, 2)), web.survey(seeds).requested, 0
        wrong = ""
        try:
            while runs < _MOST_RUNS:
                run_workers(crawl, workers, seeds if not runs else ())
                runs += 1
                if required <= set(asked(crawl.log)) and crawl.now > end:
                    break
                crawl.now += _BETWEEN_S
            judge_end(crawl, web, seeds)
            judge_attempts(crawl.config, attempts, absences)
        except Exception as error:
            wrong = f"{case.kind} {case.lasts_s:g} s, seed {case.seed}: {type(error).__name__}: "
            wrong += str(error)[:600]
        return msgspec.structs.replace(
            case,
            workers=workers,
            runs=runs,
            urls=len(required),
            attempts=sum(each.was_away for each in attempts),
            late_s=max(crawl.now - end, 0.0),
            wrong=wrong,
        )


def judge_attempts(config: Config, attempts: list[Attempt], absences: list[Absence]) -> None:
    """No host had two attempts within its delay, or at once; one that was away had few."""
    by_host: dict[str, list[Attempt]] = defaultdict(list)
    for each in sorted(attempts, key=lambda each: each.start):
        by_host[each.host].append(each)
    for host, made in by_host.items():
        for before, after in pairwise(made):
            gap_s = after.start - before.end
            assert gap_s >= config.politeness.delay_s - 1e-6, ("delay", host, gap_s)
        for absence in absences:
            if absence.names or (absence.hosts and host not in absence.hosts):
                continue
            number = sum(absence.holds(host, each.start) and each.was_away for each in made)
            most = most_attempts(config, absence)
            assert number <= most, ("attempts", host, number, most)


def most_attempts(config: Config, absence: Absence) -> int:
    """How often a host may be tried while it is away: at doubling intervals, the first 10 s.

    While everything is away, at intervals of two minutes at most. Its robots.txt may be tried as
    well, at doubling intervals of its own.
    """
    retry, lasts = config.retry, absence.lasts_s
    doubling = log2(lasts / retry.first_s + 1) + lasts / retry.max_s + 2
    if not absence.hosts:
        doubling += lasts / 120.0
    return int(2 * doubling)


def table(cases: list[Case]) -> list[str]:
    """A line for each kind and length: the worst of its cases."""
    lines = [f"{'away':12}{'for':>8}{'cases':>7}{'URLs':>8}{'attempts':>10}{'runs':>6}{'then':>9}"]
    for kind in _KINDS:
        for lasts in sorted({each.lasts_s for each in cases if each.kind == kind}):
            those = [each for each in cases if (each.kind, each.lasts_s) == (kind, lasts)]
            lines.append(
                f"{kind:12}{lasts:>6g} s{len(those):>7}{sum(each.urls for each in those):>8,}"
                f"{max(each.attempts for each in those):>10,}{max(each.runs for each in those):>6}"
                f"{max(each.late_s for each in those):>7,.0f} s"
            )
    return [
        *lines,
        "attempts: at hosts that were away, over all hosts; runs: starts of the command; then: time"
        " after the absence until the crawl was complete (the most of all cases of the line)",
    ]


# -- real processes


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def restart(work: Path, away_s: float) -> str:
    """A server that is stopped and started again, under a real crawl of four hosts."""
    web = SyntheticWeb(WebPlan(seed=1, hosts=4, pages=12, page_bytes=300, cross_links=0.2))
    addresses = [f"127.0.7.{number + 1}" for number in range(4)]
    server, folder = SyntheticServer(web, addresses=addresses, pace=0.0), work / "real"
    with _loop() as loop:

        def wait_for(what: Coroutine[Any, Any, None]) -> None:
            asyncio.run_coroutine_threadsafe(what, loop).result(30)

        wait_for(server.start())
        seeds = [web.seed_url(number, server.port) for number in range(4)]
        pins = [f"{host_name(number)}={addresses[number]}" for number in range(4)]
        options = ["--scope", "any", "--delay", "0.3s", "--set", "retry.first_s=1s"]
        options += [part for pin in pins for part in ("--resolve", pin)]
        try:
            running = RunningCrawl(folder, [*options, *seeds], work / "real.out")
            assert running.runs_until(lambda: len(server.log) >= 16), "the crawl ended too early"
            before = len(server.log)
            wait_for(server.stop())
            running.runs_for(away_s)
            wait_for(server.start())
            code = running.finish(300)
        finally:
            wait_for(server.stop())
    said = (work / "real.out").read_text(errors="replace")
    assert code == ExitCode.FINISHED, said[-3000:]
    wanted = web.survey(seeds)
    entries = read_folder(folder).urls()
    fetched = {each.url for each in entries if each.record.state is UrlState.FETCHED}
    assert fetched == wanted.pages | wanted.others, fetched ^ (wanted.pages | wanted.others)
    politeness = msgspec.structs.replace(Config().politeness, delay_s=0.3)
    is_polite(server.log, politeness)
    again = crawl(folder, *options)  # a later start has nothing to do
    assert again.code == ExitCode.FINISHED and "nothing was due" in again.out, again.out
    return (
        f"real processes: server away for {away_s:g} s after {before} requests;"
        f" {len(fetched)} of {len(fetched)} URLs fetched, exit code {code}"
    )


def prove(work: Path, short: bool, seeds: int = 0, first: int = 0) -> list[str]:
    """Raises ``AssertionError`` with the cases that broke a promise."""
    seeds = seeds or (_SHORT if short else _SEEDS)
    cases = [
        Case(kind, lasts, seed, _FEW_PAGES if short else _PAGES)
        for seed in range(first, first + seeds)
        for number, kind in enumerate(_KINDS)
        for lasts in (
            # one length for each kind, and all lengths over the kinds
            _LENGTHS_S[(number + 1 + seed) % 5 :][:1] if short else _LENGTHS_S
        )
    ]
    if short:  # beside other tests
        lived = [live(str(work), case) for case in cases]
    else:
        spawning = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(os.cpu_count(), spawning) as pool:
            lived = list(pool.map(partial(live, str(work)), cases))
    wrong = [each.wrong for each in lived if each.wrong]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(lived)} cases failed", *wrong])
    noticed = {each.kind for each in lived if each.attempts}
    assert noticed >= {"one host", "a third", "all hosts", "network"}, noticed
    return [*table(lived), restart(work, _REAL_S)]
