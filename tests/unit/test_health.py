"""Health files: what probes read, and what they answer."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from lycosa.base.system.health_file import OUTDATED_S, Health, HealthFile, fault_of, read_health
from lycosa.cli.main import cli


def answer(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["health", *words], standalone_mode=False)
    return done.return_value, done.output


def written(path: Path, updated: float, is_ready: bool = True) -> Path:
    path.write_bytes(msgspec.json.encode(Health(updated, 7, is_ready, "does its work")))
    return path


def test_a_file_that_was_written_now_is_healthy(tmp_path: Path) -> None:
    file = HealthFile(tmp_path / "health.json")
    file.write(True, "does its work")
    assert answer(str(tmp_path / "health.json")) == (0, "ready: does its work\n")
    assert read_health(tmp_path / "health.json").pid == os.getpid()
    assert [each.name for each in tmp_path.iterdir()] == ["health.json"]


def test_ready_is_asked_for_separately(tmp_path: Path) -> None:
    HealthFile(tmp_path / "h").write(False, "waits for Kafka")
    path = str(tmp_path / "h")
    assert answer(path) == (0, "not ready: waits for Kafka\n")
    assert answer(path, "--ready") == (1, "not ready: waits for Kafka\n")
    code, text = answer(path, "--ready", "--json")
    assert code == 1
    assert json.loads(text) == {
        "runs": True,
        "ready": False,
        "state": "waits for Kafka",
        "fault": "",
    }


def test_an_old_file_says_that_the_process_hangs(tmp_path: Path) -> None:
    path = str(written(tmp_path / "h", updated=1000.0))
    code, text = answer(path)
    assert code == 1
    assert "process 7 has written nothing for" in text
    assert answer(path, "--ready")[0] == 1


def test_the_age_is_that_of_the_content() -> None:
    health = Health(1000.0, 7, True, "does its work")
    assert fault_of(health, 1000.0 + OUTDATED_S) == ""
    assert "has written nothing for 61 s; then: does its work" in fault_of(health, 1061.0)
    assert fault_of(health, 500.0) == "", "the clock was set back"


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "has not started, or has ended"), (b"{", "is not a health file")],
)
def test_a_file_that_is_missing_or_broken_is_a_fault(
    content: bytes | None, told: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "h").write_bytes(content)
    code, text = answer(str(tmp_path / "h"))
    assert code == 1
    assert told in text


async def test_the_loop_writes_until_it_is_cancelled(tmp_path: Path) -> None:
    asked = asyncio.Event()

    def measured() -> tuple[bool, str]:
        asked.set()
        return True, "runs"

    file = HealthFile(tmp_path / "h")
    keeping = asyncio.create_task(file.keep(measured))
    await asyncio.wait_for(asked.wait(), 10.0)
    await asyncio.sleep(0)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert read_health(tmp_path / "h").state == "runs"
    file.remove()
    assert not (tmp_path / "h").exists()


async def test_a_disk_that_cannot_be_written_does_not_end_the_program(tmp_path: Path) -> None:
    asked = asyncio.Event()

    def measured() -> tuple[bool, str]:
        asked.set()
        return True, "runs"

    keeping = asyncio.create_task(HealthFile(tmp_path / "missing" / "h").keep(measured))
    await asyncio.wait_for(asked.wait(), 10.0)
    await asyncio.sleep(0)
    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


def test_without_a_path_nothing_is_written() -> None:
    HealthFile(None).write(True, "runs")
    HealthFile(None).remove()
