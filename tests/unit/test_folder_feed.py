"""Feeds of a crawl folder: each row once, from any position, while the crawl goes on."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import QUICK, Pages, crawl_folder, html, page
from lycosa.base.config.sections import StoreSection
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.feeds.dead_letter_feed import DeadLetterFeed
from lycosa.feeds.feed_file import FeedFile, FeedFileError
from lycosa.feeds.feed_position import BadPosition, position_text, read_position
from lycosa.feeds.folder_lines import FolderLines
from lycosa.feeds.page_feed import PageFeed
from lycosa.state.store import layout
from lycosa.state.store.journal import JournalError, read_rows
from lycosa.state.store.removed_files import RemovedFile, note_removed
from lycosa.synthetic import Faults

A, B = "http://a.test", "http://b.test"
SMALL = msgspec.structs.replace(QUICK, store=StoreSection(segment_bytes=20_000, commit_pages=3))


def web(host: str, count: int) -> dict[str, Any]:
    pages = {f"{host}/{number}": page(text=f"{number} " * 500) for number in range(count)}
    broken = {f"{host}/broken{number}": html("", 404) for number in range(3)}
    links = [*(f"/{number}" for number in range(count)), "/broken0", "/broken1", "/broken2"]
    return {f"{host}/": page(*links), **pages, **broken}


WEB = Pages({**web(A, 40), **web(B, 40)})


def keys(rows: list[bytes]) -> list[tuple[str, int, str]]:
    """What identifies rows of pages."""
    found = [json.loads(row) for row in rows]
    return [(row["url8"], row["fetch_number"], row["record_id"]) for row in found]


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("feed") / "crawl"
    crawl_folder(folder, WEB, [f"{A}/"], SMALL)
    return folder


def test_every_capture_is_given_once_and_nothing_after_the_end(crawl: Path) -> None:
    feed = PageFeed(FolderLines(crawl))
    rows = list(feed.new_rows())
    found = keys(rows)
    assert len(set(found)) == len(found) == 45  # 41 pages, 3 errors, robots.txt
    assert not list(feed.new_rows())
    assert not list(PageFeed(FolderLines(crawl), feed.position).new_rows())
    assert all("text" not in json.loads(row) for row in rows)


def test_after_any_position_come_exactly_the_rows_behind_it(crawl: Path) -> None:
    feed, positions, rows = PageFeed(FolderLines(crawl)), [""], []
    for row in feed.new_rows():
        rows.append(row)
        positions.append(feed.position)
    for at, position in enumerate(positions):
        assert list(PageFeed(FolderLines(crawl), position).new_rows()) == rows[at:]


def test_a_reader_that_stops_between_rows_continues_there(crawl: Path) -> None:
    feed = PageFeed(FolderLines(crawl))
    whole = list(PageFeed(FolderLines(crawl)).new_rows())
    first = list(islice(feed.new_rows(), 7))
    assert first == whole[:7]
    assert first + list(feed.new_rows()) == whole


def test_rows_of_a_crawl_that_is_killed_and_resumed_are_given_once(tmp_path: Path) -> None:
    folder, seen, letters = tmp_path / "crawl", [], []
    position, letter_position = "", ""
    ends = []
    for round_ in range(30):
        faults = Faults(random.Random(round_), crash_at=6 + 11 * round_, crash_point="commit:")
        end = crawl_folder(
            folder, WEB, [f"{A}/", f"{B}/"], SMALL, start=round_ * 1e5, faults=faults
        )
        feed, dead = (
            PageFeed(FolderLines(folder), position),
            DeadLetterFeed(folder, letter_position),
        )
        while feed.is_behind or not seen:
            seen += list(feed.new_rows())
        while dead.is_behind:
            letters += list(dead.new_rows())
        position, letter_position = feed.position, dead.position
        ends.append(end)
        if end is not None:
            break
    assert ends[-1] is not None and len(ends) > 5
    found = keys(seen)
    assert len(set(found)) == len(found)
    assert sorted(seen) == sorted(PageFeed(FolderLines(folder)).new_rows())
    urls = [json.loads(row)["url"] for row in letters]
    assert sorted(urls) == sorted(f"{host}/broken{n}" for host in (A, B) for n in range(3))


def test_dead_letters_are_given_once_from_any_position(crawl: Path) -> None:
    feed, rows, positions = DeadLetterFeed(crawl), [], [""]
    for row in feed.new_rows():
        rows.append(row)
        positions.append(feed.position)
    assert {json.loads(row)["reason"] for row in rows} == {"http_client_error"}
    assert len(rows) == 3
    for at, position in enumerate(positions):
        assert list(DeadLetterFeed(crawl, position).new_rows()) == rows[at:]


def test_a_position_of_another_feed_crawl_or_form_is_refused(crawl: Path) -> None:
    position = DeadLetterFeed(crawl).position
    with pytest.raises(BadPosition, match="in the feed dlq, and this is pages"):
        PageFeed(FolderLines(crawl), position)
    with pytest.raises(BadPosition, match="in the crawl 00000000"):
        PageFeed(FolderLines(crawl), "pages/00000000/0.1.2")
    for text in ("pages", "pages/x/0.1", "pages/00000000/0.1", "pages/00000000/0.1.2,"):
        with pytest.raises(BadPosition):
            PageFeed(FolderLines(crawl), text)


def test_a_position_behind_the_crawl_is_refused(crawl: Path) -> None:
    feed = PageFeed(FolderLines(crawl))
    list(feed.new_rows())
    head, _, rows = feed.position.rpartition(".")
    with pytest.raises(BadPosition, match="restored from an older copy"):
        list(PageFeed(FolderLines(crawl), f"{head}.{int(rows) + 1}").new_rows())


@pytest.mark.parametrize("also", [(), ("log/closed-w000",), ("warc", "log/closed-w000")])
def test_rows_behind_a_missing_journal_are_not_given(
    crawl: Path, tmp_path: Path, also: tuple[str, ...]
) -> None:
    """The file is known by its recorded length, by its WARC, or by the numbers of the others."""
    folder = Path(shutil.copytree(crawl, tmp_path / "crawl"))
    whole = list(PageFeed(FolderLines(folder)).new_rows())
    journals = sorted((folder / "journal").glob("*.zst"))
    assert len(journals) > 3
    before = [row for path in journals[:2] for row in read_rows(path)]
    lost = journals[2].read_bytes()
    journals[2].unlink()
    for name in also:
        path = folder / name
        path.unlink() if path.is_file() else shutil.rmtree(path)
    feed, given = PageFeed(FolderLines(folder)), []
    for _ in range(2):  # it stays there
        with pytest.raises(JournalError, match="is missing, and its rows with it") as caught:
            given.extend(feed.new_rows())
    assert given == whole[: len(before)]
    name = journals[2].name if len(also) < 2 else "*-w000-000003-*.jsonl.zst"
    assert f"{folder}/journal/{name} is missing" in str(caught.value)
    after = re.search(r"--after (\S+) leaves", str(caught.value))
    assert after is not None
    behind = len(whole) - sum(1 for path in journals[3:] for _ in read_rows(path))
    assert list(PageFeed(FolderLines(folder), after[1]).new_rows()) == whole[behind:]
    journals[2].write_bytes(lost)
    assert given + list(PageFeed(FolderLines(folder), feed.position).new_rows()) == whole


def test_a_missing_last_journal_and_one_that_was_read_before(crawl: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(crawl, tmp_path / "crawl"))
    feed = PageFeed(FolderLines(folder))
    list(feed.new_rows())
    first, *_, last = sorted((folder / "journal").glob("*.zst"))
    first.unlink()
    assert (
        list(PageFeed(FolderLines(folder), feed.position).new_rows()) == []
    )  # its rows were given
    last.unlink()
    with pytest.raises(JournalError, match=f"{last.name} is missing"):
        list(PageFeed(FolderLines(folder), feed.position).new_rows())


def test_the_command_gives_the_rows_before_a_missing_journal_and_names_it(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, target = Path(shutil.copytree(crawl, tmp_path / "crawl")), tmp_path / "rows"
    journals = sorted((folder / "journal").glob("*.zst"))
    lost = journals[1].rename(tmp_path / "lost")
    command = ["feed", "pages", str(folder), "--output", str(target)]
    for _ in range(2):
        assert main(command) == ExitCode.INTERNAL
        assert f"{journals[1]} is missing" in capsys.readouterr().err
        assert len(target.read_bytes().splitlines()) == sum(1 for _ in read_rows(journals[0]))
    lost.rename(journals[1])
    assert main(command) == ExitCode.FINISHED
    assert target.read_bytes().splitlines() == list(PageFeed(FolderLines(folder)).new_rows())


def test_a_position_is_read_as_it_was_written() -> None:
    crawl, read = "0c1d2e3f-0000-4000-8000-000000000000", {0: (12, 345), 11: (1, 0)}
    assert read_position("pages", crawl, position_text("pages", crawl, read), 2) == read
    assert read_position("pages", crawl, position_text("pages", crawl, {}), 2) == {}


# -- the file


def test_a_file_continues_where_its_position_says(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with FeedFile(path) as file:
        file.append([b"1", b"2"], "p2")
    with path.open("ab") as torn:
        torn.write(b"3\n4")  # written, but the position was not
    with FeedFile(path) as file:
        assert file.position == "p2"
        file.append([b"3"], "p3")
    assert path.read_bytes() == b"1\n2\n3\n"


def test_a_file_of_other_content_or_with_missing_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"mine\n")
    with pytest.raises(FeedFileError, match="give the name of a new file"), FeedFile(path):
        pass
    other = tmp_path / "other.jsonl"
    with FeedFile(other) as file:
        file.append([b"1", b"2"], "p2")
        with pytest.raises(FeedFileError, match="another process"), FeedFile(other):
            pass
    other.write_bytes(b"1\n")
    with pytest.raises(FeedFileError, match="rows are missing"), FeedFile(other):
        pass


def test_the_command_that_is_killed_twenty_times_writes_each_row_once(
    crawl: Path, tmp_path: Path
) -> None:
    target = tmp_path / "pages.jsonl"
    small = (
        "import lycosa.cli.feed as feed, sys; feed._BATCH_ROWS = 2;"
        " from lycosa.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", small, "feed", "pages", str(crawl), "-o", str(target)]
    for kill in range(20):
        process = subprocess.Popen([*command, "--follow"])
        while not target.exists() or target.stat().st_size < kill * 2000:
            assert process.poll() is None
            if _is_complete(target, 45):
                break
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert subprocess.run(command, timeout=300, check=False).returncode == 0
    assert target.read_bytes().splitlines() == list(PageFeed(FolderLines(crawl)).new_rows())


def _is_complete(path: Path, rows: int) -> bool:
    return path.exists() and path.read_bytes().count(b"\n") >= rows


def test_the_command_adds_positions_and_prints_schemas(
    crawl: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["feed", "pages", str(crawl), "--positions"]) == 0
    rows = capfdbinary.readouterr().out.splitlines()
    after = json.loads(rows[9])["position"]
    assert main(["feed", "pages", str(crawl), "--positions", "--after", after]) == 0
    assert capfdbinary.readouterr().out.splitlines() == rows[10:]
    assert main(["feed", "schema", "dlq"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["title"] == "a row of the feed dlq"
    assert main(["feed", "pages", str(crawl), "--after", "nonsense"]) == 2
    assert b"is not a position of a feed" in capfdbinary.readouterr().err


def test_a_segment_that_is_removed_while_a_reader_looks_is_not_missing(tmp_path: Path) -> None:
    """A feed would take it for a deleted journal, and end."""
    names = {f"c-w000-{number:06d}-20260101000000" for number in range(1, 201)}
    files = [layout.file_name(layout.JOURNAL, name) for name in sorted(names)]
    (tmp_path / layout.JOURNAL).mkdir()
    for file in files:
        (tmp_path / file).touch()
    is_over = threading.Event()

    def remove() -> None:
        for file in files:
            note_removed(tmp_path, [RemovedFile(file, 0, "", "s3://bucket")])
            (tmp_path / file).unlink()
        is_over.set()

    removing = threading.Thread(target=remove)
    removing.start()
    looks = [layout.segment_names(tmp_path, layout.JOURNAL)]
    while not is_over.is_set():
        looks.append(layout.segment_names(tmp_path, layout.JOURNAL))
    removing.join()
    assert [names - found for found in looks if found != names] == []
