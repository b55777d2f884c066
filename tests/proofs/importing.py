"""A crawl of one machine is imported into shards of a cluster, and later into twice as many.

Half-way, with queues, retries and parcels waiting, the crawl of a folder is stopped and imported;
it goes on in shards, is stopped again and imported into more shards, and goes on to its end. Each
import is first killed again and again, at moments by chance. In the end every URL is in one state,
the same as in an undisturbed crawl; no page was fetched again that had been fetched before an
import; every host kept its delay, also across the imports, by the log of the web's server; and
`lycosa audit --cluster` finds nothing wrong.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, NamedTuple

from clusters import LONGEST_S, SETTINGS, RealCluster, real_cluster
from free_ports import free_port
from kafka_broker import started
from lycosa.inspect.committed_state import read_folder
from lycosa.state.kv.table_records import prefix_end
from lycosa.synthetic.request_log import LoggedRequest
from lycosa.synthetic.synthetic_hosts import host_name
from proofs.cluster_judges import Seen, judge_politeness, read_requests
from proofs.crawls import lycosa
from proofs.programs import Program

_ADDRESSES = tuple(f"127.0.1.{number}" for number in range(11, 15))


_SLOTS = 300  # never reached: what is near the limit is shown by other proofs


class Scale(NamedTuple):
    """How large the proof is. ``kills`` are those of each import."""

    hosts: int
    pages: int
    shards: int
    more: int
    nodes: int
    kills: int


WHOLE = Scale(250, 40, 16, 32, 2, 10)
SHORT = Scale(24, 12, 4, 8, 1, 3)
PLAN = {"latency_s": 0.01, "page_bytes": 3000, "redirects": 0.03, "gone": 0.02, "error_rate": 0.03}
CRAWL = {
    **SETTINGS,
    "dns.pins": json.dumps([f"*={_ADDRESSES[0]}"]),
    "retry.first_s": "20s",
    "politeness.address_slots": str(_SLOTS),
}


class _Web(Program):
    """The synthetic server, with its own log."""

    def __init__(self, work: Path, scale: Scale) -> None:
        self.requests, self.port = work / "web.log", free_port(_ADDRESSES)
        command = [sys.executable, "-m", "lycosa.synthetic", "--port", str(self.port)]
        command += ["--seed", "5", "--hosts", str(scale.hosts), "--pages", str(scale.pages)]
        command += [word for key, value in PLAN.items() for word in ("--plan", f"{key}={value}")]
        command += [word for each in _ADDRESSES for word in ("--address", each)]
        command += ["--log", str(self.requests)]
        super().__init__("web", command, work / "web.out")

    @property
    def seed(self) -> str:
        return f"http://{host_name(0)}:{self.port}/"

    def answered(self) -> list[LoggedRequest]:
        return read_requests(self.requests) if self.requests.exists() else []


def prove(work: Path, short: bool) -> list[str]:
    """Run the crawl through both imports; gives what was shown. Raises ``AssertionError``."""
    scale = SHORT if short else WHOLE
    with started() as broker, _served(work, scale) as web:
        (work / "cluster").mkdir()
        # the first number of shards; the settings come with the folder
        with real_cluster(work / "cluster", broker, {}, scale.shards, is_made=False) as cluster:
            return _proved(cluster, web, scale)


@contextmanager
def _served(work: Path, scale: Scale) -> Iterator[_Web]:
    web = _Web(work, scale)
    web.start()
    try:
        web.await_port(_ADDRESSES[-1], web.port)
        yield web
    finally:
        web.end()


def _proved(cluster: RealCluster, web: _Web, scale: Scale) -> list[str]:
    chance, shown, stops = random.Random(7), list[str](), list[float]()
    urls = scale.hosts * scale.pages
    _crawl_folder(cluster, web, "one", urls * 2 // 5)
    stops.append(time.time())
    shown += _waiting(cluster.folder / "one", stops[-1])
    shown += _imported(cluster, ("one",), scale.kills, chance)
    shown += _audited(cluster)
    programs = _continued(cluster, scale)
    _await_requests(web, len(web.answered()) + urls * 3 // 10)
    shown += _stopped(cluster, programs)
    stops.append(time.time())
    shown += _imported(cluster, ("--shards", str(scale.more)), scale.kills, chance)
    cluster.set_shards(scale.more)
    shown += _audited(cluster)
    node = _continued(cluster, scale)[-1]
    node.await_line("the crawl is over", 3600)
    shown += _audited(cluster)
    return [*shown, *_judged(cluster, web, stops)]


def _options(values: dict[str, str]) -> list[str]:
    return [part for each in values.items() for part in ("--set", "=".join(each))]


def _crawl_folder(cluster: RealCluster, web: _Web, name: str, requests: int) -> None:
    """Crawl with three workers, and stop after so many requests."""
    crawl = cluster.run("crawl", web.seed, "--dir", name, "--set", "workers=3", *_options(CRAWL))
    _await_requests(web, requests)
    crawl.process.send_signal(signal.SIGINT)
    assert crawl.wait() == 4, str(crawl)


def _await_requests(web: _Web, requests: int) -> None:
    deadline = time.monotonic() + 20 * LONGEST_S
    while len(web.answered()) < requests:
        assert time.monotonic() < deadline, f"{len(web.answered())} requests, not {requests}"
        assert not web.wait(0.2), "the web ended"


def _waiting(folder: Path, now: float) -> list[str]:
    """What waits in a stopped crawl: the import has to bring all of it along."""
    rows: Counter[str] = Counter()
    reader = read_folder(folder)
    for number in reader.here:
        with reader.partition_view(number) as view:
            for prefix, name in (
                ("Q", "rows of queues"),
                ("D", "due rows"),
                ("F", "hosts lined up"),
            ):
                start = prefix.encode()
                rows[name] += sum(1 for _ in view.scan(start, prefix_end(start)))
            rows["parcels"] += sum(len(key) > 5 for key, _ in view.scan(b"O", b"P"))
            rows["URLs"] += view.counters().discovered
            rows["captures"] += view.counters().captures
    assert rows["rows of queues"] and rows["due rows"], rows
    told = ", ".join(f"{number} {name}" for name, number in rows.items())
    return [f"stopped on one machine: {told}"]


def _imported(
    cluster: RealCluster, arguments: tuple[str, ...], kills: int, chance: random.Random
) -> list[str]:
    """Import, after programs that were killed while they did."""
    command = ("cluster", "import", "cluster.toml", *arguments, "--json")
    longest, killed, steps, began = 6.0, 0, list[str](), 0.0
    program = None
    while program is None:
        began, program = time.monotonic(), cluster.run(*command)
        try:
            program.process.wait(chance.uniform(0.5, longest) if killed < kills else 1800)
        except TimeoutExpired:
            program.end()
            lines = ["its start", *str(program).splitlines()]
            steps += [line for line in lines if _is_step(line)][-1:]
            killed, longest, program = killed + 1, longest * 1.3, None  # the later steps too
    took = time.monotonic() - began
    assert program.wait() == 0, str(program)
    text = "\n".join(program.lines)
    found: dict[str, Any] = json.loads(text[text.index("{") :])
    assert found["is_new"], found
    reached = Counter(line.rpartition("import: ")[2] for line in steps)
    return [
        f"imported into {found['shards']} shards in {took:.1f} s:"
        f" {found['urls']} URLs, {found['captures']} captures; before that killed {killed} times"
        f" ({', '.join(f'{name}: {number}' for name, number in reached.most_common())})"
    ]


def _is_step(line: str) -> bool:
    return line == "its start" or "import: " in line


def _audited(cluster: RealCluster) -> list[str]:
    audit = cluster.run("audit", "--cluster", "cluster.toml")
    assert audit.wait(1200) == 0, str(audit)
    return [f"audit: {audit.lines[-1]}"]


def _continued(cluster: RealCluster, scale: Scale) -> list[Any]:
    programs = [cluster.serve()]
    programs += [cluster.node(f"n{number}", "--most-shards", "64") for number in range(scale.nodes)]
    assert cluster.run("cluster", "resume", "cluster.toml").wait() == 0
    return programs


def _stopped(cluster: RealCluster, programs: list[Any]) -> list[str]:
    assert cluster.run("cluster", "stop", "cluster.toml").wait() == 0
    programs[-1].await_line("the crawl is over")
    for each in reversed(programs):
        each.process.send_signal(signal.SIGTERM)
        assert each.wait() == 0, str(each)
    captures = _status(cluster)["captures"]
    return [f"stopped on the cluster with {captures} captures"]


def _status(cluster: RealCluster) -> dict[str, Any]:
    done = lycosa("status", "--cluster", str(cluster.file), "--json", cwd=cluster.folder)
    found: dict[str, Any] = json.loads(done.out)
    return found


def _judged(cluster: RealCluster, web: _Web, stops: list[float]) -> list[str]:
    """Judge the whole crawl by the log of the web, and by an undisturbed crawl."""
    log = web.answered()
    told, wrong = judge_politeness(
        (
            Seen(each.wall, each.wall + each.end - each.start, each.host, each.address, each.path)
            for each in log
        ),
        _SLOTS,
    )
    assert not wrong, "\n".join(wrong[:20])
    again = _fetched_again(log, stops)
    assert not again, f"{len(again)} pages were fetched again after an import: {again[:10]}"
    found = _status(cluster)
    assert sum(found["states"].values()) == found["discovered"], found["states"]
    calm = {**CRAWL, "politeness.delay_s": "0", "politeness.max_crawl_delay_s": "0"}
    done = lycosa(
        *("crawl", web.seed, "--dir", "calm", "--json"),
        *_options({**calm, "retry.first_s": "1s"}),
        cwd=cluster.folder,
        timeout=3600,
    )
    expected = json.loads(done.out)
    states = [{name: n for name, n in each["states"].items() if n} for each in (found, expected)]
    assert states[0] == states[1], f"{states[0]} after the imports, {states[1]} undisturbed"
    return [
        told,
        f"no page was fetched again of those fetched before an import ({len(log)} requests)",
        f"every URL in one state, as in an undisturbed crawl: {states[0]}",
    ]


def _fetched_again(log: list[LoggedRequest], stops: list[float]) -> list[str]:
    """Pages that were answered before a stop and requested again after it."""
    found = []
    for stop in stops:
        before = {
            (each.host, each.path)
            for each in log
            if each.wall < stop and each.status < 500 and each.path != "/robots.txt"
        }
        found += [
            each.path for each in log if each.wall >= stop and (each.host, each.path) in before
        ]
    return found
