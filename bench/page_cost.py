"""What a page costs: CPU seconds of all processes per HTML page, Lycosa with everything on against
others on the same site.

``python -m bench.page_cost`` (or ``bench/page_cost``); see README.md beside this file. nginx's log
says which pages each one fetched; those that not all of them fetched are printed, because a
comparison is only fair between the same pages. The crawlers run in rounds of short runs, and a
ratio is that of two runs of the same round.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import site
from bench.interpreter import described
from bench.large_pages import make_large_site
from bench.measure import Cost, measure

LYCOSA = [
    *(
        "--delay",
        "0s",
        "--set",
        "politeness.adaptive_factor=0",
        "--set",
        "politeness.address_delay_s=0",
    ),
    *("--allow-address", "127.0.0.0/8"),
]
_MAX_SHOWN = 10
# some four seconds of Lycosa: load comes and goes in minutes, and a ratio of runs minutes apart
# moves by a third with it
_PAGES = 1500
# packages; a crawler without them is left out
_NEEDS = {
    "scrapy": ("scrapy",),
    "aiohttp": ("aiohttp", "selectolax", "uvloop"),
}


@dataclass
class Contestant:
    """A crawler: its name, what it does, its command for a start URL and a folder of its own,
    and what came of its runs.
    """

    name: str
    does: str
    command: Callable[[str, Path], list[str]]
    costs: list[Cost] = field(default_factory=list)  # of each counted round, in order
    pages: set[str] = field(default_factory=set)
    requests: int = 0
    disk_bytes: int = 0
    good_codes: tuple[int, ...] = (0,)

    def page_ms(self) -> list[float]:
        """CPU milliseconds a page of each run."""
        return [cost.cpu_s * 1000 / max(len(self.pages), 1) for cost in self.costs]

    def median_ms(self) -> float:
        return statistics.median(self.page_ms())


def _python(module: str) -> Callable[[str, Path], list[str]]:
    return lambda url, _: [sys.executable, "-m", module, url]


def lycosa_command(url: str, folder: Path) -> list[str]:
    """As its users start it."""
    return [
        str(Path(sys.executable).with_name("lycosa")),
        "crawl",
        url,
        "--dir",
        str(folder / "crawl"),
        *LYCOSA,
    ]


def _checkout(root: Path) -> Callable[[str, Path], list[str]]:
    """Lycosa of another checkout, in that checkout's own environment."""
    program = root / ".venv" / "bin" / "lycosa"
    if not program.exists():
        raise SystemExit(f"{program} is not there: run script/setup in {root} first")
    version = subprocess.run(
        [program.with_name("python"), "-VV"], check=True, capture_output=True, text=True
    ).stdout.strip()
    if version != f"Python {sys.version}".replace("\n", ""):
        print(
            "note: the other checkout runs on another Python, which a ratio then measures too:"
            f" {version}"
        )
    return lambda url, folder: [str(program), "crawl", url, "--dir", str(folder / "crawl"), *LYCOSA]


def _floor(url: str, folder: Path) -> list[str]:
    return [sys.executable, "-m", "bench.crawlers.floor", str(folder.parent / "urls")]


_NO_PAGES = "*.css,*.js,*.png,*.svg,*.gif,*.jpg,*.ico,*.zip,*.txt,*.pdf"


def _wget(url: str, folder: Path) -> list[str]:
    """One connection, and a WARC file of everything."""
    options = ["-q", "-r", "-l", "inf", "--reject", _NO_PAGES, "-P", str(folder)]
    options += ["--warc-file", str(folder / "all"), "--warc-cdx", "--no-warc-keep-log"]
    if ca_file := os.environ.get("SSL_CERT_FILE"):
        options.append(f"--ca-certificate={ca_file}")
    return ["wget", *options, url]


def _wget2(url: str, folder: Path) -> list[str]:
    options = [
        "-q",
        "-r",
        "-l",
        "inf",
        "--max-threads=16",
        "--reject",
        _NO_PAGES,
        "-P",
        str(folder),
    ]
    if ca_file := os.environ.get("SSL_CERT_FILE"):
        options.append(f"--ca-certificate={ca_file}")
    return ["wget2", *options, url]


