"""Whether a checkout costs more than another one: CPU time in interleaved pairs, and calls of
Python functions.

``bench/gate BASE [HEAD]``; see README.md beside this file. BASE and HEAD are commits, or folders of
checkouts with an environment; HEAD is this checkout if it is not given. Sites, commands and
counters come from this checkout, so both are measured on the same work.

CPU seconds need a quiet machine: each round runs base, head, head, base, and a ratio is that of two
runs next to each other. The calls of a page need none, and decide the exit code.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import site
from bench.calls import COUNTER, Calls, calls_a_unit, fewer, largest_differences, read_counts
from bench.interpreter import described
from bench.measure import measure
from bench.page_cost import LYCOSA

ROOT = Path(__file__).parents[1]
BOUND = 1.02
"""The largest ratio of calls, head to base, that passes."""
MEASURES = ("docs", "page", "frontier")
_FEW_PAGES, _MANY_PAGES = 100, 500
_FEW_LINKS, _MANY_LINKS = 50_000, 150_000
_PAUSE_CALLS = 100  # a millisecond after so many: the crawl takes about three times as long
_DOCS_PAGES = 1500  # of the made site, where no documentation is installed
_MAX_SHOWN = 20
_FRONTIER = ["--millions", "0.1", "--warm", "50000"]


@dataclass(frozen=True)
class Checkout:
    """A state of the program, with its own environment."""

    name: str
    root: Path

    def crawl(self, url: str, folder: Path, *more: str) -> list[str]:
        program = self.root / ".venv" / "bin" / "lycosa"
        return [str(program), "crawl", url, "--dir", str(folder), *LYCOSA, *more]

    def frontier(self, links: int) -> list[str]:
        """The frontier's benchmark of that checkout: it uses the inside of the program, which
        differs. An assertion of the oldest one fails, hence -O.
        """
        python = self.root / ".venv" / "bin" / "python"
        command = [str(python), "-O", "-m", "bench.frontier", *_FRONTIER, "--links", str(links)]
        return ["env", "-C", str(self.root), *command]


@dataclass
class Pairs:
    """What was measured of both, in order: the first value of one belongs to the first of the
    other.
    """

    unit: str
    base: list[float] = field(default_factory=list)
    head: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Head to base, of each pair."""
        return [head / base for base, head in zip(self.base, self.head, strict=True)]

    def as_json(self) -> dict[str, Any]:
        return {"unit": self.unit, "base": self.base, "head": self.head, "ratios": self.ratios}


def frontier_cost(output: str) -> float:
    """Microseconds a link, as ``bench.frontier`` prints them."""
    found = re.search(r"\(([\d.]+) us a link\)", output)
    if found is None:
        raise SystemExit(f"bench.frontier printed no cost of a link:\n{output[-2000:]}")
    return float(found[1])


def in_turn(rounds: int) -> Iterator[tuple[str, str]]:
    """Who runs, two at a time: the order turns, so that what changes steadily (a machine that
    gets busier) concerns both alike.
    """
    for _ in range(rounds):
        yield "base", "head"
        yield "head", "base"


def pairs_table(measured: dict[str, Pairs]) -> str:
    """Medians, minima and spread of both, and the ratios of the pairs."""
    lines = [
        f"{'':9} {'':10} {'median':>8} {'minimum':>8} {'maximum':>8}"
        f"   {'head / base: median':>20} {'of minima':>9}  of each pair"
    ]
    for name, pairs in measured.items():
        for who, values in (("base", pairs.base), ("head", pairs.head)):
            numbers = f"{statistics.median(values):8.3f} {min(values):8.3f} {max(values):8.3f}"
            line = f"{name:9} {who:4} {pairs.unit:>5} {numbers}"
            if who == "head":
                each = " ".join(f"{ratio:.3f}" for ratio in pairs.ratios)
                of_minima = min(pairs.head) / min(pairs.base)
                line += f"   {statistics.median(pairs.ratios):20.3f} {of_minima:9.3f}  {each}"
            lines.append(line)
    return "\n".join(lines)


def sums(calls: dict[str, dict[str, float]]) -> dict[str, float]:
    """All calls of each part, and of all parts together."""
    found = {part: sum(functions.values()) for part, functions in sorted(calls.items())}
    return {**found, "both": sum(found.values())} if len(found) > 1 else found


