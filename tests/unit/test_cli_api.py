"""The options of the HTTP interface: what would be unsafe is refused before anything is begun."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner, Result

from lycosa.base.config.sources import SettingsError
from lycosa.cli.main import cli

SECRET = "s" * 32


@pytest.fixture
def tokens(tmp_path: Path) -> str:
    file = tmp_path / "tokens"
    file.write_text(f"alice operate {SECRET}\n")
    return str(file)


def _refused(tmp_path: Path, *options: str, environment: str = "") -> str:
    """What ``lycosa serve`` says; the folder must not have been made."""
    folder = tmp_path / "crawl"
    result: Result = CliRunner().invoke(
        cli,
        ["serve", str(folder), *options],
        env={"LYCOSA_API_TOKENS": environment},
    )
    said = result.output + (
        "; ".join(result.exception.problems)
        if isinstance(result.exception, SettingsError)
        else str(result.exception or "")
    )
    assert result.exit_code != 0, said
    assert not folder.exists()
    assert SECRET not in said
    return said


def test_another_address_needs_tokens(tmp_path: Path) -> None:
    assert "--api-tokens" in _refused(tmp_path, "--api", "0.0.0.0:0")


def test_another_address_needs_encryption_or_a_statement(tmp_path: Path, tokens: str) -> None:
    assert "--api-tls" in _refused(tmp_path, "--api", "0.0.0.0:0", "--api-tokens", tokens)
    given = f"bob read {SECRET}"
    assert "--api-tls" in _refused(tmp_path, "--api", "0.0.0.0:0", environment=given)


def test_a_proxy_needs_tokens_too(tmp_path: Path) -> None:
    assert "--api-tokens" in _refused(tmp_path, "--api", "127.0.0.1:0", "--behind-proxy")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"alice admin {SECRET}", "read or operate"),
        (f"alice {SECRET}", "NAME SCOPE SECRET"),
        ("alice read short", "fewer than 16"),
        ("# nothing", "no token"),
    ],
)
def test_a_bad_line_of_tokens_is_named_without_its_secret(
    tmp_path: Path, line: str, why: str
) -> None:
    (tmp_path / "tokens").write_text(line)
    said = _refused(tmp_path, "--api-tokens", str(tmp_path / "tokens"))
    assert why in said
    assert "short" not in said


def test_what_is_no_address_is_refused(tmp_path: Path) -> None:
    assert "HOST:PORT" in _refused(tmp_path, "--api", "8470")
    assert "HOST:PORT" in _refused(tmp_path, "--api", "http://example.org/")
    assert "HOST:PORT" in _refused(tmp_path, "--api", "no-such-name.invalid:80")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "cannot listen" in _refused(tmp_path, "--api", address)


def test_files_that_are_no_certificate_are_refused(tmp_path: Path, tokens: str) -> None:
    said = _refused(tmp_path, "--api-tokens", tokens, "--api-tls", tokens, tokens)
    assert "--api-tls" in said
    made = trustme.CA().issue_cert("localhost")
    made.private_key_pem.write_to_path(tmp_path / "key.pem")
    made.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    other = trustme.CA().issue_cert("localhost")
    other.private_key_pem.write_to_path(tmp_path / "other.pem")
    files = (str(tmp_path / "cert.pem"), str(tmp_path / "other.pem"))
    assert "--api-tls" in _refused(tmp_path, "--api-tls", *files)


def test_options_of_an_interface_need_it(tmp_path: Path, tokens: str) -> None:
    result = CliRunner().invoke(cli, ["crawl", "http://a.example/", "--api-tokens", tokens])
    assert result.exit_code != 0 and "need --api" in result.output + str(result.exception)
    both = CliRunner().invoke(cli, ["serve", str(tmp_path), "--cluster", "x.toml"])
    assert "either a crawl FOLDER or --cluster" in both.output + str(both.exception)
