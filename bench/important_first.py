"""Whether important pages come first: the share of all PageRank against the share of pages fetched.

``python -m bench.important_first [--site NAME=FOLDER]... [--synthetic HOSTS] [--before CHECKOUT]``

Each site is crawled as a whole by the command `lycosa crawl`, over loopback, with one page at a
time and without delays, so the order is that of the priorities alone. The orders:

* breadth first: only the weight of the depth counts;
* before: the program of another checkout, with the default weights;
* now: this program, with the default weights;
* with ranks: this program with ``--ranks`` of an earlier, complete crawl of the site;
* ideal: by PageRank, as if every URL were known from the start.

PageRank (damping 0.85) is over the pages with status 200 of the first crawl and the stored links
between them. The area is the mean of the share of PageRank over the shares of pages. On the web of
computed pages hosts are compared too: Spearman's correlation of the importance that the crawl gave
a host, when it was stopped early, with the PageRank of the host in the whole graph.

With ``--picture FILE`` the curves are drawn as SVG; ``--curves FILE`` adds those that an earlier
call left there, so that sites may be measured one by one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np
from bench.page_cost import LYCOSA
from numpy.typing import NDArray

from lycosa.base.urls.identity import host_of, reversed_host
from lycosa.synthetic import SyntheticServer, SyntheticWeb, WebPlan
from lycosa.synthetic.synthetic_hosts import host_name

ROOT = Path(__file__).parents[1]
BREADTH = [
    each
    for name in ("importance", "authority", "change", "staleness")
    for each in ("--set", f"priority.{name}=0")
]
SHARES = (0.05, 0.1, 0.25, 0.5)
EARLY = (0.05, 0.1, 0.25)
_COLOURS = ("#888888", "#d08000", "#0060c0", "#109030", "#000000")

Values = NDArray[np.float64]


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Graph:
    """The fetched pages of a crawl, in the order of their fetches, and the links between them."""

    def __init__(self, folder: Path) -> None:
        self.urls = fetched(folder)
        self.number = {url: number for number, url in enumerate(self.urls)}
        rows = query(folder, "SELECT DISTINCT source_url AS s, target_url AS t FROM links")
        self.edges = [
            (self.number[row["s"]], self.number[row["t"]])
            for row in rows
            if row["s"] in self.number and row["t"] in self.number and row["s"] != row["t"]
        ]

    def page_ranks(self) -> Values:
        return page_ranks(len(self.urls), self.edges)

    def host_ranks(self) -> dict[str, float]:
        """PageRank of the graph of hosts, each link between two hosts counted once."""
        names = sorted({host_of(url) for url in self.urls})
        number = {name: at for at, name in enumerate(names)}
        of = [number[host_of(url)] for url in self.urls]
        edges = {(of[s], of[t]) for s, t in self.edges if of[s] != of[t]}
        return dict(zip(names, page_ranks(len(names), sorted(edges)).tolist(), strict=True))


def page_ranks(count: int, edges: Sequence[tuple[int, int]]) -> Values:
    """PageRank with damping 0.85; what has no links links to everything."""
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    out = np.bincount(pairs[:, 0], minlength=count).astype(float)
    ranks = np.full(count, 1.0 / count)
    for _ in range(200):
        given = np.bincount(pairs[:, 1], (ranks / np.maximum(out, 1))[pairs[:, 0]], minlength=count)
        after = 0.15 / count + 0.85 * (given + ranks[out == 0].sum() / count)
        if np.abs(after - ranks).sum() < 1e-12:
            break
        ranks = after
    return ranks


def query(folder: Path, statement: str) -> list[dict[str, Any]]:
    text = subprocess.run(
        [program(ROOT), "sql", str(folder), statement, "--format", "json"],
        check=True,
        capture_output=True,
    ).stdout
    rows: list[dict[str, Any]] = json.loads(text)
    return rows


def fetched(folder: Path) -> list[str]:
    """URLs with status 200 in the order of their first fetches."""
    rows = query(
        folder,
        "SELECT url, min(fetch_time) AS at FROM pages WHERE fetch_status = 200"
        " AND content_mime_type = 'text/html' GROUP BY 1 ORDER BY 2",
    )
    return [row["url"] for row in rows]


def program(checkout: Path) -> str:
    return str(checkout / ".venv" / "bin" / "lycosa")


def crawl(checkout: Path, url: str, folder: Path, *more: str) -> Path:
    """Crawl to the end, or as far as ``more`` allows."""
    single = ("--set", "fetch.slots=1", "--set", "refetch.rule=off")
    command = [program(checkout), "crawl", url, "--dir", str(folder), *LYCOSA, *single, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return folder


@contextmanager
def folder_served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", []
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def web_served(hosts: int) -> Iterator[tuple[str, list[str]]]:
    """The web of computed pages, as ``python -m lycosa.synthetic`` has it, without misbehaviour."""
    plan = WebPlan(
        seed=7, hosts=hosts, pages=8, distribution="zipf", latency_s=0.0, page_bytes=1500
    )
    web, loop = SyntheticWeb(plan), asyncio.new_event_loop()
    server, thread = SyntheticServer(web, pace=0.0), Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(60)
        resolved = [f"--resolve=*.{top}=127.0.0.1" for top in ("example", "test")]
        yield f"http://{host_name(0)}:{server.port}/", ["--scope", "any", *resolved]
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)


def curve(order: Sequence[str], graph: Graph, ranks: Values) -> Values:
    """The share of PageRank after each share of pages: 1,001 values."""
    rest = set(graph.urls).difference(order)
    pages = [graph.number[url] for url in dict.fromkeys(order) if url in graph.number]
    pages += [graph.number[url] for url in sorted(rest)]
    gained = np.concatenate(([0.0], np.cumsum(ranks[pages]) / ranks.sum()))
    return np.interp(np.linspace(0, 1, 1001), np.linspace(0, 1, len(gained)), gained)


def write_ranks(path: Path, header: str, ranks: dict[str, float]) -> Path:
    """A file in the form of Common Crawl's web graphs."""
    lines = [f"#harmonicc_pos\t#harmonicc_val\t#pr_pos\t#pr_val\t{header}"]
    ordered = sorted(ranks.items(), key=lambda each: -each[1])
    lines += [f"{at}\t0\t{at}\t{rank!r}\t{name}" for at, (name, rank) in enumerate(ordered, 1)]
    path.write_text("\n".join(lines) + "\n")
    return path


