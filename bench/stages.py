"""Where a crawl's CPU time goes, by stage: samples of CPU time of all its Python processes
(``sampler/sitecustomize.py``).

A sample belongs to the stage of its innermost frame that is ours; what a library does for a stage
counts there. Time of threads that libraries started for themselves (RocksDB's compaction) is a line
of its own.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.measure import Cost, measure

# Longest prefix decides. Modules are written as in imports.
STAGES = {
    "pycurl": "fetch",
    "aiodns": "fetch",
    "lycosa.stages.fetch": "fetch",
    "lycosa.worker.visit.request_sender": "fetch",
    "lycosa.state.attempts": "attempt log",
    "lycosa.stages.politeness": "politeness",
    "lycosa.worker.visit.pacing": "politeness",
    "lycosa.worker.visit.host_robots": "robots",
    "lycosa.worker.visit.robots_reader": "robots",
    "lycosa.worker.visit.robots_requests": "robots",
    "lycosa.base.system.frames": "hop to the parse child",
    "lycosa.base.system.frame_stream": "hop to the parse child",
    "lycosa.worker.visit.parser_queue": "hop to the parse child",
    "lycosa.stages.parse.running_child": "hop to the parse child",
    "lycosa.stages.parse.child_parser": "hop to the parse child",
    "lycosa.stages.parse.parser_process": "hop to the parse child",
    "lycosa.stages.extract": "user code",
    "lycosa.stages.render": "rendering",
    "lycosa.worker.render": "rendering",
    "lycosa.processes.rendering": "rendering",
    "lycosa.stages.parse": "parse: directives, headers and the rest",
    "lycosa.stages.parse.html": "parse: tree, links, text",
    "lycosa.stages.parse.element_readers": "parse: tree, links, text",
    "lycosa.stages.parse.fingerprint": "parse: SimHash",
    "lycosa.stages.parse.language": "parse: language",
    "lycosa.stages.parse.language_model": "parse: language",
    "lycosa.stages.parse.language_tables": "parse: language",
    "lycosa.stages.parse.outlinks": "parse: canonical links",
    "lycosa.base.urls.canonical": "parse: canonical links",
    "lycosa.base.urls.identity": "parse: canonical links",
    "lycosa.base.system.content_encoding": "parse: content decoding",
    "lycosa.state.seen.simhash": "dedup",
    "lycosa.state.seen.content_seen": "dedup",
    "lycosa.state.seen": "URL-seen",
    "lycosa.state.seen.duplicates": "dedup",
    "lycosa.base.urls": "admit",
    "lycosa.base.preferences": "statements of use",
    "lycosa.base.signing": "fetch: signatures",
    "lycosa.worker.intake.intake": "admit",
    "lycosa.worker.intake.admission": "admit",
    "lycosa.worker.intake.owners": "admit",
    "lycosa.worker.intake.sitemaps": "admit",
    "lycosa.worker.intake.site_records": "admit",
    "lycosa.stages.admit": "admit",
    "lycosa.stages.schedule": "admit",
    "lycosa.stages.frontier": "frontier",
    "lycosa.state.ranks": "frontier",
    "lycosa.state.kv": "frontier: records and RocksDB",
    "lycosa.state.cold": "frontier: cold archive",
    "lycosa.state.store": "store: WARC records and rows",
    "lycosa.base.urls.surt": "store: WARC records and rows",
    "lycosa.state.store.pending": "store: writing",
    "lycosa.state.store.journal": "store: row journal",
    "lycosa.state.store.parquet": "store: Parquet",
    "lycosa.state.store.pages_table": "store: Parquet",
    "lycosa.state.store.links_table": "store: Parquet",
    "lycosa.state.store.cdxj": "store: CDXJ",
    "lycosa.state.store.wet": "store: WET",
    "lycosa.state.store.closing": "store: derived files",
    "lycosa.state.commit": "commit log",
    "lycosa.base.system.durable": "commit log",
    "lycosa.worker": "pipeline and worker loop",
    "lycosa.base.model": "pipeline and worker loop",
    "lycosa.base.ports": "pipeline and worker loop",
    "lycosa.base.reasons": "pipeline and worker loop",
    "lycosa.base.logs": "pipeline and worker loop",
    "lycosa.base.system": "pipeline and worker loop",
    "lycosa.base.system.meter": "meter",
    "lycosa.base.system.durations": "meter",
    "lycosa.base.system.loop_meter": "meter",
    "lycosa.base.system.metric_catalogue": "meter",
    "lycosa.worker.measures": "meter",
    "lycosa.stages.schedule.visit_decisions": "pipeline and worker loop",
    "lycosa.stages.schedule.steps": "pipeline and worker loop",
    "lycosa.worker.commit.committer": "commit log",
    "lycosa.worker.commit.snapshot_saver": "commit log",
    "lycosa.state.shard": "commit log",
    "lycosa.worker.assemble": "start and end",
    "lycosa": "start and end",
    "lycosa.__main__": "supervisor",
    "lycosa.base.config": "start and end",
    "lycosa.state.folder": "start and end",
    "lycosa.processes": "start and end",
    "lycosa.base.urls.sites": "start and end",
    "lycosa.worker.commit.recovery": "start and end",
    "lycosa.processes.worker_process": "start and end",
    "lycosa.processes.supervisor": "supervisor",
    "lycosa.cli": "supervisor",
    "lycosa.worker.worker_progress": "supervisor",
    "lycosa.cluster.coordinator": "supervisor",
    "lycosa.base.calls": "supervisor",
    "lycosa.processes.status_file": "supervisor",
    "lycosa.processes.worker_handle": "supervisor",
    "lycosa.state.exchange": "parcels between workers",
    "lycosa.cluster.network": "parcels between workers",
    **dict.fromkeys(
        [
            *("lycosa.cluster", "lycosa.feeds", "lycosa.inspect", "lycosa.moves"),
            *("lycosa.service", "lycosa.simulate", "lycosa.synthetic", "lycosa.state.objects"),
        ],
        "parts that a plain crawl does not have",
    ),
    "lycosa.base": "pipeline and worker loop",
    "lycosa.base.messages": "supervisor",
    "lycosa.stages": "start and end",
    "lycosa.state": "start and end",
    "<imports>": "imports",
    "(threads-of-libraries)": "threads of libraries",
    "": "event loop and the rest",
}


def print_stages(command: Callable[[str, Path], list[str]], url: str, folder: Path) -> None:
    """Runs the crawl twice: alone, for its cost, and sampled, for the shares."""
    plain = measure(command(url, folder / "plain"), folder / "plain.log")
    shutil.rmtree(folder / "plain")
    samples = folder / "samples"
    samples.mkdir()
    paths = [
        str(Path(__file__).with_name("sampler")),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    env = {"PYTHON_STAGE_SAMPLES": str(samples), "PYTHONPATH": os.pathsep.join(paths)}
    sampled = measure(command(url, folder / "sampled"), folder / "sampled.log", env)
    print_table(plain, sampled, samples)


def read_stacks(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Seconds by stage, and by innermost function of ours."""
    stages: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for path in folder.glob("*.stacks"):
        for line in path.read_text().splitlines():
            stack, _, ns = line.rpartition(" ")
            module, function = owner(stack.split(";"))
            stages[stage_of(module)] += int(ns)
            functions[f"{module}.{function}"] += int(ns)
    return stages, functions


