"""A crawl with cold records is moved and rescued with all that it knew."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from cold_crawls import cold_copy
from crawling import QUICK, Pages, crawl_folder, html, page
from lycosa.base.config.sections import FrontierSection, RefetchSection
from lycosa.cluster.shards.stored_crawl import StoredCrawl
from lycosa.inspect.committed_state import TableView
from lycosa.moves.rescue_survey import PointOfView, RescuePlace, survey_shard
from lycosa.moves.rescued_shard import OtherShards, RescuedShard, ShardRescue
from lycosa.state.commit import Mark, MemoryChangelog, MemoryLog
from lycosa.state.folder.manifest import load_manifest
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.counters import counters_of
from memory_objects import MemoryStore
from stored_crawl import put_segments, put_shard

SITE = "http://www.example.org"
PAGES = {
    f"{SITE}/": page(*(f"/{n}" for n in range(12)), "/gone"),
    **{
        f"{SITE}/{n}": html(f"<title>{n}</title><p>Page {n}, {'and so on ' * n}") for n in range(12)
    },
}
CONFIG = msgspec.structs.replace(
    QUICK,
    frontier=FrontierSection(partitions=1),
    refetch=RefetchSection(policies=("www.example.org /1* never",)),  # the others are due one day
)
MARK = Mark(1000, 1000)


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A crawl, and the same with cold files."""
    folder = tmp_path_factory.mktemp("moves") / "crawl"
    crawl_folder(folder, Pages(PAGES), [f"{SITE}/"], CONFIG)
    assert cold_copy(folder, folder.with_name("cold")) == 14
    return folder, folder.with_name("cold")


def stored(folder: Path, work: Path) -> RescuePlace:
    """What is in the bucket of a cluster with this crawl, whose log is lost."""
    store: ObjectStore = MemoryStore()
    manifest = load_manifest(folder)
    put_segments(folder, store)
    for path in folder.glob("cold/*/*.parquet"):
        store.put(path.relative_to(folder).as_posix(), path)
    log = MemoryLog(MemoryChangelog(manifest.crawl, 0))
    log.claim()
    put_shard(folder, store, log, 0, work / "owner", upto=1 << 30)
    suffixes = (folder / "public_suffix_list.dat").read_bytes()
    crawl = StoredCrawl(manifest, CONFIG, suffixes)
    opener = rocks_opener(8 << 20, 4 << 20)
    return RescuePlace(crawl, store, work / "rescue", opener, lambda *step: None)


def rescued(place: RescuePlace) -> RescuedShard:
    remains = survey_shard(place, 0, MARK)
    assert remains.snapshot is not None
    rescue = ShardRescue(place, remains, PointOfView.SNAPSHOT, OtherShards(frozenset()), MARK)
    return asyncio.run(rescue.run())


def test_a_rescue_knows_cold_urls_and_enters_no_capture_twice(
    crawls: tuple[Path, Path], tmp_path: Path
) -> None:
    found = []
    for folder in crawls:
        place = stored(folder, tmp_path / folder.name)
        done = rescued(place)
        assert (done.entered.captures, done.known) == (0, 0)
        data = place.snapshots(0).open_partition(0)
        with TableView(0, data.table) as view:
            urls = {entry.url: entry.record for entry in view.urls()}
            counters = counters_of(data.table)
        data.close()
        assert counters.cold == {} and counters.discovered == len(urls) == 14
        found.append((urls, counters.states, counters.reasons, counters.cells))
    assert found[0] == found[1]
