"""Bodies of revisits after a crawl's folder was imported into a cluster, and after the cluster got
more shards: read from storage, by one read each.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from crawling import crawl_folder
from judging import quick_config
from kafka_broker import Broker
from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.base.config.sections import FrontierSection, StoreSection
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.moves.new_generation import ClusterPlaces
from lycosa.moves.stopped_cluster import import_shards
from lycosa.moves.stopped_folder import import_folder
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.objects.store_opening import open_store
from revisited_site import DAYS_30, SHARDS, Site, all_bodies_are_found, in_folder
from scripted import ScriptedWeb

pytestmark = pytest.mark.service
CONFIG = quick_config(
    frontier=FrontierSection(partitions=SHARDS), store=StoreSection(segment_age_s=10.0)
)


@pytest.fixture
def places(tmp_path: Path, kafka: Broker) -> ClusterPlaces:
    """An empty place for a cluster."""
    (tmp_path / "objects").mkdir()
    (tmp_path / "cluster.toml").write_text(
        f'name = "c-{uuid.uuid4().hex[:10]}"\nshards = {SHARDS}\n'
        f'[kafka]\naddresses = ["{kafka.addresses[0]}"]\nreplication = 1\n'
        f'[objects]\nurl = "file://{tmp_path}/objects"\n'
    )
    return places_of(tmp_path, kafka)


def places_of(folder: Path, kafka: Broker) -> ClusterPlaces:
    given = read_cluster_file(folder / "cluster.toml")
    store, opener = open_store(given.objects), rocks_opener(8 << 20, 4 << 20)
    return ClusterPlaces(
        given, kafka.client, store, folder / "work", opener, lambda *step: None, print
    )


def bodies_are_read_from_storage(
    places: ClusterPlaces, folder: Path, wanted: dict[str, str]
) -> int:
    """Returns the number of shards."""
    opened = OpenedCluster(places.given, folder)
    try:
        shards = opened.stored.manifest.identity.partitions
        all_bodies_are_found(dict.fromkeys(range(shards), opened.view), wanted)
        return shards
    finally:
        opened.close()


def test_bodies_are_found_after_an_import_and_in_more_shards(
    tmp_path: Path, places: ClusterPlaces, kafka: Broker
) -> None:
    site, folder = Site(tmp_path), tmp_path / "one"
    web = ScriptedWeb(site.answers)
    for number, wanted in enumerate(site.wanted):
        crawl_folder(folder, web, [] if number else site.seeds, CONFIG, start=number * DAYS_30)
        all_bodies_are_found(in_folder(folder), wanted)
    import_folder(folder, places)
    assert bodies_are_read_from_storage(places, tmp_path / "cache", wanted) == SHARDS
    import_shards(places, 5)
    file = tmp_path / "cluster.toml"
    file.write_text(file.read_text().replace(f"shards = {SHARDS}", "shards = 5"))
    again = places_of(tmp_path, kafka)
    assert bodies_are_read_from_storage(again, tmp_path / "cache", wanted) == 5
