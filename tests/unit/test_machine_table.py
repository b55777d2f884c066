"""What tells the address tables of machines apart in attempt logs."""

from __future__ import annotations

from pathlib import Path

from lycosa.base.config.sections import PolitenessSection
from lycosa.worker.machine_table import table_place

SECTION = PolitenessSection()


def test_workers_of_one_table_have_one_place(tmp_path: Path) -> None:
    assert table_place(tmp_path / "t", SECTION) == table_place(tmp_path / "t", SECTION)


def test_containers_with_the_same_name_and_path_have_two_places(tmp_path: Path) -> None:
    """Each mounts a memory of its own at the same path."""
    path = tmp_path / "shm"
    path.mkdir()
    first = table_place(path / "addresses", SECTION)
    path.rename(tmp_path / "of the first container")
    path.mkdir()
    second = table_place(path / "addresses", SECTION)
    assert first != second
    assert first.rpartition(":")[0] == second.rpartition(":")[0]
