"""Settings that operators changed while a crawl ran, when it is started again with options."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from lycosa.base.config.sections import AgentSection, Config, PolitenessSection
from lycosa.base.messages.control_records import CrawlAction, SettingsSaved
from lycosa.cli.run_settings import crawl_settings
from lycosa.processes.session import open_session
from lycosa.state.folder.live_changes import saved_changes
from lycosa.state.folder.names import live_path

START = Config(
    agent=AgentSection(contact="test@example.org"), politeness=PolitenessSection(delay_s=0.05)
)
DELAY = "politeness.delay_s"


def change(folder: Path, config: Config, *values: str, by: str = "alice") -> None:
    """A run in which the delay is changed."""
    with open_session(folder, config) as session:
        for version, value in enumerate(values, 1):
            done = CrawlAction(f"1/{version}", by, 1_795_368_451_000_000, "set", "", "their mail")
            saved = SettingsSaved(version, {DELAY: value}, actions=[done])
            assert session.keep_steering(saved) == ""


def started(folder: Path, *pairs: str) -> Config:
    """The settings of the next start, which is begun with them."""
    options = {"config_file": None, "pairs": pairs}
    config = crawl_settings(folder, options, lambda line: print(line, file=sys.stderr)).config
    with open_session(folder, config):
        pass
    return config


def test_a_change_stays_when_the_crawl_is_started_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    change(folder, START, "2s")
    for _ in range(2):  # the second start knows it as well
        assert started(folder, f"{DELAY}=50ms").politeness.delay_s == 2.0
        line = capsys.readouterr().err
        assert f"{DELAY} stays 2s, set by alice on 2026-11-2" in line and "their mail" in line
        assert "--set gives 0.05s" in line
    assert started(folder).politeness.delay_s == 2.0
    assert capsys.readouterr().err == ""


def test_a_new_value_replaces_the_change_and_says_whose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    change(folder, START, "2s", "3s")
    assert started(folder, f"{DELAY}=1s").politeness.delay_s == 1.0
    assert f"{DELAY} is 1s by --set; it was 3s, set by alice" in capsys.readouterr().err
    assert saved_changes(folder) == {}
    assert started(folder, f"{DELAY}=50ms").politeness.delay_s == 0.05
    assert capsys.readouterr().err == "", "what was replaced counts no more"


def test_a_further_change_remembers_what_the_first_start_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    change(folder, START, "2s")
    kept = started(folder, f"{DELAY}=50ms")
    change(folder, kept, "60s", by="bob")
    change(folder, msgspec.structs.replace(kept, politeness=PolitenessSection(delay_s=60)), "1m")
    capsys.readouterr()
    assert started(folder, f"{DELAY}=0.05").politeness.delay_s == 60.0
    assert "set by bob" in capsys.readouterr().err, "1m is no other value than 60s"


def test_changes_that_cannot_be_read_do_not_stop_a_start(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    change(folder, START, "2s")
    live_path(folder).write_bytes(b"{")
    assert started(folder).politeness.delay_s == 2.0
    assert not live_path(folder).exists() or saved_changes(folder) == {}