def measure_site(
    name: str, url: str, options: Sequence[str], before: Path | None, work: Path
) -> tuple[dict[str, Values], Graph]:
    """The curve of each order."""
    graph = Graph(crawl(ROOT, url, work / "now", *options))
    ranks = graph.page_ranks()
    print(f"{name}: {len(graph.urls):,} pages, {len(graph.edges):,} links", file=sys.stderr)
    pages = write_ranks(
        work / "pages.txt", "#url", dict(zip(graph.urls, ranks.tolist(), strict=True))
    )
    hosts = write_ranks(
        work / "hosts.txt",
        "#host_rev",
        {reversed_host(host): rank for host, rank in graph.host_ranks().items()},
    )
    orders = {"breadth first": fetched(crawl(ROOT, url, work / "breadth", *options, *BREADTH))}
    if before is not None:
        orders["before"] = fetched(crawl(before, url, work / "before", *options))
    orders["now"] = graph.urls
    given = ("--ranks", str(pages), "--ranks", str(hosts))
    orders["with ranks"] = fetched(crawl(ROOT, url, work / "ranks", *options, *given))
    orders["ideal"] = [graph.urls[at] for at in np.argsort(-ranks, kind="stable")]
    return {key: curve(order, graph, ranks) for key, order in orders.items()}, graph


def correlations(
    checkouts: dict[str, Path], url: str, options: Sequence[str], graph: Graph, work: Path
) -> list[tuple[str, float, int, float]]:
    """For each checkout and share of pages: how many hosts had links, and the correlation."""
    final, found = graph.host_ranks(), []
    for name, checkout in checkouts.items():
        for share in EARLY:
            folder = work / f"early-{name}-{share}"
            pages = str(int(share * len(graph.urls)))
            crawl(checkout, url, folder, *options, "--max-pages", pages)
            rows = query(folder, "SELECT host, importance FROM hosts WHERE importance < 1")
            known = [row for row in rows if row["host"] in final and row["importance"] > 0]
            value = spearman(
                np.array([row["importance"] for row in known]),
                np.array([final[row["host"]] for row in known]),
            )
            found.append((name, share, len(known), value))
    return found