def calls_table(base: dict[str, dict[str, float]], head: dict[str, dict[str, float]]) -> str:
    """Calls of one more page or link by part, and the functions that differ most."""
    before, after = sums(base), sums(head)
    lines = [
        f"{part:9} base {before.get(part, 0.0):9.2f}  head {after[part]:9.2f}"
        f"  head / base {_ratio(before, after, part):6.3f}"
        for part in after
    ]
    for part, functions in sorted(head.items()):
        lines.append(f"  {part}: functions that differ most")
        for name, was, now in largest_differences(base.get(part, {}), functions, _MAX_SHOWN):
            lines.append(f"    {was:8.2f} {now:8.2f} {now - was:+8.2f}  {name}")
    return "\n".join(lines)


def _ratio(before: dict[str, float], after: dict[str, float], part: str) -> float:
    return after[part] / before[part] if before.get(part) else float("inf")


def exceeded(
    name: str, base: dict[str, dict[str, float]], head: dict[str, dict[str, float]]
) -> list[str]:
    """A sentence for each part whose calls are above the bound."""
    before, after = sums(base), sums(head)
    ratios = {part: _ratio(before, after, part) for part in after}
    return [
        f"{name}, {part}: {ratio:.3f} times the calls of the base, more than {BOUND:g}"
        for part, ratio in ratios.items()
        if ratio > BOUND
    ]


class Gate:
    """Measures two checkouts in a folder of its own."""

    def __init__(self, base: Checkout, head: Checkout, folder: Path, say: Callable[[str], None]):
        self._both = {"base": base, "head": head}
        self._folder, self._say = folder, say
        self._log = folder / "log"

    def measure_pairs(self, name: str, rounds: int) -> Pairs:
        """CPU time of one measure, base and head in turn; a run of each before does not count."""
        with ExitStack() as stack:
            url = ""
            if name != "frontier":
                url = stack.enter_context(self._served(name)).url
            pairs = Pairs("us" if name == "frontier" else "s")
            for who in ("base", "head"):
                self._cost(name, who, url)
            for pair in in_turn(rounds):
                for who in pair:
                    cost = self._cost(name, who, url)
                    getattr(pairs, who).append(cost)
                    self._say(f"  {name} {who}: {cost:.3f} {pairs.unit}")
            return pairs

    def _served(self, name: str) -> site.Nginx:
        root = self._folder / name
        known = [each for each in site.available_docs() if each != "java"]
        if name == "docs" and known:
            site.make_docs_site(root, known)
        else:
            site.make_pages_site(root, 20 if name == "page" else _DOCS_PAGES)
        self._say(f"{name}: {', '.join(known) if name == 'docs' and known else 'made pages'}")
        return site.Nginx(root, self._folder / f"nginx-{name}")

    def _cost(self, name: str, who: str, url: str) -> float:
        checkout, crawl = self._both[who], self._folder / "crawl"
        if name == "frontier":
            self._run(checkout.frontier(_MANY_LINKS))
            return frontier_cost(self._log.read_text())
        limit = ("--max-pages", "1") if name == "page" else ()
        cost = self._run(checkout.crawl(url, crawl, *limit), stops=bool(limit))
        shutil.rmtree(crawl)
        return cost

    def _run(
        self, command: Sequence[str], env: dict[str, str] | None = None, *, stops: bool = False
    ) -> float:
        """CPU seconds. A crawl that a limit stops has its own exit code."""
        cost = measure(command, self._log, env)
        if cost.code != 0 and not (stops and cost.code == 3):
            raise SystemExit(
                f"{' '.join(command)} ended with {cost.code}:\n{self._log.read_text()[-3000:]}"
            )
        return cost.cpu_s

    def count_page(self) -> dict[str, dict[str, dict[str, float]]]:
        """Calls of one more page, of base and head by part."""
        with ExitStack() as stack:
            urls = {}
            for pages in (_FEW_PAGES, _MANY_PAGES):
                root = self._folder / f"pages-{pages}"
                if not root.exists():  # made already when the calls are counted once more
                    site.make_pages_site(root, pages)
                served = site.Nginx(root, self._folder / f"nginx-{pages}")
                urls[pages] = stack.enter_context(served).url
            found = {}
            for who, checkout in self._both.items():
                small, large, slow = (
                    self._count(checkout.crawl(urls[pages], self._folder / "crawl"), pause)
                    for pages, pause in (
                        (_FEW_PAGES, 0),
                        (_MANY_PAGES, 0),
                        (_MANY_PAGES, _PAUSE_CALLS),
                    )
                )
                found[who] = calls_a_unit(small, large, _MANY_PAGES - _FEW_PAGES, slow)
                self._say(f"  calls of {who}: {sums(found[who])}")
            return found

    def count_link(self) -> dict[str, dict[str, dict[str, float]]]:
        """Calls of one more link in ``bench.frontier``, of base and head."""
        found = {}
        for who, checkout in self._both.items():
            small, large = (
                self._count(checkout.frontier(links)) for links in (_FEW_LINKS, _MANY_LINKS)
            )
            found[who] = calls_a_unit(small, large, _MANY_LINKS - _FEW_LINKS)
            self._say(f"  calls of {who}: {sums(found[who])}")
        return found

    def _count(self, command: Sequence[str], pause: int = 0) -> Calls:
        counts = self._folder / "counts"
        counts.mkdir()
        env = {
            "PYTHONPATH": str(COUNTER),
            "PYTHON_CALL_COUNTS": str(counts),
            "PYTHON_CALL_COUNTS_PAUSE": str(pause),
        }
        began = time.monotonic()
        self._run(command, env)
        calls = Calls(read_counts(counts), time.monotonic() - began)
        shutil.rmtree(counts)
        shutil.rmtree(self._folder / "crawl", ignore_errors=True)
        return calls