def print_table(plain: Cost, sampled: Cost, folder: Path) -> None:
    """Shares of the samples, and seconds scaled to the cost of the run that was not disturbed."""
    stages, functions = read_stacks(folder)
    total = stages.total()
    print(
        f"\nalone: {plain.cpu_s:.2f} s CPU ({plain.user_s:.2f} user, {plain.system_s:.2f} system)"
    )
    print(
        f"sampled: {sampled.cpu_s:.2f} s CPU, {total / 1e9:.2f} s of them in samples; the rest is"
        " sampling itself, and interpreters' starts"
    )
    print(f"\n{'stage':42} {'share':>6} {'s':>7}")
    for stage, ns in stages.most_common():
        print(f"{stage:42} {ns / total:6.1%} {plain.cpu_s * ns / total:7.2f}")
    print(f"\n{'innermost function of ours':70} {'share':>6}")
    for function, ns in functions.most_common(40):
        print(f"{function:70} {ns / total:6.1%}")


def owner(frames: list[str]) -> tuple[str, str]:
    """Module and function that a stack belongs to: its innermost frame that decides a stage."""
    for frame in reversed(frames):
        if frame.startswith("("):  # not a frame but a remark
            return frame, ""
        path, _, function = frame.rsplit(":", 2)
        if path.startswith("<frozen_importlib"):
            return "<imports>", function
        if module := _module(path):
            return module, function
    return "", frames[-1].rpartition("/")[2]


def _module(path: str) -> str:
    """The module of a source file, if it decides a stage. Ours are below ``src``: the folder of a
    checkout may itself be called ``lycosa``, and its environment is below it.
    """
    for mark in ("/src/lycosa/", "/site-packages/pycurl/", "/site-packages/aiodns/"):
        _, found, rest = path.rpartition(mark)
        if found and rest.endswith(".py"):
            package = mark.rpartition("/")[0].rpartition("/")[2]
            module = rest.removesuffix(".py").replace("/", ".")
            return f"{package}.{module}".removesuffix(".__init__")
    return ""


def stage_of(module: str) -> str:
    """The stage of a module: of the longest prefix that is in the table."""
    while module not in STAGES:
        module = module.rpartition(".")[0]
    return STAGES[module]


if __name__ == "__main__":
    none = Cost(0, 0, 0, 0, 0, 0)
    print_table(none, none, Path(sys.argv[1]))
