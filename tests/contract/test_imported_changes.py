"""Cursors of the list of changes across an import into a cluster and a division into more shards:
each change is told once, wherever its reader was.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_imported_bodies import places, places_of

from crawling import Pages, crawl_folder, page
from judging import quick_config
from kafka_broker import Broker
from lycosa.base.calls import ChangesQuery
from lycosa.base.config.sections import FrontierSection, RefetchRule, RefetchSection, StoreSection
from lycosa.cli.changes import command as changes
from lycosa.cli.diff import command as diff
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.inspect.committed_state import CrawlReader, read_folder
from lycosa.inspect.queries.changed_list import (
    BadCursor,
    ChangesCursor,
    changes_in,
    cursor_text,
    generation_of,
    merged_changes,
    read_cursor,
)
from lycosa.moves.new_generation import ClusterPlaces
from lycosa.moves.stopped_cluster import import_shards
from lycosa.moves.stopped_folder import import_folder
from lycosa.synthetic import Response

__all__ = ["places"]  # a fixture
pytestmark = pytest.mark.service
DAY = 86_400.0
PARTITIONS, MORE = 3, 5
HOSTS = [f"http://h{number}.example/" for number in range(8)]
CONFIG = quick_config(
    frontier=FrontierSection(partitions=PARTITIONS),
    store=StoreSection(segment_age_s=10.0),
    refetch=RefetchSection(
        rule=RefetchRule.ADAPTIVE, first_s=5 * DAY, min_s=5 * DAY, max_s=5 * DAY
    ),
)


def web() -> Pages:
    pages: dict[str, list[Response]] = {}
    for number, url in enumerate(HOSTS):
        texts = [
            page(f"{url}a", f"{url}b", text=f"{url} {turn // (1 + number % 3)}")
            for turn in range(4)
        ]
        pages |= {url: texts, f"{url}a": texts, f"{url}b": [page(text="stays")]}
    return Pages(pages)


def read_on(reader: CrawlReader, text: str, most: int, pages: int = 100) -> tuple[list[str], str]:
    """The changes behind a cursor, in pages, and the cursor behind them."""
    crawl, told = reader.manifest.crawl, []
    cursor = read_cursor(crawl, text) if text else ChangesCursor()
    for _ in range(pages):
        query = ChangesQuery(read=cursor.read, most=most)
        answers = {}
        for number in range(reader.partitions):
            with reader.partition_view(number) as view:
                answers[number] = changes_in(view, generation_of(reader), query)
        found = merged_changes(answers, cursor, most, reader.partitions)
        told += [f"{row.change} {row.url} {row.date}" for row in found.rows]
        cursor = read_cursor(crawl, cursor_text(crawl, found.cursor))
        assert cursor == found.cursor
        if not found.has_more:
            break
    return told, cursor_text(crawl, cursor)


def test_each_change_is_told_once_across_an_import_and_a_division(
    tmp_path: Path, places: ClusterPlaces, kafka: Broker
) -> None:
    folder, site = tmp_path / "one", web()
    for number in range(3):
        crawl_folder(folder, site, [] if number else HOSTS, CONFIG, start=number * 6 * DAY)
    reader = read_folder(folder)
    whole, end = read_on(reader, "", 1000)
    assert len(whole) > 30 and len(whole) == len(set(whole))
    # readers that have read nothing, a part in small pages, and all of it
    readers = [read_on(reader, "", 7, pages) for pages in (1, 2, 4)] + [([], ""), (whole, end)]
    import_folder(folder, places)
    opened = OpenedCluster(places.given, tmp_path / "cache")
    try:
        later = []
        for number, (told, cursor) in enumerate(readers):
            # some go on before the next division, some not at all, some a little
            more, moved = read_on(CrawlReader(opened.view), cursor, 5, (0, 2, 100, 1, 1)[number])
            later.append((told + more, moved))
        later += readers
    finally:
        opened.close()
    import_shards(places, MORE)
    file = tmp_path / "cluster.toml"
    file.write_text(file.read_text().replace(f"shards = {PARTITIONS}", f"shards = {MORE}"))
    opened = OpenedCluster(places_of(tmp_path, kafka).given, tmp_path / "cache")
    try:
        reader = CrawlReader(opened.view)
        for told, cursor in later:
            rest, last = read_on(reader, cursor, 3)
            assert sorted(told + rest) == sorted(whole), cursor
            # the numbers from before the imports are dropped once they are of no use
            assert last.count(":") == 1 and "/2:" in last
            assert read_on(reader, last, 3) == ([], last)
        with pytest.raises(BadCursor, match="restored"):
            read_on(read_folder(folder), last, 3)
    finally:
        opened.close()
    commands_read_the_cluster(tmp_path, len(whole))


def commands_read_the_cluster(folder: Path, count: int) -> None:
    place = ["--cluster", str(folder / "cluster.toml"), "--cache", str(folder / "cache")]
    listed = CliRunner().invoke(changes, [*place, "--json"])
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert len([each for each in rows if "url" in each]) == count, listed.output
    assert "cursor" in rows[-1]
    again = CliRunner().invoke(changes, [*place, "--since", rows[-1]["cursor"]])
    assert (again.exit_code, again.stdout) == (0, ""), again.output
    shown = CliRunner().invoke(diff, [*place, f"{HOSTS[0]}a"]).output
    assert f"-{HOSTS[0]} 1" in shown and f"+{HOSTS[0]} 2" in shown, shown
