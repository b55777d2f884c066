"""Kills: one crawl by several workers during which processes are killed at random, again and again,
ends like one left in peace.

nginx serves the PostgreSQL manual under nine host names at four addresses, with a front page that
links to all of them, so that every worker finds URLs for the others. One crawl is left alone; the
other is hit by ``kill -9`` so many times at moments that a seed draws: mostly one worker, now and
then the supervisor or everything, and then the same command is given again. Some hits come while a
worker that was hit before is still being brought back, or in the second after the start.

Then both must have come to the same URLs in the same states with the same bodies; ``lycosa audit``
must find nothing; no fetch may have two captures; WARC, CDXJ and Parquet must agree; and by nginx's
log as by ours no host and no address was pressed.

A third crawl of the same site is run by one worker, then three, then two, each with ``--max-pages``
and a worker killed on the way: the captures are exactly as many as allowed each time, and when the
limit is gone the end is the same again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from lycosa.inspect.committed_state import read_folder
from lycosa.state.attempts import address_use, gaps, read_attempts
from nginx_site import RESOLUTION_S, Hit, NginxSite, write_tree
from proofs.completeness import link_documentation
from proofs.crawls import RunningCrawl, Whom
from proofs.durability import audit
from proofs.outputs import Outputs
from proofs.politeness import CUT_S, judge_hits, near_starts
from proofs.watching import Lines

HOSTS = tuple(
    f"{name}.test"
    for name in ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heath", "iris")
)
ADDRESSES = tuple(f"127.0.0.{number}" for number in range(1, 5))
DELAY_S, ADDRESS_DELAY_S, ADDRESS_SLOTS = 0.05, 0.01, 4
# The first four are those of the short form.
_WHOM = [Whom.WORKER, Whom.SUPERVISOR, Whom.WORKER, Whom.ALL, *[Whom.WORKER] * 6]


class Hits(NamedTuple):
    """What the kills did: how often each part was hit, and how many audits of what they left
    were clean.
    """

    whom: Counter[str]
    audits: int


def arguments(site: NginxSite, workers: int) -> list[str]:
    """Small delays that are kept all the same, small segments, commits every third of a second."""
    settings = {
        "politeness.address_delay_s": ADDRESS_DELAY_S,
        "politeness.adaptive_factor": 0,
        "politeness.jitter": 0,
        # what a host rests whose request was cut off: the longest ordinary delay
        "politeness.max_crawl_delay_s": 0.5,
        "politeness.max_adaptive_delay_s": 0.5,
        "store.segment_bytes": 2_000_000,
        "store.commit_s": 0.3,
        "frontier.finish_wait_s": 5,
    }
    pins = [f"{host}={ADDRESSES[number % len(ADDRESSES)]}" for number, host in enumerate(HOSTS)]
    return [
        *(f"http://{host}:{site.port}/" for host in HOSTS),
        *("--delay", f"{DELAY_S}s", "--workers", str(workers)),
        *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
        *(word for pin in pins for word in ("--resolve", pin)),
    ]


def make_site(root: Path, pages: int, port_mark: str = "@PORT@") -> None:
    """The manual, or ``pages`` made pages; the front page links to the other hosts, at the port
    that nginx puts in.
    """
    if pages or link_documentation(root, ("pg",)):
        write_tree(root, pages or 1000, seed=5)
    front = root / "index.html"
    links = "".join(f'<a href="http://{host}:{port_mark}/">{host}</a> ' for host in HOSTS)
    front.write_text(front.read_text().replace("</ul>", f"</ul>{links}"))


def site_of(folder: Path, root: Path) -> NginxSite:
    """nginx over that site."""
    return NginxSite(
        folder, root, ADDRESSES, extra='sub_filter "@PORT@" "$server_port"; sub_filter_once off;'
    )


def disturb(
    site: NginxSite, work: Path, kills: int, expected: int, workers: int, seed: int = 11
) -> Hits:
    """Runs one crawl to its end through so many kills. ``expected`` is the number of requests of
    an undisturbed one.
    """
    chance, done = random.Random(seed), Hits(Counter(), 0)
    folder, log = work / "killed", work / "killed.out"
    whoms = [_WHOM[number % len(_WHOM)] for number in range(kills)]
    chance.shuffle(whoms)
    moments = sorted(chance.uniform(0.01, 0.9) for _ in range(kills))
    lines = Lines(site.folder / "access.log")
    before = lines.number()
    running = RunningCrawl(folder, arguments(site, workers), log)
    for number, (moment, whom) in enumerate(zip(moments, whoms, strict=True)):
        target = before + int(expected * moment)
        assert running.runs_until(lambda target=target: lines.number() >= target, 120), (
            f"ended before kill {number}: {_tail(log)}"
        )
        running.runs_for(chance.uniform(0.0, 0.5))
        assert whom is not Whom.WORKER or running.runs_until(running.workers), (
            f"no worker for kill {number}: {_tail(log)}"
        )
        running.kill(whom, chance.randrange(workers))
        done.whom[whom.value] += 1
        if whom is not Whom.WORKER:
            if number % 3 == 0:
                audit(folder)
                done = done._replace(audits=done.audits + 1)
            running = RunningCrawl(folder, arguments(site, workers), log)
    code = running.finish(1200)
    assert code == 0, (code, _tail(log))
    return done


def deal_again(site: NginxSite, work: Path, pages: int) -> list[str]:
    """One crawl by one worker, three and two, with limits and kills; ``pages`` is what there is.
    Gives what is wrong.
    """
    folder, log, wrong = work / "dealt", work / "dealt.out", []
    lines = Lines(site.folder / "access.log")
    for workers, share in ((1, 0.3), (3, 0.6), (2, 0.8)):
        limit, before = int(pages * share), lines.number()
        running = RunningCrawl(folder, [*arguments(site, workers), "--max-pages", str(limit)], log)
        running.runs_until(lambda before=before: lines.number() > before + pages * 0.1)
        running.kill(Whom.WORKER, 1)
        code = running.finish()
        captures = sum(row["kind"] != "robots" for row in Outputs(folder).rows)
        if (code, captures) != (3, limit):
            wrong.append(
                f"{workers} workers with a limit of {limit} captures ended with {captures} and code"
                f" {code}: {_tail(log)}"
            )
    if RunningCrawl(folder, arguments(site, 3), log).finish() != 0:
        wrong.append(f"the last run failed: {_tail(log)}")
    return wrong


def differences(calm: Path, other: Path) -> list[str]:
    """URLs that are not in the same state with the same body in both crawls."""
    one, two = _ends(calm), _ends(other)
    return [
        f"{url}: {one.get(url)} undisturbed, {two.get(url)} disturbed"
        for url in sorted(one.keys() | two.keys())
        if one.get(url) != two.get(url)
    ]


def _ends(folder: Path) -> dict[str, tuple[Any, ...]]:
    states = {entry.url: entry.state.label for entry in read_folder(folder).urls()}
    bodies = {
        row["url"]: (row["fetch_status"], row["content_digest"])
        for row in Outputs(folder).rows
        if row["kind"] != "robots"
    }
    return {url: (state, *bodies.get(url, ())) for url, state in states.items()}


def judge_files(folder: Path) -> list[str]:
    """What is wrong with the outputs of a crawl."""
    outputs = Outputs(folder)
    return [
        *(
            f"{url} has more than one capture of its fetch {number}"
            for url, number in outputs.captured_twice()
        ),
        *outputs.disagreements(),
        *(f"{path} is still open" for path in outputs.open_files),
    ]


def judge_politeness(hits: Iterable[Hit], folder: Path) -> tuple[list[str], list[str]]:
    """What the server's log and ours say. Gives a report and what is wrong."""
    seen, attempts = list(hits), list(read_attempts(folder / "log"))
    server, uses = judge_hits(seen), address_use(attempts)
    least_gap, least_start = (
        min(gap.gap_s for gap in gaps(attempts)),
        min(use.min_gap_s for use in uses),
    )
    most = max(use.most_at_once for use in uses)
    near = near_starts(seen, attempts, ADDRESS_DELAY_S)
    report = [
        (
            f"requests: {len(seen)} in the access log, {len(attempts)} in the attempt log,"
            f" {sum(not a.is_finished for a in attempts)} cut off"
        ),
        (
            f"access log: least pause of a host {server.min_gap_s:.4f} s, at most"
            f" {server.most_at_once} open at an address; {len(near)} starts read nearer than the"
            " address delay, which the attempt log judges: a server reads late"
        ),
        (
            f"attempt log: least pause of a host {least_gap:.6f} s, least time between starts at an"
            f" address {least_start:.6f} s, at most {most} open at one"
        ),
    ]
    wrong = [
        *(
            ["the access log has a pause that is too short"]
            if server.min_gap_s < DELAY_S - RESOLUTION_S
            else []
        ),
        *(["the attempt log has a pause that is too short"] if least_gap < DELAY_S - CUT_S else []),
        *(
            ["the attempt log has two starts at an address that are too near"]
            if least_start < ADDRESS_DELAY_S - CUT_S
            else []
        ),
        *(
            [f"{most} and {server.most_at_once} requests were open at an address"]
            if max(most, server.most_at_once) > ADDRESS_SLOTS
            else []
        ),
    ]
    return report, wrong


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]


