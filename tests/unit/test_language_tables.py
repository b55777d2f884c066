"""The language model's tables in the cache folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lycosa.stages.parse.language_model import LanguageModel
from lycosa.stages.parse.language_tables import Tables, cache_folder, load_tables

GERMAN = (
    "Der Hund lief über die Straße, während die Kinder auf dem Hof spielten und die Glocken"
    " läuteten."
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    load_tables(folder)
    return folder


def _only(cache: Path) -> Path:
    (folder,) = cache.iterdir()
    return folder


def test_the_second_load_maps_what_the_first_one_wrote(cache: Path) -> None:
    tables = load_tables(cache)
    assert isinstance(tables.logarithms.base, np.memmap)
    assert type(tables.logarithms) is np.ndarray  # its selections are cheaper
    assert LanguageModel(tables).classify(GERMAN)[0] == "de"


def test_mapped_tables_are_the_unpacked_ones(cache: Path) -> None:
    mapped, unpacked = load_tables(cache), load_tables(None)
    for name in Tables.__struct_fields__:
        assert np.array_equal(getattr(mapped, name), getattr(unpacked, name)), name


def test_a_later_process_does_not_unpack_the_model(cache: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from lycosa.stages.parse.language_tables import"
        " load_tables; load_tables(Path(sys.argv[1])); assert 'py3langid' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(cache)], check=True)


@pytest.mark.parametrize(
    ("name", "damage"),
    [("codes.json", "gone"), ("codes.json", "cut"), ("next.npy", "cut"), ("next.npy", "rubbish")],
)
def test_damaged_files_are_made_again(cache: Path, name: str, damage: str) -> None:
    path = _only(cache) / name
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"rubbish")
    assert LanguageModel(load_tables(cache)).classify(GERMAN)[0] == "de"
    assert path.read_bytes() == whole
    assert [folder.name for folder in cache.iterdir()] == [_only(cache).name], (
        "nothing unfinished is left"
    )


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert LanguageModel(load_tables(tmp_path / "file" / "cache")).classify(GERMAN)[0] == "de"


def test_the_cache_is_where_the_user_keeps_such_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/lycosa")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/user")
    assert cache_folder() == Path("/home/user/.cache/lycosa")
