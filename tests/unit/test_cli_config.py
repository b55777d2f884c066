"""``lycosa config``, and the page of the documentation that it prints."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from lycosa.base.config.fields import fields
from lycosa.base.config.sections import Config
from lycosa.base.config.sources import load_settings
from lycosa.cli.config import markdown
from lycosa.cli.main import main
from lycosa.state.folder import manifest as manifests

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the settings that `conftest` gives to the crawls of commands."""
    monkeypatch.delenv("LYCOSA_COPIES__PROBE_TURNS")


def out(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    assert main(["config", *map(str, args)]) == 0
    return capsys.readouterr().out


def test_the_page_of_the_documentation_is_current() -> None:
    assert PAGE.read_text() == markdown() + "\n", (
        "run `lycosa config --markdown > docs/settings.md`"
    )


def test_every_setting_is_shown_with_origin_and_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    lines = out(capsys, "--set", "fetch.slots=7").splitlines()
    assert len(lines) == len(fields()) + 1
    (line,) = [line for line in lines if line.startswith("fetch.slots ")]
    assert line.split(maxsplit=3)[1:] == [
        "7",
        "--set",
        "Maximum number of simultaneous requests, over all hosts.",
    ]


def test_a_section_or_some_settings_may_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert {line.partition(".")[0] for line in out(capsys, "politeness").splitlines()[1:]} == {
        "politeness"
    }
    shown = out(capsys, "politeness.delay_s", "workers")
    assert "bound    at least 0s" in shown and "key      workers" in shown


def test_json_has_typed_values(capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        each["key"]: each
        for each in json.loads(out(capsys, "--json", "--set", "scope.include=a,b"))
    }
    assert list(found) == list(fields())
    assert found["scope.include"]["value"] == ["a", "b"]
    assert found["scope.rule"]["value"] == "host"
    assert (found["politeness.delay_s"]["value"], found["politeness.delay_s"]["origin"]) == (
        1.0,
        "default",
    )


def test_what_toml_prints_can_be_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [
        "workers=3",
        "fetch.body_bytes=5MB",
        'scope.exclude=["\\\\.pdf$", "a\\"b"]',
        "politeness.delay_s=90",
        "fetch.http2=no",
        "scope.rule=any",
    ]
    arguments = [part for pair in pairs for part in ("--set", pair)]
    file = tmp_path / "crawl.toml"
    file.write_text(out(capsys, "--toml", *arguments))
    assert load_settings(file, {}).config == load_settings(None, {}, pairs).config
    file.write_text(out(capsys, "--toml", "--set", "workers=auto"))
    assert load_settings(file, {}).config.workers == 0
    assert len(file.read_text().splitlines()) > 2 * len(fields())


def test_a_default_is_commented_out_in_toml(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = out(capsys, "--toml")
    assert not [table for table in tomllib.loads(text).values() if table]
    file = tmp_path / "all.toml"
    file.write_text(
        "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    )
    assert load_settings(file, {}).config == Config()


def test_a_file_is_the_origin_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.toml"
    file.write_text("\nworkers = 5\n")
    assert f"origin   {file}:2" in out(capsys, "--config", file, "workers")


def test_settings_saved_with_a_crawl_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifests.create_crawl(
        tmp_path,
        manifests.Identity(partitions=4, bands=8, canonical={}, canonical_version=1, suffixes=""),
        "test",
        0.0,
    )
    assert "value    1\n" in out(capsys, "--dir", tmp_path, "workers")
    (tmp_path / "settings.json").write_text(json.dumps(msgspec.to_builtins(Config(workers=6))))
    shown = out(capsys, "--dir", tmp_path, "workers")
    assert "value    6\n" in shown and "origin   saved with the crawl" in shown
    (tmp_path / "settings.json").write_text("{")
    assert main(["config", "--dir", str(tmp_path)]) == 2
    assert "settings.json is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["foo.x"], "no setting or section 'foo.x'; `lycosa config` lists all"),
        (["delay"], "there is no setting or section 'delay'; did you mean politeness.delay_s?"),
        (["--set", "fetch.slot=1"], "did you mean fetch.slots?"),
        (["--set", "fetch.slots=0", "--set", "workers=x"], "workers: 'x' is not a whole number"),
        (["--dir", "/nowhere/at/all"], "is not a crawl"),
    ],
)
def test_mistakes_are_told_with_exit_code_2(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", *args]) == 2
    printed = capsys.readouterr()
    assert (printed.out, said in printed.err) == ("", True)
    assert all(line.startswith("lycosa: ") for line in printed.err.splitlines())