def contestants(names: Iterable[str], against: Path | None) -> list[Contestant]:
    """Those that were asked for and are installed, Lycosa first: the floor needs its list of
    pages.
    """
    known = [
        Contestant(
            "lycosa",
            "everything on: robots, state, dedup, language, WARC, CDXJ, Parquet, WET",
            lycosa_command,
        ),
        Contestant(
            "scrapy",
            "LinkExtractor, follows links and counts; stores nothing",
            _python("bench.crawlers.scrapy_links"),
        ),
        Contestant(
            "aiohttp",
            "aiohttp + selectolax on uvloop: fetches and follows links",
            _python("bench.crawlers.aiohttp_links"),
        ),
        Contestant("floor", "libcurl + turbohtml alone, pages known beforehand", _floor),
    ]
    known = [
        each for each in known if all(find_spec(package) for package in _NEEDS.get(each.name, ()))
    ]
    # Code 8 says that some URL was answered with an error, as broken links are.
    known += [
        Contestant(name, does, command, good_codes=(0, 8))
        for name, does, command in (
            ("wget", "wget -r -l inf --warc-file (C): follows links, writes files and WARC", _wget),
            ("wget2", "wget2 -r -l inf (C): follows links, writes files", _wget2),
        )
        if shutil.which(name)
    ]
    if against is not None:
        known.insert(1, Contestant("other", f"Lycosa of {against}", _checkout(against.resolve())))
    wanted = set(names)
    if unknown := wanted - {each.name for each in known}:
        raise SystemExit(
            f"not here: {', '.join(sorted(unknown))}; there are:"
            f" {', '.join(each.name for each in known)}"
        )
    return [each for each in known if not wanted or each.name in wanted]


def run_once(each: Contestant, server: site.Nginx, folder: Path, counts: bool = True) -> None:
    """One run of one crawler in a folder that is deleted afterwards; a run that does not count
    warms the caches.
    """
    own = folder / each.name
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    server.pages_since_last_call()
    cost = measure(each.command(server.url, own), folder / f"{each.name}.log")
    pages, each.requests = server.pages_since_last_call()
    if cost.code not in each.good_codes:
        raise SystemExit(
            f"{each.name} ended with"
            f" {cost.code}:\n{(folder / f'{each.name}.log').read_text()[-3000:]}"
        )
    if cost.seen_s > cost.cpu_s + 0.5:
        raise SystemExit(
            f"{each.name}: /proc showed {cost.seen_s:.2f} s, more than the {cost.cpu_s:.2f} s that"
            " were accounted for"
        )
    if each.pages and pages != each.pages:
        print(f"note: {each.name} fetched {len(pages)} pages this time, {len(each.pages)} before")
    each.pages = pages
    if counts:
        each.costs.append(cost)
    each.disk_bytes = sum(file.stat().st_size for file in own.rglob("*") if file.is_file())
    if each.name == "lycosa":
        (folder / "urls").write_text(
            "\n".join(server.url.rstrip("/") + path for path in sorted(pages))
        )
    shutil.rmtree(own)
    resumed = (
        f", {server.resumed} of {each.requests} TLS sessions resumed" if server.resumed else ""
    )
    remark = resumed if counts else f"{resumed}, not counted"
    print(
        f"  {each.name:8} {len(pages):6} pages {cost.cpu_s:7.2f} s CPU {cost.wall_s:7.2f}"
        f" s {cost.memory_bytes / 1e6:5.0f} MB memory {each.disk_bytes / 1e6:6.1f} MB disk{remark}",
        flush=True,
    )


def run_rounds(
    runners: Sequence[Contestant], rounds: int, server: site.Nginx, folder: Path
) -> None:
    """Each crawler once a round, first in another one each time: what else the machine does then
    concerns all of them alike.
    """
    for each in runners:
        run_once(each, server, folder, counts=False)
    for number in range(rounds):
        first = number % len(runners)
        for each in (*runners[first:], *runners[:first]):
            run_once(each, server, folder)


def ratios(each: Contestant, base: Contestant) -> list[float]:
    """The cost of a page against that of ``base`` in the same round, round by round, in
    ascending order.
    """
    return sorted(own / other for own, other in zip(each.page_ms(), base.page_ms(), strict=True))


