"""``lycosa serve``: what is refused before the crawl is claimed."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.base.config.sections import Config
from lycosa.cli import main
from lycosa.cli.output import ExitCode
from lycosa.cluster.shards.stored_crawl import store_crawl
from lycosa.state.objects.store_opening import open_store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The ``cluster.toml`` of a crawl whose Kafka does not answer."""
    (tmp_path / "objects").mkdir()
    path = tmp_path / "cluster.toml"
    path.write_text(
        f'name = "c"\nshards = 1\n[kafka]\naddresses = ["127.0.0.1:1"]\nreplication = 1\n'
        f'[objects]\nurl = "file://{tmp_path}/objects"\n'
    )
    given = read_cluster_file(path)
    store_crawl(open_store(given.objects), given, Config(), "lycosa", 0.0)
    return path


def test_an_address_that_is_in_use_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        arguments = ["serve", "--cluster", str(file), "--listen", address]
        assert main(arguments) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert said.startswith(f"lycosa: cannot listen at {address}: Address already in use; a coord")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:x", "is not HOST:PORT"),
        ("192.0.2.1:7070", "is not a loopback address"),
    ],
)
def test_an_address_that_cannot_be_used_is_bad_usage(
    file: Path, address: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--cluster", str(file), "--listen", address]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
