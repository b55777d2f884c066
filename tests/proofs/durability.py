"""Durability: the order of syncs as the kernel saw it, and one crawl killed again and again that
ends like one left in peace.

The order, by ``strace``: for each commit the WARC and its journal are synced, then one record of
the commit log is written and synced, and until then nothing is acknowledged: what tells the
supervisor that seeds are taken leaves after the sync of the log that holds them.

The kills: ``kill -9`` of the worker, of the supervisor, of everything, at random moments; after
each, ``lycosa audit``.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from nginx_site import NginxSite, write_tree
from proofs.completeness import link_documentation
from proofs.crawls import FAST, LOOPBACK, LYCOSA, RunningCrawl, Whom, crawl, lycosa
from proofs.outputs import Outputs

_HOSTS = ("one.test", "two.test", "three.test", "four.test")
_CALL = re.compile(r"^(\d+)\s+(\d+\.\d+) (\w+)\((\d+)(?:<([^>]*)>)?(.*)$")
_RESUMED = re.compile(r"^(\d+)\s+(\d+\.\d+) <\.\.\. (\w+) resumed>.*= (-?\d+)")


class Call(NamedTuple):
    """A system call: who, which, on which file, its first bytes; lines of the trace where it
    began and where it had returned.
    """

    process: int
    name: str
    file: str
    data: str
    began: int
    ended: int


# -- the order of syncs


def trace(work: Path, site: NginxSite) -> list[Call]:
    """A crawl of the site under strace; gives the calls that make durable or tell, of all
    processes, as they began.
    """
    program = shutil.which("strace")
    assert program is not None, "strace is not installed"
    out = work / "trace.txt"
    calls = "trace=fdatasync,fsync,write,writev,pwrite64,sendto,sendmsg"
    command = [
        program,
        "-f",
        "-y",
        "-ttt",
        "-s",
        "24",
        "-e",
        calls,
        "-e",
        "signal=none",
        "-o",
        str(out),
    ]
    subprocess.run(
        [
            *command,
            *LYCOSA,
            "crawl",
            f"{site.base}/",
            "--dir",
            str(work / "traced"),
            *LOOPBACK,
            *FAST,
            "--set",
            "store.commit_s=0.2",
        ],
        check=True,
        timeout=300,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    return parse_trace(out.read_text(errors="replace").splitlines())


def parse_trace(lines: list[str]) -> list[Call]:
    """The calls; one that is interrupted by others has its end where it is resumed."""
    calls: list[Call] = []
    unfinished: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines):
        if match := _CALL.match(line):
            process, _, name, _, file, rest = match.groups()
            calls.append(Call(int(process), name, file or "", rest, number, number))
            if line.endswith("<unfinished ...>"):
                unfinished[process, name] = len(calls) - 1
        elif match := _RESUMED.match(line):
            place = unfinished.pop((match[1], match[3]), None)
            if place is not None:
                calls[place] = calls[place]._replace(ended=number)
    return calls


def judge_order(calls: list[Call], folder: Path) -> tuple[list[str], list[str]]:
    """Goes through the calls as they returned. Gives a report and what is wrong."""
    wrong: list[str] = []
    commits = told = 0
    dirty: set[str] = set()  # output files with bytes that are not synced
    unlogged = False  # a record of the commit log that is written and not synced
    outputs = (str(folder / "warc"), str(folder / "journal"))
    for call in sorted(calls, key=lambda call: call.ended):
        is_sync = call.name in ("fdatasync", "fsync")
        if call.file.startswith(outputs):
            dirty.discard(call.file) if is_sync else dirty.add(call.file)
        elif "/log/commit-w" in call.file and not is_sync and "LYCLOG" not in call.data:
            commits += 1
            unlogged = True
            if dirty:
                wrong.append(
                    f"commit {commits} was written to the log while {sorted(dirty)} were not synced"
                )
        elif "/log/commit-w" in call.file and is_sync:
            unlogged = False
        elif "SeedsTaken" in call.data:
            told += 1
            if unlogged or not commits:
                wrong.append(f"SeedsTaken was sent before the sync of commit {commits}")
        elif "/state/p" in call.file and ".log" in call.file and not is_sync and unlogged:
            wrong.append(f"a table was changed before the sync of commit {commits}")
    if not told:
        wrong.append("no SeedsTaken was seen")
    return [
        f"{commits} commits, {told} SeedsTaken; WARC and journal synced before each, the log before"
        " its tables and before SeedsTaken"
    ], wrong


def prove_order(work: Path, short: bool) -> list[str]:
    """The first half; gives the lines of its report. Raises ``AssertionError``."""
    root = work / "small"
    write_tree(root, 80 if short else 600, seed=2)
    with NginxSite(work / "nginx-small", root) as site:
        calls = trace(work, site)
    report, wrong = judge_order(calls, work / "traced")
    assert not wrong, "\n".join(wrong[:20])
    return report


# -- the kills


class Kills(NamedTuple):
    """What the kills did: whom they hit and after how many requests, and what the audits said."""

    hits: list[str]
    audits: list[str]


def kill_again_and_again(
    site: NginxSite, work: Path, kills: int, expected: int, workers: int, seed: int = 7
) -> Kills:
    """Runs one crawl to its end through so many kills at random moments. ``expected`` is the
    number of requests of an undisturbed one.
    """
    chance = random.Random(seed)
    folder, done = work / "killed", Kills([], [])
    moments = sorted(chance.uniform(0.02, 0.95) for _ in range(kills))
    whoms = [list(Whom)[number % len(Whom)] for number in range(kills)]
    chance.shuffle(whoms)
    running = RunningCrawl(folder, _arguments(site, workers), work / "killed.out")
    for moment, whom in zip(moments, whoms, strict=True):
        target = int(expected * moment)
        assert running.runs_until(lambda target=target: len(site.hits()) >= target), (
            f"the crawl ended before {target} requests"
        )
        running.runs_for(chance.uniform(0.0, 0.3))
        done.hits.append(f"{whom.value} after {len(site.hits())} requests")
        running.kill(whom)
        if whom is not Whom.WORKER:
            done.audits.append(audit(folder))
            running = RunningCrawl(folder, _arguments(site, workers), work / "killed.out")
    code = running.finish()
    assert code == 0, (code, (work / "killed.out").read_text()[-4000:])
    done.audits.append(audit(folder))
    return done


def audit(folder: Path) -> str:
    """Runs ``lycosa audit``; gives its verdict in a line. Raises ``AssertionError`` when it
    finds something.
    """
    done = lycosa("audit", str(folder), "--json")
    assert done.code == 0, f"lycosa audit: exit {done.code}\n{done.out[-6000:]}\n{done.err}"
    verdict = json.loads(done.out)
    checked = sum(check["checked"] for check in verdict["checks"])
    assert verdict["clean"], verdict
    return (
        f"exit 0, {len(verdict['checks'])} checks of {checked} facts, {verdict['breaches']}"
        " breaches"
    )


def prove_kills(work: Path, short: bool) -> list[str]:
    """The second half; gives the lines of its report. Raises ``AssertionError``."""
    # The long form with several workers is ``kills``.
    workers = 2 if short else 1
    root = work / "site"
    if short or link_documentation(root, ("pg",)):
        write_tree(root, 120 if short else 1000, seed=3)
    with NginxSite(work / "nginx", root) as site:
        done = crawl(work / "calm", *_arguments(site, workers))
        assert done.code == 0, done
        calm, requests = Outputs(work / "calm"), len(site.hits())
    with NginxSite(work / "nginx-kills", root) as site:
        (site.folder / "access.log").write_text("")
        kills = kill_again_and_again(site, work, 3 if short else 10, requests, workers)
        repeats = sum(
            number - 1 for number in Counter((hit.host, hit.target) for hit in site.hits()).values()
        )
    killed = Outputs(work / "killed")
    report = [
        (
            f"undisturbed: {requests} requests, {len(calm.pages())} pages; killed:"
            f" {len(killed.pages())} pages, {repeats} requests repeated, {len(killed.warcs)} WARC"
            f" files, captures: {len(killed.records())} in WARC, {len(killed.lines)} in CDXJ,"
            f" {len(killed.rows)} in Parquet"
        ),
        f"kills: {'; '.join(kills.hits)}",
        f"audits: {len(kills.audits)}, the last one: {kills.audits[-1]}",
    ]
    told = "\n".join(report)
    assert _targets(killed) == _targets(calm), (
        told,
        sorted(_targets(killed) ^ _targets(calm))[:20],
    )
    assert not killed.captured_twice(), (told, killed.captured_twice()[:20])
    assert not killed.disagreements(), (told, killed.disagreements()[:20])
    assert not killed.open_files, (told, killed.open_files)
    return report


def _arguments(site: NginxSite, workers: int) -> list[str]:
    """Several hosts at once, slowed a little so that there are moments to hit, segments that
    roll while the crawl is young.
    """
    fast = [
        "--set",
        "politeness.address_delay_s=0",
        "--set",
        "politeness.adaptive_factor=0",
        "--set",
        "politeness.max_crawl_delay_s=0.02",
    ]
    rest = [
        "--set",
        "politeness.max_adaptive_delay_s=0.02",
        "--delay",
        "20ms",
        "--set",
        "store.segment_bytes=1000000",
        "--set",
        "store.commit_s=0.3",
    ]
    seeds = [f"http://{host}:{site.port}/" for host in _HOSTS]
    return [
        *seeds,
        *("--workers", str(workers)),
        *fast,
        *rest,
        *(word for host in _HOSTS for word in ("--resolve", f"{host}={site.addresses[0]}")),
    ]


def _targets(outputs: Outputs) -> set[tuple[str, str]]:
    """Pages as host and path: the two servers have different ports."""
    return {
        (url.split("/", 3)[2].partition(":")[0], url.split("/", 3)[3]) for url in outputs.pages()
    }


def prove(work: Path, short: bool) -> list[str]:
    """Both halves."""
    return [*prove_order(work, short), *prove_kills(work, short)]
