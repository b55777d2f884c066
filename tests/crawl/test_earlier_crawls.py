"""A crawl that knows earlier ones does not store their bodies again, and says whose they are."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from warcio.archiveiterator import ArchiveIterator

import lycosa
from crawling import QUICK, Pages, crawl_folder, page
from lycosa.base.config.feature_sections import EarlierSection
from lycosa.base.config.sections import Config, FrontierSection
from lycosa.base.config.sources import SettingsError, load_settings
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.state.folder.names import settings_path
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.stored_bodies import record_with_body

HOME = "https://site.example/"
ONE = msgspec.structs.replace(QUICK, frontier=FrontierSection(partitions=1))
LONG = "a text that is long enough to be told from others by its words " * 8


def site(*, changed: bool = False) -> Pages:
    return Pages(
        {
            HOME: page("/a", "/b", text="home"),
            f"{HOME}a": page(text="changed" if changed else LONG),
            f"{HOME}b": page("/c", text="stays"),
            f"{HOME}c": page(text="last"),
        }
    )


def known(*archives: Path, check_every: int = 1) -> Config:
    section = EarlierSection(archives=tuple(map(str, archives)), check_every=check_every)
    return msgspec.structs.replace(ONE, earlier=section)


def rows_of(folder: Path) -> dict[str, JournalRow]:
    with closing(read_folder(folder).source) as source:
        return {row.url: row for each in source.list_segments() for row in source.read_rows(each)}


def body_of(folder: Path, row: JournalRow) -> bytes:
    with closing(read_folder(folder).source) as source:
        places = [(row.body_segment, row.body_offset)] if row.body_offset else []
        own = (f"{row.segment}.warc.gz", row.offset)
        return record_with_body(source.read_record, [*places, own]).body


@pytest.fixture
def first(tmp_path: Path) -> Path:
    crawl_folder(tmp_path / "first", site(), [HOME], ONE)
    return tmp_path / "first"


def test_what_an_earlier_crawl_has_is_a_revisit_of_its_record(first: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    crawl_folder(second, site(changed=True), [HOME], known(first), start=86400.0)
    before, rows = rows_of(first), rows_of(second)
    assert set(rows) == set(before), "the links of pages that are not stored again are followed"
    for url in (HOME, f"{HOME}b", f"{HOME}c"):
        row, original = rows[url], before[url]
        assert row.original is not None and row.revisit == "identical-payload-digest"
        named = row.original.url, row.original.date_us, row.original.record_id
        assert named == (url, original.date_us, original.record_id)
        assert (row.body_segment, row.body_offset) == (f"@{original.segment}", original.offset)
        assert body_of(second, row) == body_of(first, original) != b""
    assert rows[f"{HOME}a"].revisit == "" and b"changed" in body_of(second, rows[f"{HOME}a"])
    whole = {page.url: page.raw_body for page in lycosa.open(second).pages()}
    assert whole[HOME] == body_of(first, before[HOME])
    report = audit(second)
    assert report.breaches == 0, report
    with next((second / "warc").glob("*.warc.gz")).open("rb") as file:
        revisits = [
            {name: record.rec_headers.get_header(name) for name in ("WARC-Refers-To", "WARC-Date")}
            for record in ArchiveIterator(file)
            if record.rec_type == "revisit"
        ]
    assert len(revisits) == 3 and all(each["WARC-Refers-To"] for each in revisits)


def test_pages_of_an_earlier_crawl_are_not_copies(first: Path, tmp_path: Path) -> None:
    moved = Pages({"https://new.example/": page("/a", "/b", text="home")})
    crawl_folder(tmp_path / "second", moved, ["https://new.example/"], known(first))
    row = rows_of(tmp_path / "second")["https://new.example/"]
    assert row.original is not None and row.original.url == HOME
    entry = read_folder(tmp_path / "second").find_url("https://new.example/")
    assert entry is not None and entry.record.reason is Reason.NONE
    assert entry.record.history is not None and entry.record.history.copy_of == ""


def test_an_archive_that_is_gone_is_named(first: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    crawl_folder(second, site(), [HOME], known(first))
    shutil.rmtree(first)
    row = rows_of(second)[HOME]
    assert body_of(second, row) == b"", "the revisit record is what is left"
    assert audit(second).breaches == 0
    with pytest.raises(SettingsError, match=r"earlier\.archives: .*first: no file or folder"):
        crawl_folder(second, site(), [HOME], known(first))


def test_a_cdxj_file_is_enough_where_the_archive_is_not_here(first: Path, tmp_path: Path) -> None:
    index = tmp_path / "elsewhere" / "all.cdxj.gz"
    index.parent.mkdir()
    lines = b"".join(path.read_bytes() for path in sorted((first / "cdxj").glob("*.cdxj")))
    index.write_bytes(gzip.compress(lines))
    before = rows_of(first)[HOME]
    shutil.rmtree(first)
    crawl_folder(tmp_path / "second", site(), [HOME], known(index))
    row = rows_of(tmp_path / "second")[HOME]
    assert row.original is not None and row.original.record_id == ""
    assert row.original.date_us == before.date_us // 1_000_000 * 1_000_000, "an index has seconds"


def test_a_record_with_another_body_is_not_referred_to(first: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    crawl_folder(other, Pages({HOME: page(text="x" * 40)}), [HOME], ONE)
    stolen = next((other / "warc").glob("*.warc.gz")).read_bytes()
    for warc in (first / "warc").glob("*.warc.gz"):
        warc.write_bytes(stolen.ljust(warc.stat().st_size, b"\0"))
    offset = rows_of(other)[HOME].offset
    index = next((first / "cdxj").glob("*.cdxj"))
    lines = index.read_bytes().splitlines(keepends=True)
    home = next(line for line in lines if b'"https://site.example/"' in line)
    line = home[: home.index(b'"offset"')] + b'"offset":"%d"' % offset
    index.write_bytes(line + home[home.index(b',"filename"') :])
    crawl_folder(tmp_path / "second", site(), [HOME], known(first))
    assert all(row.original is None for row in rows_of(tmp_path / "second").values())


ORPHAN = """
import os, subprocess, sys, time
from pathlib import Path
from lycosa.state.folder.lock import CrawlLock
lock = CrawlLock(Path(sys.argv[1])).acquire(time.time())
wait = "import sys; sys.stdin.read()"
subprocess.Popen([sys.executable, "-c", wait], pass_fds=lock.filenos(), stdout=subprocess.DEVNULL)
print("held", flush=True)
os._exit(0)
"""


def test_a_crawl_that_was_killed_at_its_start_is_started_again(first: Path, tmp_path: Path) -> None:
    """Its workers are just starting, and have the lock until they notice."""
    second = tmp_path / "second"
    second.mkdir()
    command = [sys.executable, "-c", ORPHAN, second]
    killed = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert killed.stdin is not None and killed.stdout is not None
    assert killed.stdout.readline() == b"held\n" and killed.wait() == 0
    ending = threading.Timer(0.3, killed.stdin.close)
    ending.start()
    crawl_folder(second, site(), [HOME], known(first))
    ending.join()
    killed.stdout.close()
    assert all(row.original is not None for row in rows_of(second).values() if row.status == 200)


def test_a_url_is_no_place_of_an_archive() -> None:
    for name in ("archives", "warcs"):
        with pytest.raises(SettingsError, match=rf"earlier\.{name}: .*is a URL; only folders"):
            load_settings(None, {}, [f"earlier.{name}=https://archive.example/"])


def test_a_crawl_is_not_its_own_earlier_crawl(first: Path) -> None:
    with pytest.raises(SettingsError, match="its own earlier crawl"):
        crawl_folder(first, site(), [HOME], known(first))


def test_a_file_that_is_no_index_is_refused_with_its_line(first: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.cdxj"
    bad.write_text("example,site)/ 20260101000000 not json\n")
    with pytest.raises(SettingsError, match=r"bad\.cdxj, line 1 is not CDXJ"):
        crawl_folder(tmp_path / "second", site(), [HOME], known(bad))
    # It was refused before the settings were saved, so a start without it does not meet it.
    assert not settings_path(tmp_path / "second").exists()
