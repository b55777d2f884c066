"""The programs of docs/python.md and of examples/, as they are written there, on a synthetic web:
only the seed's URL, the folder and what loopback needs are put in their place.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from test_readme import on_loopback

import lycosa
from lycosa.synthetic import Response, SyntheticWeb, WebPlan
from serving import served

ROOT = Path(__file__).parents[2]
LOOPBACK = {
    "dns.pins": "*=127.0.0.1",
    "fetch.allow_addresses": "127.0.0.0/8",
    "politeness.delay_s": 0,
    "politeness.address_delay_s": 0,
    "frontier.partitions": 4,
}


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text("utf-8"), re.S)


def ran(code: str, folder: Path) -> str:
    """The output of a program that is run in a folder."""
    (folder / "program.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "program.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "tests/crawl") + os.pathsep + str(ROOT / "tests"),
        },
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_programs_of_the_page_run_one_after_the_other_in_one_folder(tmp_path: Path) -> None:
    first, second, third = programs()
    web = SyntheticWeb(WebPlan(hosts=1, pages=30))
    with served(web) as port:
        here = "from test_readme import on_loopback\n"

        def local(code: str) -> str:
            code = code.replace("https://example.org/", web.seed_url(port=port))
            return here + code.replace("lycosa.settings(", "on_loopback(")

        output = ran(local(first), tmp_path)
        assert "limit\n20\ncaptures in this run" in output
        titles = ran(local(second), tmp_path).splitlines()
        assert titles and all(titles)
        lines = ran(third, tmp_path).splitlines()
    assert len(lines) == len(titles) + 1 and lines[-1].endswith(" words")
    assert on_loopback({}).dns.pins


class Shop:
    """A shop with five products, a basket, and prices in microdata."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        path = "/" + url.split("/", 3)[3]
        kind = ("Content-Type", "text/html; charset=utf-8")
        if path == "/robots.txt":
            return Response(404, [], b"")
        assert not path.startswith("/basket")
        links = "".join(f'<a href="/product/{n}">x</a>' for n in range(5))
        body = f'<title>Shop</title>{links}<a href="/basket">b</a>'
        if path.startswith("/product/"):
            number = path.rpartition("/")[2]
            body += (
                f'<h1 itemprop="name">Lämp {number}</h1><b itemprop="price" content="{number}.50">'
            )
        return Response(200, [kind], body.encode())


def test_the_example_writes_the_products_of_a_shop_and_the_same_again(tmp_path: Path) -> None:
    code = (ROOT / "examples/products.py").read_text("utf-8")
    with served(Shop()) as port:
        code = code.replace(
            "main(*sys.argv[1:3])",
            f"main('http://shop.example:{port}/', 'products.csv', **{LOOPBACK!r})",
        )
        for _ in range(2):
            assert ran(code, tmp_path) == "5 products in products.csv\n"
            with (tmp_path / "products.csv").open(encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            assert [(row["name"], row["price"]) for row in rows] == [
                (f"Lämp {n}", f"{n}.50") for n in range(5)
            ]
    stored = {page.url.rpartition("/")[2] for page in lycosa.open(tmp_path / "products").pages()}
    assert stored == {"", "0", "1", "2", "3", "4"}
