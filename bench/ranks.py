"""``lycosa rank`` over made links: ``python -m bench.ranks [--edges 10000000] [--pages 1000000]
[--hosts 20000] [--memory 1GB] [--levels host,domain,page] [--kill] [--igraph PYTHON]``.

The tables of links and pages of a crawl are written, without a crawl: three links in four stay on
their host, the others go to hosts and pages by Zipf's law. Then ``lycosa rank`` runs. Printed are
seconds and processor time, the greatest memory of the process, of which files that are mapped are a
part, and the counts of each level.

With ``--kill`` it also runs a second time, is killed (SIGKILL) five times, and the files of both
results are compared byte for byte. ``--igraph`` is a Python that has igraph, which then computes
PageRank of the same edges, and harmonic centrality where that is feasible; the greatest relative
difference is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lycosa.base.urls.identity import BUNDLED_LIST, Sites
from lycosa.state.folder.manifest import Identity, create_crawl
from lycosa.state.store.derived_files import LINKS, PAGES
from lycosa.state.store.links_table import LINKS_SCHEMA
from lycosa.state.store.pages_table import PAGES_SCHEMA

LYCOSA = [sys.executable, "-P", "-c", "import sys; from lycosa.cli import main; sys.exit(main())"]
_BATCH = 1_000_000
_IGRAPH = """
import gzip, sys
import igraph, numpy as np
folder, is_small = sys.argv[1], sys.argv[2] == "1"
count = sum(1 for _ in gzip.open(folder + "/vertices.txt.gz"))
edges = np.loadtxt(gzip.open(folder + "/edges.txt.gz"), dtype=np.int64).reshape(-1, 2)
graph = igraph.Graph(n=count, edges=edges.tolist(), directed=True)
names = [line.split(b"\\t")[1] for line in gzip.open(folder + "/vertices.txt.gz")]
number = {name.strip(): at for at, name in enumerate(names)}
ours = np.zeros((count, 2))
for line in list(gzip.open(folder + "/ranks.txt.gz"))[1:]:
    cells = line.rstrip(b"\\n").split(b"\\t")
    ours[number[cells[4]]] = float(cells[1]), float(cells[3])
theirs = np.array(graph.pagerank(damping=0.85))
print("PageRank", float(np.abs(ours[:, 1] / theirs - 1).max()))
if is_small:
    theirs = np.array(graph.harmonic_centrality(mode="in", normalized=False))
    print("harmonic", float((np.abs(ours[:, 0] - theirs) / np.maximum(theirs, 1e-300)).max()))
