"""The programs of docs/extensions.md, as they are written there, over a shop on loopback."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from test_python_page import LOOPBACK, ROOT, ran

from lycosa.synthetic import Response
from serving import served

PROGRAMS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/extensions.md").read_text("utf-8"), re.S
)
HTML = ("Content-Type", "text/html; charset=utf-8")
PAGES = {
    "/": "<a href=/category/lamps>lamps</a>",
    "/category/lamps": "<a href=/product/1>Desk lamp</a><button data-next='?page=2'>more</button>",
    "/category/lamps?page=2": "<a href=/product/2>Chair</a>",
    "/product/1": "<article class=product><h2>Desk lamp</h2>"
    "<meta itemprop=price content=19.5></article>",
    "/product/2": "<article class=product><h2>Chair</h2></article>",
}


class Shop:
    """Answers every host with the same few pages."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        text = PAGES.get("/" + url.split("/", 3)[3])
        return Response(404, [HTML], b"") if text is None else Response(200, [HTML], text.encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(PROGRAMS[0])
    return tmp_path


def test_the_test_of_the_page_passes(folder: Path) -> None:
    assert ran(PROGRAMS[2], folder) == "passed\n"


def test_the_program_of_the_page_makes_the_table(folder: Path) -> None:
    with served(Shop()) as port:
        code = PROGRAMS[1].replace("https://shop.example/", f"http://shop.example:{port}/")
        code = code.replace("lycosa.settings(", "on_loopback(")
        output = ran(f"from test_readme import on_loopback\n{code}", folder)
    assert output.splitlines() == ["5 captures"]
    assert table(folder, "shop") == "name,price,currency\nChair,,EUR\nDesk lamp,19.5,EUR\n"


def table(folder: Path, crawl: str) -> str:
    sql = "SELECT name, price, currency FROM products ORDER BY name"
    done = lycosa_in(folder, "sql", crawl, "--format", "csv", sql)
    return done.stdout


def lycosa_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lycosa")
    return subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_command_of_the_page_makes_the_same_table(folder: Path) -> None:
    sets = [part for key, value in LOOPBACK.items() for part in ("--set", f"{key}={value}")]
    given = ("products", "next_pages", "lamps_first")
    named = [part for each in given for part in ("--extension", f"./shop.py:{each}")]
    with served(Shop()) as port:
        url = f"http://shop.example:{port}/"
        done = lycosa_in(folder, "crawl", url, "--dir", "c", "--contact", "a@b.test", *sets, *named)
    assert done.returncode == 0, done.stderr
    assert table(folder, "c").count("\n") == 3


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("./missing.py:products", "missing.py"),
        ("./shop.py:lamps", "there is no lamps; it has products, next_pages, lamps_first"),
        ("./shop.py", "write FILE.py:NAME"),
        ("./odd.py:rows", "the field Odd.price has the type Decimal"),
    ],
)
def test_what_cannot_run_ends_the_start_before_anything_is_written(
    folder: Path, named: str, said: str
) -> None:
    (folder / "odd.py").write_text(
        "import decimal, lycosa\nclass Odd(lycosa.Item):\n    price: decimal.Decimal\n"
        "@lycosa.extract(Odd)\ndef rows(page): ...\n"
    )
    done = lycosa_in(
        folder, "crawl", "http://shop.example/", "--dir", "c", "--contact", "a@b.test",
        "--extension", named,
    )  # fmt: skip
    assert done.returncode and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not (folder / "c").exists()
