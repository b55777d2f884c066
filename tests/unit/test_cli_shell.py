"""``lycosa shell`` and ``lycosa init``: a page at a prompt, and a folder to begin with."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pytest
import yaml

from crawling import Pages, moved, page, robots
from lycosa.base.config.sources import load_settings
from lycosa.cli.main import main
from lycosa.synthetic import Response
from serving import served
from shop_crawl import CODE, SHOP, code_file, extract, shop_page, some_captures, write_crawl

SETTINGS = (
    *("dns.pins=*=127.0.0.1", "fetch.allow_addresses=127.0.0.0/8"),
    *("agent.contact=you@example.org", "politeness.delay_s=0", "politeness.address_delay_s=0"),
)


class Later:
    """A web whose pages are known when its port is."""

    def __init__(self, answers: dict[str, Response]) -> None:
        self._answers = answers

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        return Pages(self._answers).respond(url, at, headers)


def shell(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert main(["shell", *map(str, arguments)]) == code
    found = capsys.readouterr()
    return found.out if code == 0 else found.err


def test_a_file_is_a_page_with_the_given_url(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lamp.html"
    path.write_bytes(shop_page(7) + b"<a href=/next>next</a>")
    url = ("--url", "https://shop.example/product/7")
    assert shell(capsys, path, "-c", 'page.select_one("h2").text') == "Lamp 7\n"
    assert shell(capsys, path, *url, "-c", "page.links[0].url") == "https://shop.example/next\n"
    assert shell(capsys, path, "-c", "number = 1; print(number + 1)") == "2\n"


def test_a_prompt_has_the_page(tmp_path: Path) -> None:
    path = tmp_path / "lamp.html"
    path.write_bytes(shop_page(7))
    done = subprocess.run(
        [sys.executable, "-m", "lycosa", "shell", str(path)],
        input=b'page.select_one("h2").text\n',
        capture_output=True,
        check=True,
    )
    assert b"'Lamp 7'" in done.stdout
    assert b"text/html" in done.stderr and b"page.select" in done.stderr


def test_a_url_is_fetched_as_in_a_crawl_and_nothing_remains(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = set(Path(tempfile.gettempdir()).glob("lycosa-shell-*"))
    answers: dict[str, Response] = {}
    with served(Later(answers)) as port:
        site = f"http://shop.test:{port}"
        answers |= {
            f"{site}/robots.txt": robots("User-agent: *", "Disallow: /private"),
            f"{site}/old": moved(f"{site}/new"),
            f"{site}/new": page(f"{site}/other", title="New"),
        }
        options = [part for each in SETTINGS for part in ("--set", each)]
        found = shell(capsys, f"{site}/old", *options, "-c", "page.url, page.title")
        assert found == f"({site + '/new'!r}, 'New')\n"
        refused = shell(capsys, f"{site}/private", *options, "-c", "page", code=5)
        assert "robots" in refused
    assert set(Path(tempfile.gettempdir()).glob("lycosa-shell-*")) <= before


def test_a_private_address_is_allowed_by_an_option_that_the_message_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers: dict[str, Response] = {}
    with served(Later(answers)) as port:
        url = f"http://127.0.0.1:{port}/lamp"
        answers |= {url: page(title="Lamp")}
        quick = [part for each in SETTINGS[2:] for part in ("--set", each)]
        refused = shell(capsys, url, *quick, "-c", "page.title", code=5)
        assert f"lycosa shell {url} --allow-address 127.0.0.1" in refused
        assert "lycosa-shell-" not in refused, "the folder of the request does not remain"
        allowed = ("--allow-address", "127.0.0.1")
        assert shell(capsys, url, *quick, *allowed, "-c", "page.title") == "Lamp\n"
        named = f"http://nowhere.invalid:{port}/lamp"
        answers |= {named: page(title="Named")}
        refused = shell(capsys, named, *quick, "-c", "page.title", code=5)
        assert "--resolve NAME=ADDRESS" in refused and refused.count("does not exist") == 1
        pinned = ("--resolve", "nowhere.invalid=127.0.0.1", *allowed)
        assert shell(capsys, named, *quick, *pinned, "-c", "page.title") == "Named\n"


def test_a_statement_that_raises_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lamp.html"
    path.write_bytes(shop_page(7))
    for statement, raised in (
        ('page.select_one("h9").text', "AttributeError: 'NoneType' object has no attribute 'text'"),
        ("1 +", "SyntaxError: "),
    ):
        said = shell(capsys, path, "-c", statement, code=2)
        assert said.startswith(f"lycosa: -c: {raised}") and "internal" not in said


def test_a_stored_page_is_the_newest_of_its_url(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = shell(capsys, tmp_path, "-c", "page", code=2)
    assert "is a folder: give the URL of a stored page too" in message


def test_what_init_writes_is_sound_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["init", "my-shop", "--seed", "https://a.example/x?y='z\"", "--json"]
    assert main([*given, "--contact", 'me "at" a.example']) == 0
    found = json.loads(capsys.readouterr().out)
    folder = tmp_path / "my-shop"
    assert sorted(found["files"]) == sorted(path.name for path in folder.iterdir())
    config = load_settings(folder / "crawl.toml", {}).config
    assert config.agent.contact == 'me "at" a.example'
    assert list(config.extensions.code) == ["./my_shop.py:my_shop"]
    (service,) = yaml.safe_load((folder / "compose.yaml").read_text())["services"].values()
    assert service["command"] == ["crawl", "https://a.example/x?y=%27z%22", "--config", "crawl.toml", "--dir", "data"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    assert b"2 passed" in done.stdout
    alone = subprocess.run(
        [sys.executable, "test_my_shop.py"], cwd=folder, stdout=subprocess.PIPE, check=True
    )
    assert alone.stdout == b"passed\n", "also where there is no pytest"
    assert main(given) == 2 and "is not replaced" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["9lives", "pages", "class", "lycosa", "a b"])
def test_a_name_that_no_table_or_module_can_have_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", name]) == 2
    assert "give another name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the crawl's folder and the code"),
        (["./shop.py:products"], "is the code; the folder of the crawl comes first"),
        (["crawl", "shop.py"], "the last argument is the code"),
        (["crawl", "more", "shop.py:x"], "one crawl, one code"),
        (["crawl", "shop.py:x", "--again", "--failed"], "exclude each other"),
        (["crawl", "shop.py:x", "--watch", "--again"], "so --again cannot be given too"),
        (["crawl", "shop.py:x", "--sample", "2", "--to", "out"], "so --to cannot be given too"),
        (["--warc", "shop.py:x", "--to", "out"], "--warc needs files"),
        (["--warc", "a.warc", "shop.py:x"], "--warc and --to belong together"),
        (["crawl", "--forget", "products", "two"], "the name of an extractor"),
        (["crawl", "shop.py:x"], "is not a crawl"),
    ],
)
def test_wrong_arguments_of_extract_are_explained(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["extract", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_code_is_tried_on_stored_pages_and_nothing_is_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "crawl"
    write_crawl(folder, some_captures(6), segment_bytes=100_000)
    before = sorted(folder.rglob("*"))
    code = code_file(tmp_path)
    given = ["extract", str(folder), f"{code}:products", "--processes", "1", "--sample", "3"]
    assert main(given) == 0
    first = capsys.readouterr().out
    assert first.count("  products: {") == 3 and "3 pages: 3 items, 0 failed;" in first
    assert main([*given, "--json"]) == 0
    pages = json.loads(capsys.readouterr().out)["pages"]
    assert [f"{page['url']}\n" in first for page in pages] == [True] * 3
    code.write_text(CODE.replace("    for box in", "    page.missing()\n    for box in"))
    assert main(given) == 2
    assert capsys.readouterr().out.count("  failed: ") == 3
    assert sorted(folder.rglob("*")) == before


def test_a_change_of_the_code_is_tried_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    write_crawl(folder, some_captures(4), segment_bytes=100_000)
    code = code_file(tmp_path)
    given = ["extract", str(folder), f"{code}:products", "--processes", "1", "--watch", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "lycosa", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None and watching.stderr is not None
        assert [len(page["items"]["products"]) for page in _pages(watching.stdout)] == [1] * 3
        _replace(code, "def products(:")
        assert "waiting for a change" in watching.stderr.readline()
        assert "SyntaxError" in watching.stderr.readline()
        _replace(code, CODE.replace("    for box in", "    return\n    for box in"))
        assert [page["items"] for page in _pages(watching.stdout)] == [{"products": []}] * 3
        watching.terminate()


def _replace(path: Path, text: str) -> None:
    """Write a file at once: half of it would be another change."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def _pages(output: IO[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(output.readline())["pages"]
    return found


def test_a_feed_sends_those_who_look_for_extracted_items_to_the_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "crawl"
    write_crawl(folder, some_captures(3), segment_bytes=100_000)
    extract(folder, code_file(tmp_path))
    to = ("--to", str(tmp_path / "rows.csv"))
    assert main(["feed", "items.products", str(folder), *to]) == 2
    assert "`lycosa export DIR products` has it" in capsys.readouterr().err


def test_forgetting_a_version_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "crawl"
    write_crawl(folder, some_captures(3), segment_bytes=100_000)
    extract(folder, code_file(tmp_path))
    assert main(["extract", str(folder), "--forget", "products", "2"]) == 2
    assert "there are 1" in capsys.readouterr().err
    assert main(["extract", str(folder), "--forget", "products", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "products", "removed": {"1": 1}}
    assert SHOP