@contextmanager
def checked_out(name: str, folder: Path) -> Iterator[Checkout]:
    """A folder as it is; a commit as a work tree with an environment, removed afterwards."""
    if (Path(name) / "pyproject.toml").is_file():
        root = Path(name).resolve()
        if not (root / ".venv" / "bin" / "lycosa").exists():
            raise SystemExit(f"{root} has no environment: run script/setup there first")
        yield Checkout(name, root)
        return
    root = folder / f"checkout-{re.sub('[^A-Za-z0-9]', '-', name)}"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(root), name], check=True)
    try:
        env = {**os.environ, "SETUP_PYTHON": str(Path(sys.executable).resolve())}
        subprocess.run([root / "script" / "setup", "run"], check=True, env=env)
        yield Checkout(name, root)
    finally:
        subprocess.run([*git, "remove", "--force", str(root)], check=True)


def write_bytecode(checkout: Checkout) -> None:
    """Compiling must not count as a start."""
    python = checkout.root / ".venv" / "bin" / "python"
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    command = [python, "-m", "compileall", "-q", checkout.root / "src" / "lycosa"]
    subprocess.run(command, check=True, env=env)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/gate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", help="a commit, or the folder of a checkout")
    parser.add_argument("head", nargs="?", default=str(ROOT), help="the same [this checkout]")
    parser.add_argument(
        "--rounds",
        type=int,
        default=2,
        metavar="N",
        help="of two pairs each; 0: only calls, which need no quiet machine [2]",
    )
    parser.add_argument(
        "--only", default=",".join(MEASURES), help=f"which measures [{','.join(MEASURES)}]"
    )
    parser.add_argument("--json", action="store_true", help="the figures as JSON, without remarks")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    names = [name for name in options.only.split(",") if name]
    if unknown := set(names) - set(MEASURES):
        raise SystemExit(f"--only {','.join(unknown)}: there are {', '.join(MEASURES)}")
    os.chdir(ROOT)
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    say(described())
    with TemporaryDirectory(prefix="gate-") as path, ExitStack() as stack:
        folder = Path(path)
        folder.chmod(0o755)  # nginx's worker is another user when this is root
        base, head = (
            stack.enter_context(checked_out(name, folder)) for name in (options.base, options.head)
        )
        for checkout in (base, head):
            write_bytecode(checkout)
        gate = Gate(base, head, folder, say)
        calls = {}
        if {"docs", "page"} & set(names):
            calls["a page"] = found = gate.count_page()
            if exceeded("", found["base"], found["head"]):
                say("  more than the bound: counted once more, the smaller counts decide")
                again = gate.count_page()
                calls["a page"] = {who: fewer(each, again[who]) for who, each in found.items()}
        if "frontier" in names:
            calls["a link of the frontier"] = gate.count_link()
        pairs = {name: gate.measure_pairs(name, options.rounds) for name in names if options.rounds}
    if options.json:
        told = {name: each.as_json() for name, each in pairs.items()}
        print(json.dumps({"cpu": told, "calls": calls}, indent=1))
    else:
        print(f"base: {options.base}, head: {options.head}")
        if pairs:
            print(pairs_table(pairs))
        for name, both in calls.items():
            print(f"\nPython calls of {name}\n{calls_table(both['base'], both['head'])}")
    over = [
        each for name, both in calls.items() for each in exceeded(name, both["base"], both["head"])
    ]
    for line in over:
        say(line)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
