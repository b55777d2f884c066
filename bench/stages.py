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
    "lycosa.fetch": "fetch",
    "lycosa.worker.request_sender": "fetch",
    "lycosa.attempts": "attempt log",
    "lycosa.politeness": "politeness",
    "lycosa.worker.pacing": "politeness",
    "lycosa.worker.robots": "robots",
    "lycosa.worker.robots_reader": "robots",
    "lycosa.worker.robots_turns": "robots",
    "lycosa.system.wire": "hop to the parse child",
    "lycosa.system.frame_stream": "hop to the parse child",
    "lycosa.worker.parser_queue": "hop to the parse child",
    "lycosa.parse.running_child": "hop to the parse child",
    "lycosa.parse.parent": "hop to the parse child",
    "lycosa.parse.child": "hop to the parse child",
    "lycosa.parse": "parse: directives, headers and the rest",
    "lycosa.parse.html": "parse: tree, links, text",
    "lycosa.parse.elements": "parse: tree, links, text",
    "lycosa.parse.fingerprint": "parse: SimHash",
    "lycosa.parse.language": "parse: language",
    "lycosa.parse.language_model": "parse: language",
    "lycosa.parse.language_tables": "parse: language",
    "lycosa.parse.outlinks": "parse: canonical links",
    "lycosa.urls.canonical": "parse: canonical links",
    "lycosa.urls.identity": "parse: canonical links",
    "lycosa.system.decode": "parse: content decoding",
    "lycosa.seen.simhash": "dedup",
    "lycosa.seen.content": "dedup",
    "lycosa.seen": "URL-seen",
    "lycosa.seen.duplicates": "dedup",
    "lycosa.urls": "admit",
    "lycosa.worker.intake": "admit",
    "lycosa.worker.admission": "admit",
    "lycosa.worker.owners": "admit",
    "lycosa.worker.sitemaps": "admit",
    "lycosa.worker.site_records": "admit",
    "lycosa.admit": "admit",
    "lycosa.schedule": "admit",
    "lycosa.frontier": "frontier",
    "lycosa.kv": "frontier: records and RocksDB",
    "lycosa.store": "store: WARC records and rows",
    "lycosa.urls.surt": "store: WARC records and rows",
    "lycosa.store.pending": "store: writing",
    "lycosa.store.journal": "store: row journal",
    "lycosa.store.parquet": "store: Parquet",
    "lycosa.store.pages": "store: Parquet",
    "lycosa.store.links": "store: Parquet",
    "lycosa.store.cdxj": "store: CDXJ",
    "lycosa.store.wet": "store: WET",
    "lycosa.store.closing": "store: derived files",
    "lycosa.commit": "commit log",
    "lycosa.system.durable": "commit log",
    "lycosa.worker": "pipeline and worker loop",
    "lycosa.model": "pipeline and worker loop",
    "lycosa.ports": "pipeline and worker loop",
    "lycosa.reasons": "pipeline and worker loop",
    "lycosa.logs": "pipeline and worker loop",
    "lycosa.system": "pipeline and worker loop",
    "lycosa.system.meter": "meter",
    "lycosa.system.durations": "meter",
    "lycosa.system.loop_meter": "meter",
    "lycosa.system.metric_catalogue": "meter",
    "lycosa.worker.measures": "meter",
    "lycosa.schedule.visit": "pipeline and worker loop",
    "lycosa.schedule.steps": "pipeline and worker loop",
    "lycosa.worker.committer": "commit log",
    "lycosa.worker.snapshot_saver": "commit log",
    "lycosa.shard": "commit log",
    "lycosa.worker.assembly": "start and end",
    "lycosa": "start and end",
    "lycosa.__main__": "supervisor",
    "lycosa.config": "start and end",
    "lycosa.folder": "start and end",
    "lycosa.processes": "start and end",
    "lycosa.urls.sites": "start and end",
    "lycosa.worker.recovery": "start and end",
    "lycosa.processes.worker_process": "start and end",
    "lycosa.processes.supervisor": "supervisor",
    "lycosa.cli": "supervisor",
    "lycosa.worker.progress": "supervisor",
    "lycosa.cluster": "supervisor",
    "lycosa.calls": "supervisor",
    "lycosa.processes.status_file": "supervisor",
    "lycosa.processes.worker_handle": "supervisor",
    "lycosa.exchange": "parcels between workers",
    "lycosa.network": "parcels between workers",
    **dict.fromkeys(
        [
            *("lycosa.api", "lycosa.inspect", "lycosa.kafka", "lycosa.objects", "lycosa.page"),
            *("lycosa.project", "lycosa.redis", "lycosa.reshard", "lycosa.serve"),
            *("lycosa.simulate", "lycosa.synthetic"),
        ],
        "parts that a plain crawl does not have",
    ),
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
