"""A crawl of a folder as a cluster has it: commits in Kafka, objects in a store.

The folder's crawl has one worker over several partitions. Each partition becomes a shard: its rows
are in the shard's log. Captures belong to shard 0, because their segments have the name of the
worker that wrote them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from kafka_broker import Broker
from lycosa.base.config.sections import Config
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.topics import Topics
from lycosa.state.attempts.shipping import ship_left_files
from lycosa.state.commit import (
    NOTHING,
    Commit,
    Log,
    PartitionBatch,
    marked,
    merged_by_worker,
    saved_logs,
)
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.names import attempts_folder, log_folder, mark_of
from lycosa.state.kv.kv_port import pairs_of
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.folder_snapshots import FolderSnapshots
from lycosa.state.shard.object_snapshots import ObjectSnapshots
from lycosa.state.store import layout

FROZEN = ("crawl.json", "settings.json", "public_suffix_list.dat")


def commits_of(folder: Path, shard: int) -> list[Commit]:
    """The commits of one worker, with the writes of one partition."""
    crawl = manifests.load_manifest(folder).crawl
    return [
        msgspec.structs.replace(
            commit,
            crawl=crawl,
            shard=shard,
            batches=[_with_places(commit, shard)],
            before={number: mark for number, mark in commit.before.items() if number == shard},
            lengths=commit.lengths if shard == 0 else {},
        )
        for _, commit in merged_by_worker(saved_logs(log_folder(folder)).values())
    ]


def _with_places(commit: Commit, shard: int) -> PartitionBatch:
    """The writes to one partition, and the places of the scope in all of them: a cluster sends
    these to every shard.
    """
    writes = {
        key: value
        for batch in commit.batches
        for key, value in pairs_of(batch.writes)
        if batch.partition == shard or key[:1] == b"J"
    }
    return PartitionBatch(shard, writes)


def put_segments(folder: Path, store: ObjectStore) -> None:
    """Closed segments under their names, open ones as a single part each."""
    commits = commits_of(folder, 0)
    lengths = commits[-1].lengths if commits else {}
    for path in sorted(folder.glob("*/*")):
        kind = path.parent.name
        if kind in ("log", "state") or not path.is_file() or path.name.startswith("."):
            continue
        if not path.name.endswith(layout.OPEN):
            store.put(f"{kind}/{path.name}", path)
    for path in (folder / layout.WARC).glob(f"*{layout.OPEN}"):
        name = layout.stem_of(path)
        sizes = {
            kind: lengths.get(layout.file_name(kind, name) + layout.OPEN, 0)
            for kind in (layout.WARC, layout.JOURNAL)
        }
        content = b"".join(
            (folder / (layout.file_name(kind, name) + layout.OPEN)).read_bytes()[:size]
            for kind, size in sizes.items()
        )
        if content:
            store.put(f"parts/00000/{name}/{0:012d}-{sizes[layout.WARC]:012d}-{0:012d}", content)


def put_shard(
    folder: Path, store: ObjectStore, log: Log, shard: int, work: Path, upto: int
) -> None:
    """Commits into a claimed log, and a snapshot of the commit ``upto`` (0 = none)."""
    opener = rocks_opener(8 << 20, 4 << 20)
    local = FolderSnapshots(work, Config(), opener, [shard])
    data = local.restore_partition(shard)
    try:
        for commit in commits_of(folder, shard):
            log.append(commit)
            for batch in commit.batches if commit.sequence <= upto else ():
                data.table.write(marked(batch, commit.mark, shard))
        if (mark := mark_of(data.table)) != NOTHING:
            ObjectSnapshots(store, shard, log, local).save_partition(shard, data, mark)
    finally:
        data.close()


def put_attempts(folder: Path, store: ObjectStore, work: Path) -> None:
    """The attempt log of the worker, as that of shard 0."""
    work.mkdir()
    for path in attempts_folder(folder).glob("attempts-w000-*"):
        shutil.copy(path, work)
    assert ship_left_files(store, work, 0) == ""


def put_crawl(
    folder: Path, store: ObjectStore, broker: Broker, work: Path, upto: int = 3
) -> Topics:
    """All of a crawl; gives its topics."""
    manifest = manifests.load_manifest(folder)
    shards = manifest.identity.partitions
    topics = broker.topics(shards)
    for name in FROZEN:
        store.put(name, folder / name)
    store.put("cluster.json", msgspec.json.encode({"name": topics.name, "format": 1}))
    put_segments(folder, store)
    work.mkdir()
    put_attempts(folder, store, work / "attempts")
    for shard in range(shards):
        log = KafkaLog(broker.client, topics, manifest.crawl, shard)
        try:
            log.claim()
            put_shard(folder, store, log, shard, work / str(shard), upto)
        finally:
            log.close()
    return topics


def cluster_file(path: Path, topics: Topics, broker: Broker, url: str) -> Path:
    """A ``cluster.toml`` of this crawl."""
    addresses = ", ".join(f'"{address}"' for address in broker.addresses)
    path.write_text(
        f'name = "{topics.name}"\nshards = {topics.shards}\n'
        f"[kafka]\naddresses = [{addresses}]\nreplication = 1\nmin_insync = 1\n"
        f'[objects]\nurl = "{url}"\n'
    )
    return path
