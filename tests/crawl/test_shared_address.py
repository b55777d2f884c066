"""Many hosts on one address beside a few on addresses of their own: nobody is kept out, and
nothing is lost when the crawl is killed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from judging import are_balanced, is_polite, new_folder, quick_config, tables
from lycosa.base.config.sections import FrontierSection, PolitenessSection
from lycosa.base.model.end import End
from lycosa.state.kv.table_records import prefix_end
from lycosa.synthetic import Response, SyntheticWeb, WebPlan
from scripted import page
from virtual_crawl import VirtualCrawl

ROOT = Path(__file__).parents[2]
_PAGES = 4


def test_hosts_of_their_own_keep_their_rate_beside_many_of_one_address_which_is_used_to_the_full() -> (
    None
):
    """The short form of ``bench/shared_address.py``, which ends with 1 when either loses more
    than 5 %.
    """
    command = [
        sys.executable,
        "-m",
        "bench.shared_address",
        "--shared",
        "500",
        "--own",
        "20",
        "--seconds",
        "100",
        "--workbench",
        "200",
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"workbench 200: 20 hosts [\d.]+ requests/s alone", ran.stdout), ran.stdout


class Shops:
    """Hosts of four pages, each of which names the next."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        origin, number = url[: url.index("/", 8) + 1], url.rpartition("/")[2]
        if not number.isdecimal():
            return Response(404, [], b"", 0.05)
        after = int(number) + 1
        return page(*[f"{origin}{after}"][: after < _PAGES])


class Addresses:
    """Names that begin with ``shop`` have the same address."""

    async def resolve(self, name: str) -> Sequence[str]:
        return [
            "198.18.0.1" if name.startswith("shop") else f"198.18.1.{name[3 : name.index('.')]}"
        ]

    async def close(self) -> None:
        """Nothing is held."""


def test_a_crawl_of_many_hosts_on_one_address_ends_complete_over_stops(tmp_path: Path) -> None:
    """The workbench has places for fewer hosts than there are, so most wait in the line of the
    address, over two restarts as well.
    """
    politeness = PolitenessSection(delay_s=0.5, adaptive_factor=0.0)
    config = quick_config(
        politeness=politeness, frontier=FrontierSection(partitions=3, bands=4, head=6, workbench=24)
    )
    crawl = VirtualCrawl(new_folder(tmp_path / "c"), SyntheticWeb(WebPlan()), config)
    crawl.answers, crawl.resolver = Shops(), Addresses()
    hosts = [f"shop{n}.s{n}.example" for n in range(120)] + [
        f"own{n}.o{n}.example" for n in range(6)
    ]
    seeds = [f"http://{host}/0" for host in hosts]
    for seconds in (20.0, 40.0):
        crawl.longest_s = seconds
        with pytest.raises(TimeoutError):
            crawl.run(seeds)
        seeds = []
        assert lines_of(crawl) > 0
        are_balanced(crawl)
    crawl.longest_s = 10_000.0
    assert crawl.run().end is End.FINISHED
    assert are_balanced(crawl).pages == _PAGES * len(hosts)
    assert lines_of(crawl) == 0
    is_polite(crawl.log, politeness)


def lines_of(crawl: VirtualCrawl) -> int:
    """Places in lines of addresses, as committed."""
    with tables(crawl) as opened:
        return sum(1 for table in opened for _ in table.scan(b"W", prefix_end(b"W")))
