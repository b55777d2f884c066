"""A move of a crawl's state puts nothing in force before all is done, and may be repeated."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec
import pytest

from cold_crawls import make_cold
from crawling import QUICK, crawl_folder
from kafka_broker import Broker
from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.base.config.sections import (
    Config,
    FrontierSection,
    LimitSection,
    RefetchRule,
    RefetchSection,
)
from lycosa.cluster.kafka.generations import LogWentOn
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.cluster.shards.stored_crawl import newest_manifest, read_crawl
from lycosa.inspect.committed_state import CrawlReader, read_folder
from lycosa.moves.gathered import GatheredState
from lycosa.moves.move import move_crawl
from lycosa.moves.new_generation import ClusterPlaces
from lycosa.moves.stopped_folder import StoppedFolder, import_folder
from lycosa.state.folder.folder_notes import refuse_imported
from lycosa.state.folder.manifest import ManifestError
from lycosa.state.folder.upload import PlaceTaken
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.store_opening import open_store
from lycosa.state.ranks.rank_results import WORK_FOLDER
from lycosa.state.ranks.rank_set import make_rank_set, open_rank_file, read_rank_set
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.synthetic_hosts import host_name

pytestmark = pytest.mark.service
PLAN = WebPlan(hosts=6, pages=6, seed=5, latency_s=0.01, page_bytes=1500)
CONFIG = msgspec.structs.replace(
    QUICK,
    frontier=FrontierSection(partitions=2),
    limits=LimitSection(max_time_s=90.0),
    refetch=RefetchSection(rule=RefetchRule.OFF),
)


class WentOn(StoppedFolder):
    """A source that was changed while it was moved."""

    def complete_segments(self, state: GatheredState) -> int:
        raise LogWentOn("the crawl continued")


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """The folder of a crawl that was stopped half-way."""
    seed = f"http://{host_name(0)}/"
    crawl_folder(tmp_path / "one", SyntheticWeb(PLAN), [seed], CONFIG, stop_after_s=4.0)
    return tmp_path / "one"


@pytest.fixture
def places(tmp_path: Path, kafka: Broker) -> ClusterPlaces:
    """An empty place, for a crawl with three shards."""
    (tmp_path / "objects").mkdir()
    file = tmp_path / "cluster.toml"
    file.write_text(
        f'name = "c-{uuid.uuid4().hex[:10]}"\nshards = 3\n'
        f'[kafka]\naddresses = ["{kafka.addresses[0]}"]\nreplication = 1\n'
        f'[objects]\nurl = "file://{tmp_path}/objects"\n'
    )
    given = read_cluster_file(file)
    store, opener = open_store(given.objects), rocks_opener(8 << 20, 4 << 20)
    return ClusterPlaces(
        given, kafka.client, store, tmp_path / "work", opener, lambda *step: None, print
    )


def generations(places: ClusterPlaces) -> set[str]:
    """Those that have snapshots."""
    keys = (each.key.split("/") for each in places.objects.list("generations/"))
    return {name for _, name, kind, *_ in keys if kind == "snapshots"}


def test_nothing_is_in_force_if_the_crawl_went_on(crawl: Path, places: ClusterPlaces) -> None:
    with pytest.raises(LogWentOn):
        move_crawl(WentOn(crawl, places), places, 3)
    with pytest.raises(ObjectMissing):
        newest_manifest(places.objects)
    assert len(generations(places)) == 1
    report = import_folder(crawl, places)
    assert report.is_new and report.urls >= report.captures > 0
    # what the move before left is gone, and the folder is known to be elsewhere
    assert generations(places) == {report.manifest.generation}
    with pytest.raises(ManifestError, match="was imported"):
        refuse_imported(crawl)
    again = import_folder(crawl, places)
    assert not again.is_new and generations(places) == {again.manifest.generation}


def test_cold_records_are_rows_of_the_new_shards(crawl: Path, places: ClusterPlaces) -> None:
    known = {entry.url: entry.record.state for entry in read_folder(crawl).urls()}
    assert make_cold(crawl) > 0
    assert import_folder(crawl, places).urls == len(known)
    opened = OpenedCluster(places.given, places.work / "read")
    try:
        opened.view.open_shards()
        found = CrawlReader(opened.view)
        assert {entry.url: entry.record.state for entry in found.urls()} == known
        assert all(not view.counters().cold for view in found.partition_views())
        assert list(opened.objects.list("cold/")) == []
    finally:
        opened.close()


def test_settings_of_a_machine_are_left_out_and_told(crawl: Path, places: ClusterPlaces) -> None:
    unfinished = crawl / WORK_FOLDER / "links.parquet"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"of a run that was interrupted")
    ranks = make_rank_set(crawl, 1, lambda host: 0, "a test", [("a.example", 0.5)])
    report = import_folder(crawl, places)
    assert read_rank_set(places.objects, ranks).hosts == 1, "ranks go along"
    assert open_rank_file(places.work, places.objects, ranks, 2, 3)[1].hosts == 1
    assert not list(places.objects.list(WORK_FOLDER)), "it can be computed again"
    assert len(report.notes) == 1 and "limits.max_time_s is left out" in report.notes[0]
    stored = read_crawl(places.objects, places.given)
    assert stored.config.limits.max_time_s == Config().limits.max_time_s
    assert stored.config.frontier.partitions == stored.manifest.identity.partitions == 3


def test_a_place_with_another_crawl_is_refused(
    tmp_path: Path, crawl: Path, places: ClusterPlaces
) -> None:
    import_folder(crawl, places)
    crawl_folder(tmp_path / "two", SyntheticWeb(PLAN), [], CONFIG, stop_after_s=1.0)
    with pytest.raises(PlaceTaken, match="already"):
        import_folder(tmp_path / "two", places)