"""


def make_links(folder: Path, edges: int, pages: int, hosts: int, seed: int = 1) -> None:
    """Write the tables of a crawl with so many links between so many pages."""
    sites = Sites(BUNDLED_LIST).version
    identity = Identity(
        partitions=1, bands=4, canonical={"sort_query": False}, canonical_version=1, suffixes=sites
    )
    create_crawl(folder, identity, "bench", 0.0, "bench")
    (folder / "public_suffix_list.dat").write_bytes(BUNDLED_LIST.read_bytes())
    rng = np.random.default_rng(seed)
    # Pages of a host have consecutive numbers; a few hosts have most pages.
    weights = 1.0 / np.arange(1, hosts + 1) ** 0.8
    starts = np.floor(np.concatenate(([0], np.cumsum(weights / weights.sum()))) * pages)
    host_of = np.searchsorted(starts, np.arange(pages), side="right") - 1
    urls = np.array(
        [f"https://www.host{h}.example/part/{p % 97}/page-{p}.html" for p, h in enumerate(host_of)]
    )
    made = pa.array(np.zeros(pages, dtype=np.int64), pa.timestamp("us"))
    _write_pages(folder / PAGES, urls, made)
    (folder / LINKS).mkdir()
    fetched = pages // 2  # the other half is known by links alone
    with pq.ParquetWriter(folder / LINKS / "made.parquet", LINKS_SCHEMA, compression="zstd") as out:
        for begin in range(0, edges, _BATCH):
            count = min(_BATCH, edges - begin)
            source = np.sort(rng.integers(0, fetched, count)) * 2
            host = host_of[source]
            near = starts[host] + (starts[host + 1] - starts[host]) * rng.random(count) ** 2
            far = pages * rng.random(count) ** 4
            target = np.where(rng.random(count) < 0.75, near, far).astype(np.int64)
            target = np.minimum(target, pages - 1)
            words = pa.array(np.zeros(count, dtype=np.int32))
            out.write_table(
                pa.table(
                    [
                        pa.array(urls[source]).dictionary_encode(),
                        pa.array(np.zeros(count, dtype=np.int64), pa.timestamp("us")),
                        pa.array(urls[target]),
                        pa.DictionaryArray.from_arrays(words, ["a"]),
                        pa.array(["x"] * count),
                        pa.array(np.zeros(count, dtype=np.bool_)),
                        words,
                        pa.DictionaryArray.from_arrays(words, ["made"]),
                        pa.nulls(count, pa.float32()),
                    ],
                    schema=LINKS_SCHEMA,
                )
            )


def _write_pages(folder: Path, urls: np.ndarray, made: pa.Array) -> None:
    """The table of pages; columns that ranks do not read are empty."""
    folder.mkdir()
    fetched = len(urls) // 2
    given = {
        "url": pa.array(urls[0 : 2 * fetched : 2]),
        "fetch_time": made[:fetched],
        "kind": pa.array(["page"] * fetched),
        "fetch_status": pa.array(np.full(fetched, 200, dtype=np.int16)),
        "fetch_number": pa.array(np.ones(fetched, dtype=np.int32)),
        "nofollow": pa.array(np.zeros(fetched, dtype=np.bool_)),
    }
    schema = pa.schema([each.with_nullable(True) for each in PAGES_SCHEMA])
    columns = [
        given[each.name].cast(each.type) if each.name in given else pa.nulls(fetched, each.type)
        for each in schema
    ]
    pq.write_table(pa.table(columns, schema=schema), folder / "made.parquet", compression="zstd")


def run_rank(folder: Path, args: argparse.Namespace, kill_after_s: float = 0.0) -> dict[str, float]:
    """One run; killed after some seconds, if asked."""
    words = ["rank", str(folder), "--again", "--memory", args.memory, "--levels", args.levels]
    began = time.monotonic()
    process = subprocess.Popen([*LYCOSA, *words, "--json"], stdout=subprocess.PIPE)
    if kill_after_s:
        try:
            process.wait(kill_after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
    assert process.stdout is not None
    text = process.stdout.read()
    process.stdout.close()
    _, status, used = os.wait4(process.pid, 0) if process.returncode is None else (0, 0, None)
    process.returncode = os.waitstatus_to_exitcode(status)
    if used is not None and not kill_after_s:
        found = json.loads(text)
        print(
            f"{time.monotonic() - began:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of processor"
            f" time, {used.ru_maxrss / 1024:,.0f} MB at most"
        )
        for level, of in found["levels"].items():
            print(
                f"  {level}: {of['vertices']:,} vertices, {of['edges']:,} edges,"
                f" {of['pagerank_steps']} steps, {of['harmonic']} 2^{of['registers']},"
                f" radius {of['radius']}"
            )
    return {"seconds": time.monotonic() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=20_000)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--levels", default="host,domain,page")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--igraph")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-ranks-") as temporary:
        folder = Path(temporary) / "crawl"
        folder.mkdir()
        began = time.monotonic()
        make_links(folder, args.edges, args.pages, args.hosts)
        print(f"made in {time.monotonic() - began:.1f} s")
        took = run_rank(folder, args)["seconds"]
        if args.kill:
            for each in range(1, 6):
                run_rank(folder, args, kill_after_s=took * each / 8)
            run_rank(folder, args)
            _compare(folder)
        if args.igraph:
            for level in args.levels.split(","):
                is_small = args.edges <= 200_000 or level != "page"
                words = ["-c", _IGRAPH, str(folder / "ranks/1" / level), str(int(is_small))]
                print(level, subprocess.check_output([args.igraph, *words], text=True).split())


def _compare(folder: Path) -> None:
    """Compare the files of the first and the last result."""
    numbers = sorted(int(each.name) for each in (folder / "ranks").iterdir() if each.name != "work")
    first, last = (folder / "ranks" / str(each) for each in (numbers[0], numbers[-1]))
    files = [each.relative_to(first) for each in first.rglob("*.gz")]
    same = [each for each in files if (first / each).read_bytes() == (last / each).read_bytes()]
    print(f"{len(same)} of {len(files)} files are the same after five kills")


if __name__ == "__main__":
    main()
