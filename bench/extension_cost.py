"""What user code costs: captures a second and CPU a page with an extractor, against none.

``python -m bench.extension_cost [--pages N] [--runs N]``. The same generated site on nginx is
crawled by one worker without user code, with an extractor that matches one page in ten, and with
one that matches all. The extractor is an ordinary one: three selectors and the fields of their
elements. A ratio is that of two runs of the same round, because load comes and goes in minutes.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import site
from bench.interpreter import described
from bench.measure import Cost, measure
from bench.page_cost import lycosa_command

CODE = """
import lycosa

class Page(lycosa.Item, frozen=True):
    title: str
    links: int
    words: int
    first: str | None

def _page(page):
    found = page.select_one("h1,h2,p")
    words = sum(len(each.text.split()) for each in page.select("p"))
    yield Page(page.title, len(page.select("a[href]")), words, found.text[:80] if found else None)

@lycosa.extract(Page, match="[13579]7[.]html$|[02468]3[.]html$")
def tenth(page):
    yield from _page(page)

@lycosa.extract(Page)
def every(page):
    yield from _page(page)
"""
KINDS = ("none", "tenth", "every")


def crawl_cost(kind: str, url: str, folder: Path) -> Cost:
    """The cost of a crawl with this extractor."""
    folder.mkdir()
    given = [] if kind == "none" else ["--extension", f"{folder.parent / 'code.py'}:{kind}"]
    found = measure([*lycosa_command(url, folder), *given, "--workers", "1"], folder / "log")
    if found.code:
        raise SystemExit((folder / "log").read_text()[-2000:])
    return found


def print_table(costs: dict[str, list[Cost]], pages: int) -> None:
    """A row for each extractor; shares are medians over rounds."""
    print(f"{'extractor':10} {'pages/s':>8} {'share':>7} {'CPU ms/page':>12} {'more':>7}")
    for kind in KINDS:
        rates = [pages / each.wall_s for each in costs[kind]]
        share = statistics.median(
            plain.wall_s / each.wall_s
            for plain, each in zip(costs["none"], costs[kind], strict=True)
        )
        cpu = [1000 * each.cpu_s / pages for each in costs[kind]]
        more = statistics.median(
            1000 * (each.cpu_s - plain.cpu_s) / pages
            for plain, each in zip(costs["none"], costs[kind], strict=True)
        )
        row = f"{kind:10} {statistics.median(rates):8.1f} {share:7.3f}"
        print(f"{row} {statistics.median(cpu):12.2f} {more:+7.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1500)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    os.chdir(Path(__file__).parents[1])
    print(described())
    costs: dict[str, list[Cost]] = {kind: [] for kind in KINDS}
    with TemporaryDirectory(prefix="extension-cost-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx's worker is another user when this is root
        (folder / "code.py").write_text(CODE)
        site.make_pages_site(folder / "site", options.pages)
        with site.Nginx(folder / "site", folder / "nginx", True) as server:
            for run in range(options.runs + 1):  # the first one fills caches
                for kind in KINDS:
                    found = crawl_cost(kind, server.url, folder / f"{kind}-{run}")
                    pages = len(server.pages_since_last_call()[0])
                    if run:
                        costs[kind].append(found)
    print_table(costs, pages)


if __name__ == "__main__":
    main()