def prove(work: Path, short: bool, kills: int = 0, workers: int = 3) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    kills = kills or (4 if short else 100)
    root = work / "site"
    make_site(root, 25 if short else 0)
    with site_of(work / "nginx", root) as site:
        calm = RunningCrawl(work / "calm", arguments(site, workers), work / "calm.out")
        assert calm.finish(1200) == 0, _tail(work / "calm.out")
        requests = len(site.hits())
        done = disturb(site, work, kills, requests, workers)
        hits = site.hits()[requests:]
        wrong = deal_again(site, work, len(_ends(work / "calm")))
    told = Counter(
        line.rsplit("(", 1)[1].split(")")[0]
        for line in (work / "killed.out").read_text().splitlines()
        if " died (" in line
    )
    report, pressed = judge_politeness(hits, work / "killed")
    wrong += [*pressed, *differences(work / "calm", work / "dealt"), *judge_files(work / "dealt")]
    wrong += [*differences(work / "calm", work / "killed"), *judge_files(work / "killed")]
    repeats = sum(number - 1 for number in Counter((hit.host, hit.target) for hit in hits).values())
    report = [
        (
            f"{workers} workers, {len(HOSTS)} hosts; undisturbed {requests} requests, killed"
            f" {len(hits)} of which {repeats} repeated"
        ),
        (
            f"kills: {sum(done.whom.values())}"
            f" ({', '.join(f'{number} of {whom}' for whom, number in sorted(done.whom.items()))});"
            f" workers brought back by their supervisor: {dict(told)}"
        ),
        *report,
        (
            f"{len(_ends(work / 'killed'))} URLs in the same states with the same bodies"
            if not wrong
            else f"{len(wrong)} things are wrong"
        ),
        (
            "by one worker, three, two and three, with exact limits and kills: the same;"
            f" {audit(work / 'dealt')}"
        ),
        f"audits on the way: {done.audits}, the last one: {audit(work / 'killed')}",
    ]
    assert not wrong, "\n".join([*report, *wrong[:30]])
    return report
