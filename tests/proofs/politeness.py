"""Politeness at rate: nobody is pressed, across a kill and a restart, and no time is wasted either.

One site under many host names of as many sites on ten loopback addresses. Two witnesses, the
server's access log and our attempt log, must each show for every host that the next request starts
at least the delay after the end of the one before, and for every address that starts lie at least
the address delay apart and at most so many requests are open.

The rate. An address with hosts h can do, for robots.txt and pages together,

    min( 1 / address delay,  sum over its hosts of 1 / (delay x (1 + jitter / 2) + mean duration of
    a fetch) )

requests a second, since the jitter is uniform in [0, jitter]. The sum over the addresses is the
computed maximum. The achieved rate is the number of requests divided by the time from the first
start to the last one and one address delay (so many gaps as requests), of both phases (before the
kill, after it) together: ramp-up counts, only the restart itself does not.

The long form has 20 hosts at each address, so that addresses are what is short; in the short form
half of the addresses have four hosts each, so that there the hosts are. A test may run beside
others on a busy machine, so the short form asks for less of the rate and allows more late stamps;
what we promise (pauses, starts, requests at once) is held to the millisecond in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from lycosa.state.attempts import Attempt, address_use, gaps, read_attempts
from nginx_site import RESOLUTION_S, Hit, NginxSite, write_tree
from proofs.completeness import link_documentation
from proofs.crawls import RunningCrawl, Whom

DELAY_S, JITTER, ADDRESS_DELAY_S, ADDRESS_SLOTS = 1.0, 0.1, 0.2, 4
CUT_S = 2e-6  # times in the attempt log are cut to microseconds
ADDRESSES = tuple(f"127.0.0.{number}" for number in range(1, 11))


class Pressed(NamedTuple):
    """What one witness says: least pause of any host, least time between two starts at any
    address, most requests open at any address.
    """

    min_gap_s: float
    least_start_s: float
    most_at_once: int


class Phase(NamedTuple):
    """A run of the crawl without interruption: requests, seconds from the first start to the
    last, requests a second and what could be.
    """

    requests: int
    seconds: float
    rate: float
    maximum: float


def judge_hits(hits: list[Hit]) -> Pressed:
    """The server's testimony, in milliseconds."""
    hosts: dict[str, list[Hit]] = {}
    addresses: dict[str, list[Hit]] = {}
    for hit in hits:
        hosts.setdefault(hit.host, []).append(hit)
        addresses.setdefault(hit.address, []).append(hit)
    pauses = [
        later.start - earlier.end
        for each in hosts.values()
        for earlier, later in pairwise(sorted(each))
    ]
    starts = [
        later.start - earlier.start
        for each in addresses.values()
        for earlier, later in pairwise(sorted(each))
    ]
    return Pressed(min(pauses), min(starts), max(_max_at_once(each) for each in addresses.values()))


class Near(NamedTuple):
    """Two starts at an address that the server read too near to each other, and how long it let
    the first one wait for its answer.
    """

    gap_s: float
    waited_s: float


def near_starts(
    hits: list[Hit], attempts: list[Attempt], delay_s: float = ADDRESS_DELAY_S
) -> list[Near]:
    """A server stamps a request when it reads it; a busy one reads late, and then the next one
    seems near. We sent the first one ``waited_s`` before its answer had come, so its true start lay
    at most so much before the stamp.
    """
    waits: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in attempts:
        waits.setdefault(
            (attempt.host.partition(":")[0], "/" + attempt.url.split("/", 3)[3]), []
        ).append(attempt)
    addresses: dict[str, list[Hit]] = {}
    for hit in hits:
        addresses.setdefault(hit.address, []).append(hit)
    found = []
    for each in addresses.values():
        for earlier, later in pairwise(sorted(each)):
            gap_s = later.start - earlier.start
            if gap_s < delay_s - RESOLUTION_S:
                # none when a disk that failed took the log's last lines
                known = waits.get((earlier.host, earlier.target), [])
                sent = min(
                    (attempt.started_wall for attempt in known),
                    key=lambda at: abs(at - earlier.start),
                    default=earlier.start,
                )
                found.append(Near(gap_s, max(earlier.start - sent, 0.0)))
    return sorted(found)


def judge_attempts(attempts: list[Attempt]) -> Pressed:
    """Our own testimony, in microseconds."""
    uses = address_use(attempts)
    return Pressed(
        min(gap.gap_s for gap in gaps(attempts)),
        min(use.min_gap_s for use in uses),
        max(use.most_at_once for use in uses),
    )


def phase_of(attempts: Iterable[Attempt]) -> Phase:
    """The rate of one run against the maximum."""
    run = sorted((attempt for attempt in attempts), key=lambda attempt: attempt.started)
    seconds = run[-1].started - run[0].started
    by_host: dict[str, list[Attempt]] = {}
    for attempt in run:
        by_host.setdefault(attempt.host, []).append(attempt)
    capacity: dict[str, float] = {}
    for each in by_host.values():
        fetch_s = sum(attempt.duration_s for attempt in each) / len(each)
        address = each[0].address
        capacity[address] = capacity.get(address, 0.0) + 1 / (DELAY_S * (1 + JITTER / 2) + fetch_s)
    maximum = sum(min(1 / ADDRESS_DELAY_S, each) for each in capacity.values())
    return Phase(len(run), seconds, len(run) / (seconds + ADDRESS_DELAY_S), maximum)


