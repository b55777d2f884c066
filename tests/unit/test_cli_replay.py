"""``lycosa replay``: how it starts pywb, says where it shows the archive, and ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from free_ports import free_port
from lycosa.cli.main import main
from lycosa.cli.replay import address_of
from lycosa.inspect.wacz.wacz_reading import WaczPage
from sample_crawl import SampleCrawl

LISTENER = """#!{python}
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
while True:
    listener.accept()
"""
ENDS = "#!/bin/sh\necho something is missing >&2\nexit 3\n"
LYCOSA = [sys.executable, "-c", "import sys; from lycosa.cli import main; sys.exit(main())"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    crawl = SampleCrawl(tmp_path / "crawl")
    crawl.close()
    return crawl.folder


def program(folder: Path, text: str) -> Path:
    """A program in the place of pywb, which takes its arguments."""
    path = folder / "wayback"
    path.write_text(text.replace("{python}", sys.executable))
    path.chmod(0o755)
    return path


def test_it_shows_the_archive_until_it_is_ended(folder: Path, tmp_path: Path) -> None:
    port = free_port(["127.0.0.1"])
    arguments = ["--pywb", str(program(tmp_path, LISTENER)), "--port", str(port)]
    process = subprocess.Popen(
        [*LYCOSA, "replay", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(f"http://replay.localhost:{port}/crawl/20")
    (work,) = tmp_path.glob("lycosa-replay-*")
    assert json.loads((work / "config.yaml").read_text())["csp-header"].startswith("default-src")
    socket.create_connection(("127.0.0.1", port), timeout=60).close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.communicate()
    assert not list(tmp_path.glob("lycosa-replay-*"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_program_that_ends_is_told_with_its_last_words(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--pywb", str(program(tmp_path, ENDS)), "--port", str(free_port(["127.0.0.1"]))]
    assert main(["replay", str(folder), *arguments]) == 1
    assert "pywb did not start: something is missing" in capsys.readouterr().err


def test_wrong_arguments_are_told(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", tempfile.gettempdir())
    wayback = str(program(tmp_path, LISTENER))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        for arguments, said in (
            ([], "give the folder of a crawl or a WACZ file"),
            (["missing.wacz", "--pywb", wayback], "missing.wacz: there is no such folder"),
            ([str(folder)], "lycosa replay --install"),
            ([str(folder), "--install"], "--install stands alone"),
            ([str(folder), "--pywb", "nowhere"], "there is no program wayback"),
            ([str(folder), "--pywb", wayback, "--port", number], f"port {number} cannot be used"),
            ([str(tmp_path), "--pywb", wayback], "crawl.json"),
            ([wayback, "--pywb", wayback], "is not a WACZ file"),
        ):
            assert main(["replay", *arguments]) == 2, arguments
            assert said in capsys.readouterr().err


def test_the_address_is_that_of_the_first_page() -> None:
    home = "http://replay.localhost:8094/crawl/"
    assert address_of(None, 8094) == home
    page = WaczPage("http://a.example/b?c=d", "2026-01-02T03:04:05.678Z")
    assert address_of(page, 8094) == f"{home}20260102030405/http://a.example/b?c=d"
    assert address_of(WaczPage("http://a.example/", ""), 8094) == f"{home}http://a.example/"
