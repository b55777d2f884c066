"""The commands in the documents make files that work."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_network import serving

from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.credentials import credentials_of

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def blocks(language: str) -> list[str]:
    section = PAGE.read_text("utf-8").split("## Connections between machines")[1].split("\n## ")[0]
    return re.findall(rf"(?s)```{language}\n(.*?)```", section)


@pytest.mark.service
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
async def test_files_made_by_the_documented_commands_connect_machines(tmp_path: Path) -> None:
    for commands in blocks("sh"):
        subprocess.run(  # noqa: ASYNC221  short
            ["/bin/sh", "-e"], input=commands, text=True, check=True, cwd=tmp_path
        )
    (tmp_path / "cluster.toml").write_text(
        'name = "news"\n' + blocks("toml")[0] + '[kafka]\naddresses = ["127.0.0.1:9092"]\n'
    )
    given = read_cluster_file(tmp_path / "cluster.toml")
    assert given.warnings() == []
    credentials = credentials_of(given)
    assert credentials.token and credentials.tls
    async with serving(credentials) as port:
        stream = await connect(port.address, credentials, b"hello")
        assert await stream.receive() == b"hello"
        stream.close()