def prove(work: Path, short: bool, seconds: float = 0.0, hosts: int = 200) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    seconds = seconds or (20.0 if short else 600.0)
    root = work / "site"
    if short or link_documentation(root):
        write_tree(root, 400)
    with NginxSite(work / "nginx", root, ADDRESSES) as site:
        names = [f"h{number:03d}.site{number:03d}.test" for number in range(hosts)]
        seeds = work / "seeds.txt"
        seeds.write_text("".join(f"http://{name}:{site.port}/\n" for name in names))
        pins = [f"{name}={_address(number, short)}" for number, name in enumerate(names)]
        arguments = [
            "--seeds",
            str(seeds),
            "--delay",
            f"{DELAY_S:g}s",
            *(word for pin in pins for word in ("--resolve", pin)),
        ]
        first = RunningCrawl(work / "crawl", arguments, work / "crawl.out")
        first.runs_until(lambda: len(site.hits()) > 0)
        assert first.runs_for(seconds / 2), (work / "crawl.out").read_text()
        first.kill(Whom.ALL)
        second = RunningCrawl(
            work / "crawl", [*arguments, "--max-time", f"{seconds / 2:g}s"], work / "crawl.out"
        )
        code = second.finish(seconds + 120)
        assert code == 3, (code, (work / "crawl.out").read_text())
        hits = site.hits()
    attempts = list(read_attempts(work / "crawl" / "log"))
    return _report(
        hits, attempts, least_share=0.75 if short else 0.95, most_near=0.02 if short else 0.001
    )


def _told(witness: str, pressed: Pressed) -> str:
    gap, start, most = pressed
    return (
        f"{witness}: least pause of a host {gap:.6f} s, least time between starts at an address"
        f" {start:.6f} s, at most {most} open at one"
    )


def _address(number: int, is_uneven: bool) -> str:
    """Evenly spread; or the first 20 hosts on the last five addresses, the others on the first
    five.
    """
    if not is_uneven:
        return ADDRESSES[number % len(ADDRESSES)]
    return ADDRESSES[5 + number % 5] if number < 20 else ADDRESSES[number % 5]


def _report(
    hits: list[Hit], attempts: list[Attempt], least_share: float, most_near: float
) -> list[str]:
    server, ours, near = judge_hits(hits), judge_attempts(attempts), near_starts(hits, attempts)
    runs = list(dict.fromkeys(attempt.run for attempt in attempts))
    phases = [phase_of(attempt for attempt in attempts if attempt.run == run) for run in runs]
    unfinished = sum(not attempt.is_finished for attempt in attempts)
    report = [
        (
            f"requests: {len(hits)} in the access log, {len(attempts)} in the attempt log"
            f" ({unfinished} cut off by the kill), {len({hit.host for hit in hits})} hosts,"
            f" {len({hit.address for hit in hits})} addresses"
        ),
        _told("access log", server),
        _told("attempt log", ours),
        (
            f"starts nearer than the address delay in the access log: {len(near)}, in each the"
            " server let the first one wait that much longer:"
            f" {[f'{each.gap_s:.3f} s after {each.waited_s:.3f} s' for each in near[:5]]}"
        ),
        *(
            f"phase {number}: {phase.requests} requests in {phase.seconds:.1f} s, {phase.rate:.2f}"
            f" a second of at most {phase.maximum:.2f}: {100 * phase.rate / phase.maximum:.1f} %"
            for number, phase in enumerate(phases, 1)
        ),
    ]
    share = sum(phase.requests for phase in phases) / sum(
        phase.maximum * (phase.seconds + ADDRESS_DELAY_S) for phase in phases
    )
    report.append(f"achieved rate: {100 * share:.1f} % of the computed maximum")
    told = "\n".join(report)
    assert server.min_gap_s >= DELAY_S - RESOLUTION_S, told
    assert all(each.gap_s + each.waited_s >= ADDRESS_DELAY_S - RESOLUTION_S for each in near), told
    assert len(near) <= len(hits) * most_near, told
    assert ours.min_gap_s >= DELAY_S - CUT_S, told
    assert ours.least_start_s >= ADDRESS_DELAY_S - CUT_S, told
    assert max(server.most_at_once, ours.most_at_once) <= ADDRESS_SLOTS, told
    assert len(phases) == 2, told
    assert share >= least_share, told
    return report


def _max_at_once(hits: list[Hit]) -> int:
    """Requests open at once; one that took less than the log can tell counts for its
    millisecond.
    """
    events = sorted(
        [
            *((hit.start, 1) for hit in hits),
            *((max(hit.end, hit.start + 0.0005), -1) for hit in hits),
        ]
    )
    most = open_now = 0
    for _, step in events:
        open_now += step
        most = max(most, open_now)
    return most