def print_table(runners: list[Contestant]) -> None:
    """Costs and ratios, medians of the rounds with the smallest and the largest."""
    base = next((each for each in runners if each.name == "lycosa"), runners[0])
    columns = (
        ("", 8),
        ("pages", 6),
        ("requests", 8),
        ("user s", 7),
        ("sys s", 6),
        ("wall s", 7),
        ("procs", 5),
        ("pages/s", 7),
        ("MB mem", 6),
        ("MB disk", 7),
        ("ms/page", 8),
    )
    print(
        "\n"
        + " ".join(
            f"{title:>{width}}"
            for title, width in (*columns, ("spread", 13), (f"of {base.name}", 9), ("spread", 13))
        )
    )
    for each in runners:
        cost = sorted(each.costs, key=lambda cost: cost.cpu_s)[len(each.costs) // 2]
        spread = f"{min(each.page_ms()):.2f} - {max(each.page_ms()):.2f}"
        used = f"{cost.user_s:7.2f} {cost.system_s:6.2f} {cost.wall_s:7.2f} {cost.processes:5}"
        used += f" {len(each.pages) / cost.wall_s:7.0f} {cost.memory_bytes / 1e6:6.0f}"
        used += f" {each.disk_bytes / 1e6:7.1f}"
        print(
            f"{each.name:8} {len(each.pages):6} {each.requests:8} {used} {each.median_ms():8.3f}"
            f" {spread:>13} {_told(ratios(each, base))}"
        )
    for each in runners:
        print(f"  {each.name}: {each.does}")
    for other, text, wanted in (
        ("scrapy", "Scrapy / Lycosa", "wanted: at least 8"),
        ("floor", "Lycosa / floor", "wanted: at most 4"),
    ):
        found = next((each for each in runners if each.name == other), None)
        if found is not None and base.name == "lycosa":
            pair = (found, base) if other == "scrapy" else (base, found)
            print(f"{text}:{_told(ratios(*pair))} ({wanted})")


def _told(found: Sequence[float]) -> str:
    return f"{statistics.median(found):9.2f} {f'{found[0]:.2f} - {found[-1]:.2f}':>13}"


def print_differences(runners: list[Contestant]) -> None:
    """Pages that one of them fetched and another did not."""
    base = runners[0]
    for each in runners[1:]:
        for who, missed, by in (
            (base, base.pages - each.pages, each),
            (each, each.pages - base.pages, base),
        ):
            if missed:
                shown = ", ".join(sorted(missed)[:_MAX_SHOWN]) + (
                    " ..." if len(missed) > _MAX_SHOWN else ""
                )
                print(f"{len(missed)} pages of {who.name} that {by.name} did not fetch: {shown}")
    if all(each.pages == base.pages for each in runners):
        print("all fetched the same pages")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/page_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=5,
        metavar="N",
        help="rounds; in each, every crawler runs once [5]",
    )
    parser.add_argument(
        "--pages",
        type=int,
        default=0,
        metavar="N",
        help=f"pages of a made site, of 53 KB each [{_PAGES}]",
    )
    parser.add_argument(
        "--size",
        type=int,
        default=0,
        metavar="KB",
        help="made pages so large, with markup and data as portals have them",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="over TLS with a certificate of its own, a new connection for each request",
    )
    parser.add_argument(
        "--docs",
        default="",
        help="installed documentation instead of a made site: java,python,pg, or all",
    )
    parser.add_argument(
        "--only",
        default="",
        help="crawlers: lycosa,scrapy,aiohttp,floor,wget,wget2,other [all that are installed]",
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="DIR",
        help="another checkout of Lycosa as one more crawler, named 'other'",
    )
    parser.add_argument("--no-gzip", action="store_true", help="nginx sends pages as they are")
    parser.add_argument(
        "--stages",
        action="store_true",
        help="where Lycosa's time goes, by a sampling profiler; nothing else is run",
    )
    return parser.parse_args()


def make_site(root: Path, pages: int, size_kb: int, docs: str) -> None:
    """The documentation that was named; else made pages."""
    names = site.available_docs() if docs == "all" else [name for name in docs.split(",") if name]
    if names:
        site.make_docs_site(root, names)
        print(f"documentation: {', '.join(names)}")
    elif size_kb:
        make_large_site(root, pages or _PAGES, size_kb)
        print(f"made site of {pages or _PAGES} pages of {size_kb} KB")
    else:
        site.make_pages_site(root, pages or _PAGES)
        print(f"made site of {pages or _PAGES} pages")


def write_bytecode(runners: Iterable[Contestant]) -> None:
    """Installed packages come with their bytecode, a fresh environment may not: compiling must
    not count as a start.
    """
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""
    modules = [
        "lycosa.cli.crawl",
        "lycosa.processes.supervisor",
        "lycosa.processes.worker_process",
        "lycosa.stages.parse.parser_process",
        "py3langid.langid",
    ]
    modules += [f"bench.crawlers.{each.name}_links" for each in runners if each.name in _NEEDS]
    modules += (
        ["scrapy.crawler", "twisted.internet.asyncioreactor"]
        if any(each.name == "scrapy" for each in runners)
        else []
    )
    subprocess.run([sys.executable, "-c", f"import {', '.join(modules)}"], check=True)
    # "other" is run from its own checkout, whose bytecode its first run, which is not counted,
    # writes.


def main() -> None:
    options = arguments()
    os.chdir(Path(__file__).parents[1])
    print(described())
    runners = contestants(filter(None, options.only.split(",")), options.against)
    write_bytecode(runners)
    with TemporaryDirectory(prefix="page-cost-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx's worker is another user when this is root
        make_site(folder / "site", options.pages, options.size, options.docs)
        with site.Nginx(
            folder / "site",
            folder / "nginx",
            not options.no_gzip,
            tls=options.tls,
            keeps=not options.tls,
        ) as server:
            if options.tls:
                # OpenSSL's own name for it: all but wget2 go by that
                os.environ["SSL_CERT_FILE"] = str(server.certificate)
            if options.stages:
                from bench.stages import print_stages

                print_stages(lycosa_command, server.url, folder)
                return
            run_rounds(runners, options.runs, server, folder)
    print_table(runners)
    print_differences(runners)


if __name__ == "__main__":
    main()
