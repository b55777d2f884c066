"""Commands that explain the program or a crawl: ``describe``, ``man``, ``completion``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from crawling import QUICK, Pages, crawl_folder, page, robots
from lycosa.base.config.sections import AgentSection
from lycosa.cli.main import cli

SITE = "http://a.example/"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, prog_name="lycosa", catch_exceptions=False)
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("described") / "c"
    pages = {
        f"{SITE}robots.txt": robots("User-agent: *", "Disallow: /closed"),
        SITE: page(SITE + "b", SITE + "closed", SITE + "missing"),
        SITE + "b": page(text="another one"),
    }
    crawl_folder(folder, Pages(pages), [SITE])
    return folder


def test_a_description_has_what_was_done_and_what_was_not_stored(folder: Path) -> None:
    text = " ".join(run("describe", str(folder)).split())
    assert "with the web crawler Lycosa" in text and "obeyed robots.txt (RFC 9309)" in text
    assert "It found 4 URLs on one host" in text
    assert "robots.txt disallows it: 1." in text
    assert "parse.language = false" in text
    facts = json.loads(run("describe", str(folder), "--json"))
    assert (
        facts["captures"] == 3
        and facts["purpose"] == []
        and facts["settings"]["parse.language"] == "false"
    )


def test_a_description_says_what_sites_allow_and_what_the_purpose_leaves_out(
    tmp_path: Path,
) -> None:
    pages = {
        f"{SITE}robots.txt": robots("User-agent: *", "Content-Signal: ai-train=no"),
        SITE: page(text="some text"),
    }
    config = msgspec.structs.replace(QUICK, agent=AgentSection(purpose=("ai-train",)))
    crawl_folder(tmp_path / "c", Pages(pages), [SITE], config)
    text = " ".join(run("describe", str(tmp_path / "c")).split())
    assert "Sites stated about the use of captures: ai-train=no: 1." in text
    assert "The purpose of the crawl was ai-train: text of pages whose sites refuse such" in text


def test_a_description_tells_no_address_of_a_store_or_machine(folder: Path, tmp_path: Path) -> None:
    facts = json.loads(run("describe", str(folder), "--json"))
    hidden = re.compile(r"upload|kafka|redis|objects|webhooks|coordinator|workers|memory")
    assert not [key for key in facts["settings"] if hidden.match(key)]
    inner = shutil.copytree(folder, tmp_path / "c")
    saved = json.loads((inner / "settings.json").read_bytes())
    saved["requests"]["rules"] = ["in.corp.example basic file:/etc/corp/login"]
    saved["requests"]["own_hosts"] = ["own.corp.example"]
    saved["dns"]["pins"] = ["in.corp.example=10.9.8.7"]
    (inner / "settings.json").write_text(json.dumps(saved))
    text = " ".join(run("describe", str(inner)).split())
    assert "Some requests carried credentials" in text and "up to one host of the operator" in text
    assert "corp" not in text and "10.9" not in text


def test_every_command_has_a_manual_page_that_man_can_read(tmp_path: Path) -> None:
    run("man", "--install", str(tmp_path))
    pages = {each.stem for each in tmp_path.iterdir()}
    assert {"lycosa", "lycosa-crawl", "lycosa-host-pause", "lycosa-mcp-read"} <= pages
    if shutil.which("groff"):
        for each in sorted(tmp_path.iterdir()):
            told = subprocess.run(
                ["groff", "-man", "-ww", "-z", each], capture_output=True, text=True, check=True
            )
            assert told.stderr == "", (each, told.stderr)
    text = run("man", "crawl")
    assert ".SH OPTIONS" in text and r"\-\-max\-pages N" in text
    assert "there is no command" in run("man", "crwal")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_calls_the_program(shell: str) -> None:
    script = run("completion", shell)
    assert f"_LYCOSA_COMPLETE={shell}_complete" in script


def test_commands_and_options_are_completed() -> None:
    environment = {
        **os.environ,
        "_LYCOSA_COMPLETE": "bash_complete",
        "COMP_WORDS": "lycosa crawl --max-",
        "COMP_CWORD": "2",
    }
    told = subprocess.run(
        [sys.executable, "-m", "lycosa"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--max-pages" in told.stdout and "--max-rate" in told.stdout
