"""``lycosa render``: pages of a stopped crawl, from arguments and from a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from crawling import QUICK, Pages, crawl_folder
from lycosa.base.config.sections import Config
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from rendering import Renderers, rendering, script, shell

SITE = "http://app.example"


def crawled(folder: Path, config: Config) -> Path:
    web = Pages({f"{SITE}/": shell("/a.js"), f"{SITE}/a.js": script("text shown by scripts")})
    crawl_folder(folder, web, [f"{SITE}/"], config, meanwhile=Renderers())
    return folder


def waiting(folder: Path) -> Mapping[str, int]:
    reader = read_folder(folder)
    return crawl_status(reader, load_saved_settings(reader), reader.last_commit).renders.hosts


def test_pages_of_a_stopped_crawl_are_rendered_in_its_next_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = crawled(tmp_path / "crawl", rendering()), tmp_path / "urls.txt"
    assert waiting(folder) == {}
    file.write_text(f"{SITE}/  # the start page\n\n# not this one\n{SITE}/unknown\n")
    command = ["render", str(folder), "--from", str(file), "--by", "ann", "--why", "new shop"]
    assert main(command) == ExitCode.USAGE
    told = capsys.readouterr().out
    assert "1 page will be rendered" in told and "the crawl does not know it" in told
    assert "its next run renders them" in told
    assert waiting(folder) == {"app.example": 1}
    reader = read_folder(folder)
    found = explain(reader, load_saved_settings(reader), f"{SITE}/", 1.8e9).to_json()
    assert found["facts"]["render_waits"]["round"] == 1
    assert main(["render", str(folder), f"{SITE}/", "--json"]) == ExitCode.FINISHED
    (row,) = json.loads(capsys.readouterr().out)["results"]
    assert row == {"url": f"{SITE}/", "verdict": "waiting", "reason": ""}


def test_what_cannot_be_done_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = crawled(tmp_path / "crawl", QUICK)
    for arguments, why in (
        ([f"{SITE}/"], "the crawl renders no pages: set render.mode"),
        ([], "give a URL, or --from FILE"),
        (["--from", str(tmp_path / "none")], "No such file"),
    ):
        assert main(["render", str(folder), *arguments]) == ExitCode.USAGE
        assert why in capsys.readouterr().err
