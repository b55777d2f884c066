"""What `lycosa cluster import` refuses before it asks a service for anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.cli.main import main


@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_without_a_crawl_is_refused_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_there: bool
) -> None:
    folder, file = tmp_path / "photos", tmp_path / "cluster.toml"
    if is_there:
        folder.mkdir()
    (tmp_path / "objects").mkdir()
    file.write_text(
        'name = "news"\n[kafka]\naddresses = ["127.0.0.1:1"]\n'
        f'[objects]\nurl = "file://{tmp_path}/objects"\n'
    )
    given = ["cluster", "import", str(file), str(folder), "--work", str(tmp_path / "work")]
    assert main(given) == 2
    assert f"{folder} is not a crawl" in capsys.readouterr().err
    assert not folder.exists() or list(folder.iterdir()) == []
