"""Shards that begin with a snapshot of prepared rows, and a log behind it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kafka_broker import Broker
from lycosa.base.config.sections import Config
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.new_log import FirstCommit, NewLogTaken, begin_log
from lycosa.cluster.kafka.topics import Topics
from lycosa.moves.new_shards import SnapshotPlace, save_first_snapshot
from lycosa.state.commit import Commit, Mark, PartitionBatch
from lycosa.state.folder.names import mark_of, stamp_of
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.seen.seen_port import hashes_of
from lycosa.state.shard.folder_snapshots import FolderSnapshots
from lycosa.state.shard.object_snapshots import ObjectSnapshots, snapshot_key
from lycosa.state.shard.opened_shard import Shard, ShardStorage, open_shard
from lycosa.state.shard.usable_snapshots import SnapshotUnusable
from lycosa.state.store.object_segments import ObjectSegments

pytestmark = pytest.mark.service
CRAWL, SHARD = "2f0cf3d2", 1
MARK = Mark(4, 200)
FIRST = FirstCommit(SHARD, MARK, wall=10.0, time=11.0, is_final=True)
URL = b"U" + b"hosthost" + b"urlurlur"


@pytest.fixture
def topics(kafka: Broker) -> Topics:
    return kafka.topics()


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    (tmp_path / "store").mkdir()
    return FolderStore("file:///store", tmp_path / "store")


def save(store: ObjectStore, folder: Path) -> None:
    place = SnapshotPlace(store, folder, Config(), rocks_opener())
    data = place.open_partition(SHARD)
    data.table.write({URL: b"a record"})
    save_first_snapshot(place, SHARD, data, MARK)
    data.close()


def opened(kafka: Broker, topics: Topics, store: ObjectStore, folder: Path) -> Shard:
    log = KafkaLog(kafka.client, topics, CRAWL, SHARD)
    local = FolderSnapshots(folder, Config(), rocks_opener(), [SHARD])
    snapshots = ObjectSnapshots(store, SHARD, log, local)
    storage = ShardStorage(log, ObjectSegments(store, SHARD, folder / "segments"), snapshots)
    return open_shard(SHARD, [SHARD], storage)[0]


def test_the_first_owner_has_the_rows_in_the_next_term_and_holds_no_host(
    kafka: Broker, topics: Topics, store: ObjectStore, tmp_path: Path
) -> None:
    save(store, tmp_path / "made")
    for _ in range(2):  # may be repeated
        begin_log(kafka.client, topics, CRAWL, FIRST)
    with closing(opened(kafka, topics, store, tmp_path / "owner")) as shard:
        data = shard.data[SHARD]
        assert (shard.term, shard.next_sequence, shard.was_left_orderly) == (5, 202, True)
        assert data.table.get(URL) == b"a record"
        assert mark_of(data.table) == Mark(4, 201)
        assert data.seen.unseen(hashes_of([b"urlurlur", b"otherurl"])).tolist() == [False, True]
        assert data.seen.stamp == stamp_of(Mark(4, 201))


def test_without_its_snapshot_a_shard_does_not_begin_empty(
    kafka: Broker, topics: Topics, store: ObjectStore, tmp_path: Path
) -> None:
    save(store, tmp_path / "made")
    begin_log(kafka.client, topics, CRAWL, FIRST)
    store.delete([snapshot_key(SHARD, MARK)])
    with pytest.raises(SnapshotUnusable):
        opened(kafka, topics, store, tmp_path / "owner")


def test_a_log_that_was_begun_in_part_is_completed(
    kafka: Broker, topics: Topics, store: ObjectStore, tmp_path: Path
) -> None:
    for _ in range(2):
        with closing(KafkaLog(kafka.client, topics, CRAWL, SHARD)) as log:
            log.claim()
    save(store, tmp_path / "made")
    begin_log(kafka.client, topics, CRAWL, FIRST)
    with closing(opened(kafka, topics, store, tmp_path / "owner")) as shard:
        assert (shard.term, shard.was_left_orderly) == (5, True)


def test_a_log_with_other_commits_is_not_changed(kafka: Broker, topics: Topics) -> None:
    with closing(KafkaLog(kafka.client, topics, CRAWL, SHARD)) as log:
        log.claim()
        batch = PartitionBatch(SHARD, {b"key": b"value"})
        log.append(Commit(term=1, sequence=1, wall=1.0, batches=[batch], crawl=CRAWL, shard=SHARD))
        with pytest.raises(NewLogTaken, match="commits of another state"):
            begin_log(kafka.client, topics, CRAWL, FIRST)
        log.append(Commit(term=1, sequence=2, wall=1.0, batches=[batch], crawl=CRAWL, shard=SHARD))