def spearman(one: Values, other: Values) -> float:
    """Pearson's correlation of the ranks; equal values have the mean of theirs."""
    return float(np.corrcoef(_ranked(one), _ranked(other))[0, 1])


def _ranked(values: Values) -> Values:
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middles: Values = (ends - counts + ends - 1) / 2
    return middles[where]


def table(name: str, curves: dict[str, Values]) -> list[str]:
    heads = " | ".join(f"{share:.0%} of pages" for share in SHARES)
    lines = [f"| {name} | {heads} | area |", "|---" * (len(SHARES) + 2) + "|"]
    for key, values in curves.items():
        cells = " | ".join(f"{values[round(share * 1000)]:.1%}" for share in SHARES)
        lines.append(f"| {key} | {cells} | {values.mean():.3f} |")
    return lines


def picture(sites: dict[str, dict[str, Values]]) -> str:
    """One panel for each site; every line has its name in the legend."""
    width, height, gap = 260, 220, 50
    parts = []
    for at, (name, curves) in enumerate(sites.items()):
        left, top = 50 + at * (width + gap), 40
        parts.append(
            f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none"'
            f' stroke="#cccccc"/><text x="{left}" y="{top - 10}">{name}</text>'
        )
        for share in (0, 0.5, 1):
            x, y = left + share * width, top + height - share * height
            parts.append(
                f'<text x="{x:.0f}" y="{top + height + 15}" text-anchor="middle">{share:.0%}</text>'
                f'<text x="{left - 5}" y="{y + 4:.0f}" text-anchor="end">{share:.0%}</text>'
            )
        for (_, values), colour in zip(curves.items(), _colours(curves), strict=True):
            points = " ".join(
                f"{left + width * n / 100:.1f},{top + height * (1 - values[10 * n]):.1f}"
                for n in range(101)
            )
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    legend = next(iter(sites.values()))
    for at, (key, colour) in enumerate(zip(legend, _colours(legend), strict=True)):
        x, y = 60 + 150 * at, 40 + height + 50
        parts.append(
            f'<line x1="{x}" y1="{y - 4}" x2="{x + 25}" y2="{y - 4}" stroke="{colour}"/>'
            f'<text x="{x + 30}" y="{y}">{key}</text>'
        )
    total = 60 + len(sites) * (width + gap)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height + 110}"'
        ' font-family="sans-serif" font-size="12" stroke-width="1.5">\n'
        f"<title>Share of all PageRank (up) against share of pages fetched (right)</title>\n"
        f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    ).replace("<text ", '<text stroke="none" ')


def _colours(curves: dict[str, Values]) -> list[str]:
    all_orders = ("breadth first", "before", "now", "with ranks", "ideal")
    return [_COLOURS[all_orders.index(key)] for key in curves]


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--site", action="append", default=[], metavar="NAME=FOLDER")
    reader.add_argument("--synthetic", type=int, default=0, metavar="HOSTS")
    reader.add_argument("--before", type=Path, metavar="CHECKOUT")
    reader.add_argument("--picture", type=Path, metavar="FILE")
    reader.add_argument("--curves", type=Path, metavar="FILE")
    given = reader.parse_args()
    places: dict[str, Callable[[], Any]] = {}
    for each in given.site:
        name, _, folder = each.partition("=")
        places[name] = partial(folder_served, Path(folder))
    if given.synthetic:
        places[f"synthetic web, {given.synthetic:,} hosts"] = partial(web_served, given.synthetic)
    found: dict[str, dict[str, Values]] = {}
    if given.curves and given.curves.exists():
        kept = json.loads(given.curves.read_text())
        found = {name: {k: np.array(v) for k, v in of.items()} for name, of in kept.items()}
    for name, serving in places.items():
        with TemporaryDirectory() as folder, serving() as (url, options):
            work = Path(folder)
            found[name], graph = measure_site(name, url, options, given.before, work)
            print("\n".join(table(name, found[name])), flush=True)
            if name.startswith("synthetic"):
                checkouts = {"before": given.before} if given.before else {}
                for row in correlations({**checkouts, "now": ROOT}, url, options, graph, work):
                    print("| {} | {:.0%} | {:,} hosts | {:.3f} |".format(*row), flush=True)
    if given.curves:
        kept = {name: {k: v.tolist() for k, v in of.items()} for name, of in found.items()}
        given.curves.write_text(json.dumps(kept))
    if given.picture:
        given.picture.write_text(picture(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
