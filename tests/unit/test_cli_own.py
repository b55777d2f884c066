"""``lycosa own``, and the settings of own hosts."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from lycosa.base.config.own_texts import check_own_hosts
from lycosa.base.urls.identity import target_of
from lycosa.cli.main import main
from lycosa.stages.politeness.own_proofs import OWN_PATH, VALID_S, OwnHosts, has_token, token_of
from lycosa.synthetic import Response
from serving import served


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


TEXT = [("Content-Type", "text/plain")]
RIGHT, OTHER = "right", "0" * 64


class OneHost:
    """Answers robots.txt and the file of whatever host it is asked as."""

    def __init__(self, robots: str) -> None:
        self.file, self._robots = Response(404, TEXT, b""), robots
        self.asked: list[str] = []

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        self.asked.append(target_of(url))
        if target_of(url) == "/robots.txt":
            return Response(200, TEXT, self._robots.encode())
        return self.file


@pytest.mark.parametrize(
    ("status", "body", "robots", "finding"),
    [
        (200, RIGHT, "", "right"),
        (200, OTHER, "", "wrong_token"),
        (404, RIGHT, "", "missing"),
        (302, RIGHT, "", "redirected"),
        (503, RIGHT, "", "refused"),
        (200, RIGHT, "User-agent: *\nDisallow: /.well-known/\n", "disallowed"),
    ],
)
def test_a_check_says_what_the_file_is(
    secret: Path,
    status: int,
    body: str,
    robots: str,
    finding: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    web = OneHost(robots)
    with served(web) as port:
        host = f"a.test:{port}"
        token = token_of(b"k" * 32, host)
        content = token if body == RIGHT else body
        web.file = Response(status, [*TEXT, ("Location", "/other")], content.encode())
        asked = ["own", host, "--secret", f"file:{secret}", "--check", "--http"]
        there = ["--resolve", "a.test=127.0.0.1", "--allow-address", "127.0.0.0/8"]
        quick = ["--set", "politeness.delay_s=0"]
        code = 0 if finding == "right" else 1
        assert main([*asked, *there, *quick, "--json"]) == code
        (found,) = json.loads(capsys.readouterr().out)
        assert (found["finding"], found["is_right"]) == (finding, finding == "right")
        assert web.asked == ["/robots.txt", *([] if robots else [OWN_PATH])]
        assert main([*asked, *there, *quick]) == code
        told = capsys.readouterr().out
        assert (token in told) == (finding in ("wrong_token", "missing"))
        assert found["meaning"].removesuffix(".") in told


def test_a_check_of_a_host_without_an_answer(
    secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["own", "a.test:9", "--secret", f"file:{secret}", "--check", "--http"]
    assert main([*asked, "--resolve", "a.test=127.0.0.1"]) == 1  # the address is not allowed
    assert "127.0.0.1" in capsys.readouterr().out


def test_older_secrets_are_on_further_lines(
    secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret.write_text("n" * 32 + "\n" + "k" * 32 + "\n")
    assert main(["own", "a.test", "--secret", f"file:{secret}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["token"] == token_of(b"n" * 32, "a.test")
    secret.write_text("n" * 32 + "\nshort\n")
    assert main(["own", "a.test", "--secret", f"file:{secret}"]) == 2
    assert "a line of" in capsys.readouterr().err
