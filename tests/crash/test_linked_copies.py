"""Copies of a crawl folder that share files with it, as ``cp -al`` makes them."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crawling import Pages as Web
from crawling import crawl_folder, page
from lycosa.state.folder.manifest import FolderUnusable
from lycosa.synthetic import Faults

SEED = "http://a.test/"
PAGES = 40


def web() -> Web:
    pages = {f"{SEED}{number}": page(text=str(number)) for number in range(PAGES)}
    return Web({SEED: page(*pages), **pages})


def killed_crawl(folder: Path) -> Path:
    """A crawl with open segments, killed after some pages."""
    faults = Faults(random.Random(0), crash_at=12, crash_point="commit:logged")
    assert crawl_folder(folder, web(), [SEED], faults=faults) is None
    return folder


def stopped_crawl(folder: Path) -> Path:
    """A crawl that was stopped in order, with table files."""
    assert crawl_folder(folder, web(), [SEED], stop_after_s=10) is not None
    assert list(folder.rglob("*.sst"))
    return folder


def linked_copy(folder: Path) -> Path:
    copy = folder.with_name(f"{folder.name}-linked")
    shutil.copytree(folder, copy, copy_function=os.link)
    return copy


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("is_copy", [True, False], ids=["the copy", "the original"])
def test_neither_side_of_a_hard_linked_copy_is_crawled(tmp_path: Path, is_copy: bool) -> None:
    folder = killed_crawl(tmp_path / "crawl")
    copy, before = linked_copy(folder), content(folder)
    with pytest.raises(FolderUnusable, match=r"has another hard link.*cp -a .*not cp -al"):
        crawl_folder(copy if is_copy else folder, web(), [SEED], start=1000)
    assert content(folder) == content(copy) == before


def test_when_the_other_copy_is_deleted_the_crawl_goes_on(tmp_path: Path) -> None:
    folder = killed_crawl(tmp_path / "crawl")
    shutil.rmtree(linked_copy(folder))
    assert crawl_folder(folder, web(), [SEED], start=1000) is not None


@pytest.mark.parametrize("make", [killed_crawl, stopped_crawl])
def test_files_that_may_have_links_are_not_changed_by_a_run(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    folder = make(tmp_path / "crawl")
    copy, before = linked_copy(folder), content(folder)
    while True:
        try:
            assert crawl_folder(copy, web(), [SEED], start=1000) is not None
            break
        except FolderUnusable as error:
            # the first file that the message names becomes independent
            path = Path(str(error).partition(": ")[0].partition(" and ")[0])
            independent = path.with_name("independent")
            shutil.copyfile(path, independent)
            independent.rename(path)
    assert content(folder) == before
    assert content(copy) != before
