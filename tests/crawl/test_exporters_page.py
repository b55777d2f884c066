"""The programs and commands of docs/exporters.md, on a small crawl."""

from __future__ import annotations

import base64
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_python_page import Shop

from item_crawl import ItemCrawl
from lycosa.base.config.feature_sections import WebhookSection
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.state.objects.folder import FolderStore
from lycosa.state.store.item_versions import CurrentVersion, set_current
from lycosa.synthetic import Response
from serving import served

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/exporters.md").read_text("utf-8")
LOOPBACK = {
    "dns.pins": "*=127.0.0.1",
    "fetch.allow_addresses": "127.0.0.0/8",
    "politeness.delay_s": "0",
    "politeness.address_delay_s": "0",
    "frontier.partitions": "4",
    "agent.contact": "you@example.org",
}


class Lamps(Shop):
    """The shop without its basket."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        answer = super().respond(url, at, headers)
        body = answer.body.replace(b'<a href="/basket">b</a>', b"")
        return Response(answer.status, answer.headers, body)


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", TEXT, re.S)


def ran(code: str, folder: Path) -> str:
    """The output of a program that is run in a folder."""
    (folder / "program.py").write_text(code)
    command = [sys.executable, "program.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def crawl(folder: Path, port: int, **settings: str) -> None:
    """Crawl the shop by the command line."""
    values = {**LOOPBACK, **settings}
    sets = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    seed = f"http://shop.example:{port}/"
    command = [sys.executable, "-m", "lycosa", "crawl", seed, "--dir", str(folder), *sets]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_programs_read_what_was_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with served(Lamps()) as port:
        crawl(tmp_path / "crawls/shop.example", port)
    first, second, _ = programs()
    for target in ("pages.db", "parquet:dataset?splits=train:98,test:2"):
        for rows in (7, 0):
            assert main(["feed", "pages", "crawls/shop.example", "--to", target, "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["rows"] == rows
    lines = ran(first, tmp_path).splitlines()
    assert len(lines) == 6 and lines[0].endswith("/ Shop 1")
    assert sum(eval(ran(second, tmp_path)).values()) == 7


def test_the_commands_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = ItemCrawl(tmp_path / "crawls/shop.example")
    made.page("a", 1, ["lamp", 1.5], ["=sofa", None])
    made.commit([])
    made.close()
    commands = re.findall(r"(?m)^    lycosa (feed .* crawls/shop\.example --to [^:\s]+)$", TEXT)
    assert len(commands) == 2
    for each in commands:
        assert main(shlex.split(each)) == ExitCode.FINISHED
    assert "2 rows written; nothing behind" in capsys.readouterr().out
    capsys.readouterr()
    assert main(["feed", "items.products", "crawls/shop.example", "--to", "items.csv"]) == 0
    assert capsys.readouterr().err == ""
    folder = tmp_path / "crawls/shop.example"
    assert set_current(FolderStore("file:///x", folder), "products", 2, CurrentVersion())
    assert main(["feed", "items.products", "crawls/shop.example", "--to", "items.csv"]) == 0
    assert "`lycosa export crawls/shop.example products` has the" in capsys.readouterr().err
    head, *rows = (tmp_path / "items.csv").read_text("utf-8").splitlines()
    assert head == "_url,_fetched,_capture,_version,_item,name,price"
    assert [row.split(",")[-4:] for row in rows] == [
        ["1", "0", "lamp", "1.5"],
        ["1", "1", "'=sofa", ""],
    ]


@contextmanager
def program(code: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    (folder / "receiver.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, "-u", "receiver.py"], stdout=subprocess.PIPE, text=True, cwd=folder
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_the_receiver_is_told_of_every_page_while_the_crawl_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "webhook-secret"
    secret.write_text(f"whsec_{base64.b64encode(bytes(32)).decode()}\n")
    *_, code = programs()
    code = code.replace(
        'HTTPServer(("127.0.0.1", 8000), Receiver).serve_forever()',
        (
            'server = HTTPServer(("127.0.0.1", 0), Receiver)\n'
            "    print(server.server_address[1], flush=True)\n"
            "    server.serve_forever()"
        ),
    )
    with program(code, tmp_path) as receiver, served(Lamps()) as port:
        assert receiver.stdout is not None
        url = f"http://127.0.0.1:{int(receiver.stdout.readline())}/"
        hooks = {"webhooks.urls": url, "webhooks.secret_file": str(secret)}
        crawl(tmp_path / "crawl", port, **hooks, **{"webhooks.allow_http": "true"})
        told = {receiver.stdout.readline().split()[1].rpartition("/")[2] for _ in range(6)}
        assert told == {"", "0", "1", "2", "3", "4"}
    assert main(["webhooks", str(tmp_path / "crawl"), "--show", "--json"]) == 0
    (state,) = json.loads(capsys.readouterr().out)
    assert state["delivered"] == 6 and not state["failures"]
    assert "secret" not in (tmp_path / "crawl/webhooks").iterdir().__next__().read_text()


def test_the_settings_of_the_page_are_settings() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", TEXT, re.S)
    section = WebhookSection(**tomllib.loads(text)["webhooks"])
    assert section.urls and Path(section.secret_file).is_absolute()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nothing", "is not a target"),
        ("sqlite:", "give a place after sqlite:"),
        ("sqlite:a.db?tabel=x", "there is no option tabel"),
        ("opensearch:localhost", "is not of the form https://HOST:PORT/INDEX"),
        ("opensearch:https://u:p@h/i", "write no password into the URL"),
        ("parquet:x?splits=train", "give names and shares"),
        ("iceberg:table", "is not of the form"),
        ("postgresql:", "no database given"),
    ],
)
def test_bad_targets_are_one_clear_line(
    target: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("LYCOSA_POSTGRES_DSN", "PGHOST", "PGDATABASE", "PGSERVICE", "PGHOSTADDR"):
        monkeypatch.delenv(name, raising=False)
    made = ItemCrawl(tmp_path / "crawl")
    made.close()
    assert main(["feed", "pages", str(made.folder), "--to", target]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
