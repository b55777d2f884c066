"""The note that a folder's crawl is paused."""

from __future__ import annotations

from pathlib import Path

from lycosa.base.config.sections import AgentSection, Config
from lycosa.base.messages.control_records import SettingsSaved
from lycosa.processes.session import open_session
from lycosa.state.folder.folder_notes import PauseNote, save_pause, saved_pause
from lycosa.state.folder.names import pause_path, settings_path


def test_a_pause_is_stored_until_it_ends(tmp_path: Path) -> None:
    assert saved_pause(tmp_path) is None
    save_pause(tmp_path, PauseNote("alice", 1_795_368_451_000_000, "new disk"))
    text = str(saved_pause(tmp_path))
    assert text.startswith("the crawl is paused, by alice on 2026-11-2") and "new disk" in text
    save_pause(tmp_path, None)
    assert saved_pause(tmp_path) is None


def test_a_note_that_cannot_be_read_is_a_pause_without_a_date(tmp_path: Path) -> None:
    pause_path(tmp_path).write_bytes(b"{")
    assert str(saved_pause(tmp_path)) == "the crawl is paused, by an operator"


def test_a_pause_ends_also_when_settings_cannot_be_saved(tmp_path: Path) -> None:
    config = Config(agent=AgentSection(contact="test@example.org"))
    with open_session(tmp_path / "crawl", config) as session:
        save_pause(session.folder, PauseNote("alice", 1))
        settings_path(session.folder).unlink()
        settings_path(session.folder).mkdir()
        assert "hold for this run only" in session.keep_steering(SettingsSaved(2, {}))
        assert saved_pause(session.folder) is None
