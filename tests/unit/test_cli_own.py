"""``lycosa own``, and the settings of own hosts."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

import pytest

from lycosa.base.config.own_texts import check_own_hosts
from lycosa.cli.main import main
from lycosa.stages.politeness.own_proofs import VALID_S, OwnHosts, has_token


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("k" * 32 + "\n")
    path.chmod(0o600)
    return path


def test_the_token_is_the_hmac_of_the_name(
    secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["own", "a.test", "a.test:81", "--secret", f"file:{secret}", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [each["host"] for each in rows] == ["a.test", "a.test:81"]
    for each in rows:
        right = hmac.new(b"k" * 32, each["host"].encode(), hashlib.sha256).hexdigest()
        assert each["token"] == right and has_token(200, f" {right}\n".encode(), right)


@pytest.mark.parametrize("host", ["A.test", "*.a.test", "http://a.test", "a.test/x", "a.test:443"])
def test_a_name_that_is_not_exact_is_refused(
    secret: Path, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="no exact name"):
        check_own_hosts([host])
    assert main(["own", host, "--secret", f"file:{secret}"]) == 2
    assert "no exact name" in capsys.readouterr().err


def test_a_short_secret_is_refused(secret: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret.write_text("short-word")
    assert main(["own", "a.test", "--secret", f"file:{secret}"]) == 2
    told = capsys.readouterr().err
    assert "fewer than 32 bytes" in told and "short-word" not in told


def test_hosts_without_a_secret_stop_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = 'requests.own_hosts=["a.test"]'
    begin = ["crawl", "http://a.test/", "--dir", str(tmp_path / "c"), "--contact", "me@a.test"]
    assert main([*begin, "--set", hosts]) == 2
    assert "requests.own_secret" in capsys.readouterr().err


def test_a_proof_ends_with_its_time_with_a_wrong_file_and_with_a_clock_set_back() -> None:
    own = OwnHosts({"a.test": "t"})
    own.note_asked("a.test", 100.0)
    own.note_file("a.test", 100.0, is_right=True)
    assert not own.is_proved("a.test", 101.0)  # not committed yet
    own.note_committed(own.cut())
    assert own.is_proved("a.test", 101.0)
    assert not own.is_proved("a.test", 99.0)
    assert not own.is_proved("a.test", 100.0 + VALID_S)
    own.note_asked("a.test", 200.0)
    own.note_file("a.test", 200.0, is_right=False)
    assert not own.is_proved("a.test", 201.0)


def test_a_wrong_file_during_a_commit_counts() -> None:
    own = OwnHosts({"a.test": "t"})
    own.note_asked("a.test", 100.0)
    own.note_file("a.test", 100.0, is_right=True)
    cut = own.cut()
    own.note_asked("a.test", 101.0)
    own.note_file("a.test", 101.0, is_right=False)
    own.note_committed(cut)
    assert not own.is_proved("a.test", 102.0)
