"""A robots.txt that an older program read, in a crawl that gets a purpose."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from judging import quick_config, stored_rows
from lycosa.base.config.sections import AgentSection
from lycosa.base.model.fetched import FetchKind
from lycosa.state.kv.memory_table import MemoryTables
from scripted import ScriptedWeb, page, robots, scripted_crawl
from virtual_crawl import VirtualCrawl, in_memory

HOST = "http://one.test/"


def forget_usage(folders: set[Path], stores: MemoryTables) -> int:
    """Write the records of robots.txt as a program did that read no lines about use."""
    written = 0
    for path in sorted(folders):
        table = stores(path)
        for key, value in list(table.scan(b"R", b"S")):
            record = msgspec.msgpack.decode(value)
            record[0] = record[0][:4]
            table.write({key: msgspec.msgpack.encode(record[:10])})
            written += 1
        table.close()
    return written


def resumed(folder: Path, *purpose: str) -> tuple[VirtualCrawl, ScriptedWeb]:
    """A crawl whose second run, an hour after the first, fetches another page."""
    stores = MemoryTables()
    web = {
        f"{HOST}robots.txt": robots("User-agent: *\nContent-Signal: ai-train=no\nAllow: /"),
        f"{HOST}a": page(text="first"),
        f"{HOST}b": page(text="second"),
    }
    crawl, asked = scripted_crawl(folder, web, quick_config())
    folders, open_table = set[Path](), in_memory(stores)
    crawl.open_table = lambda path: folders.add(path) or open_table(path)
    crawl.run([f"{HOST}a"])
    assert forget_usage(folders, stores) == 1
    crawl.now += 3600.0
    crawl.config = quick_config(agent=AgentSection(purpose=purpose))
    crawl.run([f"{HOST}b"])
    return crawl, asked


def answers_of_last(crawl: VirtualCrawl) -> dict[str, bool]:
    (row,) = [each for each in stored_rows(crawl.folder) if each.url == f"{HOST}b"]
    assert row.kind is FetchKind.PAGE
    return row.preferences.answers


@pytest.mark.parametrize("purpose", ["ai-train", "search"])
def test_a_crawl_with_a_purpose_reads_it_again_before_a_page(purpose: str, tmp_path: Path) -> None:
    crawl, asked = resumed(tmp_path / "c", purpose)
    assert answers_of_last(crawl) == {"ai-train": False}
    assert asked.asked[f"{HOST}robots.txt"] == 2


def test_without_a_purpose_it_is_used_for_its_day(tmp_path: Path) -> None:
    crawl, asked = resumed(tmp_path / "c")
    assert answers_of_last(crawl) == {}
    assert asked.asked[f"{HOST}robots.txt"] == 1
