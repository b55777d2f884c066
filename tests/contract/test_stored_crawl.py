"""A cluster's crawl in object storage: made once, by whoever comes first, and changed only where
that is safe.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lycosa.base.config.cluster_file import ClusterFile, KafkaSection
from lycosa.base.config.scope_sections import AgentSection
from lycosa.base.config.sections import Config, FrontierSection, LimitSection, PolitenessSection
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.compatibility import FIRST_FORMATS, LATE_FIELDS
from lycosa.base.urls.identity import BUNDLED_LIST, Sites
from lycosa.cluster.shards.stored_crawl import (
    SETTINGS_NAME,
    SUFFIXES_NAME,
    CrawlFrozen,
    CreationReport,
    NoStoredCrawl,
    read_crawl,
    store_crawl,
    store_formats,
    stored_config,
)
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.manifest import DamagedFile, DamagedManifest, create_crawl
from lycosa.state.folder.upload import PlaceTaken, reserve
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.store_opening import open_store
from s3_server import CREDENTIALS, S3Server, s3_program


@pytest.fixture(params=["folder", "s3"])
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterFile]:
    """The file of a crawl with an empty place."""
    file = ClusterFile(tmp_path / "cluster.toml", "news", KafkaSection(("127.0.0.1:9",)), 4)
    if request.param == "folder":
        (tmp_path / "objects").mkdir()
        yield msgspec.structs.replace(file, objects=f"file://{tmp_path / 'objects'}")
        return
    if s3_program() is None:
        pytest.skip("there is no S3 server (versitygw): `script/services s3` builds it")
    monkeypatch = pytest.MonkeyPatch()
    (tmp_path / "s3").mkdir()
    with S3Server(tmp_path / "s3") as server, monkeypatch.context() as patched:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": server.endpoint}.items():
            patched.setenv(name, value)
        yield msgspec.structs.replace(file, objects="s3://crawl/news")


def store_of(given: ClusterFile) -> ObjectStore:
    return open_store(given.objects)


def store(given: ClusterFile, config: Config | None = None, wall: float = 1e9) -> CreationReport:
    return store_crawl(store_of(given), given, config or Config(), "lycosa/test", wall)


def test_a_crawl_is_made_once_and_read_by_all(given: ClusterFile) -> None:
    assert stored_config(store_of(given), given) is None
    with pytest.raises(NoStoredCrawl, match="`lycosa cluster init FILE` creates it"):
        read_crawl(store_of(given), given)
    made = store(given)
    assert made.is_new and made.crawl.manifest.identity.partitions == 4
    again = store(given, wall=2e9)
    assert not again.is_new and again.changes == []
    found = read_crawl(store_of(given), given)
    assert found == again.crawl and found.manifest == made.crawl.manifest
    assert found.suffixes == BUNDLED_LIST.read_bytes()
    assert found.config.frontier.partitions == 4


def test_two_that_make_it_at_once_make_one(given: ClusterFile) -> None:
    found: list[CreationReport] = []
    threads = [
        threading.Thread(target=lambda: found.append(store(given, wall=1e9))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4
    assert len({each.crawl.manifest.crawl for each in found}) == 1


def test_a_crawl_that_older_programs_may_work_on_gets_no_purpose(given: ClusterFile) -> None:
    store(given)
    store_formats(store_of(given), FIRST_FORMATS)
    wanted = Config(agent=AgentSection(purpose=("search",)))
    with pytest.raises(SettingsError, match=r"agent\.purpose: .* lycosa cluster upgrade"):
        store(given, wanted)
    assert read_crawl(store_of(given), given).config.agent.purpose == ()
    store_formats(store_of(given), LATE_FIELDS)
    assert store(given, wanted).changes == ["agent.purpose:  -> search"]


def test_settings_change_unless_stored_data_depends_on_them(given: ClusterFile) -> None:
    first = store(given)
    slower = Config(politeness=PolitenessSection(delay_s=7.0))
    assert store(given, slower).changes == ["politeness.delay_s: 1s -> 7s"]
    assert read_crawl(store_of(given), given).config.politeness.delay_s == 7.0
    assert read_crawl(store_of(given), given).manifest == first.crawl.manifest
    with pytest.raises(CrawlFrozen, match=r"frontier\.bands is 8 and would become 3"):
        store(given, Config(frontier=FrontierSection(bands=3)))
    with pytest.raises(CrawlFrozen, match=r"has 4 shards, and .* says 8: set shards = 4"):
        store(msgspec.structs.replace(given, shards=8))
    with pytest.raises(CrawlFrozen, match="set shards = 4"):
        read_crawl(store_of(given), msgspec.structs.replace(given, shards=8))
    assert read_crawl(store_of(given), given).config == msgspec.structs.replace(
        slower, frontier=FrontierSection(partitions=4)
    )


def test_settings_of_one_machine_are_refused(given: ClusterFile) -> None:
    config = Config(workers=3, limits=LimitSection(max_time_s=60))
    with pytest.raises(SettingsError) as error:
        store(given, config)
    assert [each.partition(":")[0] for each in error.value.problems] == [
        "workers",
        "limits.max_time_s",
    ]
    assert list(store_of(given).list()) == []


def test_the_place_of_another_crawl_is_refused(given: ClusterFile, tmp_path: Path) -> None:
    store(given)
    other = msgspec.structs.replace(given, name="other")
    with pytest.raises(PlaceTaken, match="belongs to the cluster crawl 'news'"):
        store(other)
    with pytest.raises(PlaceTaken):
        read_crawl(store_of(given), other)
    folder = tmp_path / "crawl"
    uploaded = create_crawl(folder, manifests.identity_of(Config(), Sites()), "x", 1e9)
    with pytest.raises(PlaceTaken):
        reserve(store_of(given), given.objects, folder, uploaded.crawl)


def test_the_place_of_an_uploaded_crawl_is_refused(given: ClusterFile, tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    uploaded = create_crawl(folder, manifests.identity_of(Config(), Sites()), "x", 1e9)
    reserve(store_of(given), given.objects, folder, uploaded.crawl)
    with pytest.raises(PlaceTaken, match="a crawl of one machine was uploaded there"):
        store(given)


def test_what_an_interrupted_program_left_is_completed(given: ClusterFile) -> None:
    first = store(given)
    kept = {each.key: store_of(given).get(each.key) for each in store_of(given).list()}
    for missing in (SETTINGS_NAME, manifests.MANIFEST_NAME):
        store_of(given).delete([missing])
        with pytest.raises(NoStoredCrawl):
            read_crawl(store_of(given), given)
    store_of(given).put(manifests.MANIFEST_NAME, kept[manifests.MANIFEST_NAME])
    assert store(given).crawl == first.crawl


def test_damaged_objects_are_named(given: ClusterFile) -> None:
    store(given)
    kept = {each.key: store_of(given).get(each.key) for each in store_of(given).list()}
    store_of(given).put(SUFFIXES_NAME, b"example\n")
    with pytest.raises(DamagedFile, match="is not the list that the crawl began with"):
        read_crawl(store_of(given), given)
    store_of(given).put(SUFFIXES_NAME, kept[SUFFIXES_NAME])
    for key in (SETTINGS_NAME, manifests.MANIFEST_NAME, "cluster.json"):
        store_of(given).put(key, b"{")
        with pytest.raises(DamagedManifest, match=key):
            read_crawl(store_of(given), given)
        store_of(given).put(key, kept[key])
    read_crawl(store_of(given), given)
