"""What a view of shards shows while their owners go on, and how it opens them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pytest

from cold_samples import cold_record, write_cold
from lycosa.base.config.sections import Config, FrontierSection
from lycosa.base.model.capture import Location
from lycosa.base.urls.identity import Sites
from lycosa.cluster.shards.cluster_view import ClusterView, ReadingProgress
from lycosa.state.cold.cold_rows import ColdDamaged, cold_key, object_key
from lycosa.state.commit import Commit, LogDamaged, Mark, MemoryChangelog, MemoryLog, PartitionBatch
from lycosa.state.folder import manifest as manifests
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.kv.table_records import encode_record
from lycosa.state.shard.view import CrawlOrigin
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.stored_data import RecordError
from memory_objects import MemoryStore
from store_samples import INFO, SECTION, START, numbered, row_builder

SHARDS = 3


class OpenedLog:
    """A log as a reader has it."""

    def __init__(self, changelog: MemoryChangelog, crawl: Cluster) -> None:
        self._log, self._changelog, self._crawl = MemoryLog(changelog), changelog, crawl
        self.newest_term = self.owner_term = 0
        crawl.opened.append(changelog.shard)

    def read(self) -> Iterator[Commit]:
        if self._changelog.shard in self._crawl.damaged:
            raise LogDamaged(Path("log"), 7, "a commit is missing")
        yield from self._log.read()
        self.newest_term = self.owner_term = self._changelog.terms

    def end(self) -> None:
        self._crawl.ended.append(self._changelog.shard)

    def close(self) -> None:
        """Nothing is held."""


class Owner:
    """The owner of a shard, which stores captures."""

    def __init__(self, crawl: Cluster, shard: int, folder: Path) -> None:
        self._log, self._shard, self._crawl = MemoryLog(crawl.changelogs[shard]), shard, crawl
        claim = self._log.claim()
        self._sequence = claim.latest.sequence if claim.latest else 0
        self.segments = ObjectSegments(crawl.store, shard, folder / f"work{shard}")
        lengths = claim.latest.lengths if claim.latest else {}
        self.segments.recover_segments(lengths)
        found = self.segments.find_segments(claim.term)
        self.store = SegmentStore(found, SECTION, INFO, shard, Random(1), row_builder(SECTION))
        self._term = claim.term

    def commit(
        self, *numbers: int, is_final: bool = False, writes: Mapping[bytes, bytes | None] = {}
    ) -> list[Location]:
        places = [self.store.append_capture(numbered(number)) for number in numbers]
        pending = self.store.freeze()
        self.segments.put_records(pending)
        self._sequence += 1
        rows = {**{b"k%d" % number: b"v" for number in numbers}, **writes}
        self._log.append(
            Commit(
                term=self._term,
                sequence=self._sequence,
                wall=START + self._sequence,
                crawl=self._crawl.manifest.crawl,
                shard=self._shard,
                lengths=pending.lengths,
                batches=[PartitionBatch(self._shard, rows)] if rows else [],
                inbox=10 * self._sequence,
                is_final=is_final,
            )
        )
        return places

    def close_segment(self) -> None:
        closed = self.store.roll_segment(START, force=True)
        assert closed is not None
        self.segments.close_segment(closed.name)
        self.store.note_closed(closed)


class Cluster:
    """A crawl of some shards."""

    def __init__(self, folder: Path) -> None:
        config = Config(frontier=FrontierSection(partitions=SHARDS))
        self._folder = folder
        self.manifest = manifests.create_crawl(
            folder / "crawl", manifests.identity_of(config, Sites()), "test", START
        )
        self.store = MemoryStore()
        self.changelogs = [MemoryChangelog(self.manifest.crawl, n) for n in range(SHARDS)]
        self.opened: list[int] = []
        self.ended: list[int] = []
        self.damaged: set[int] = set()

    def owner(self, shard: int) -> Owner:
        return Owner(self, shard, self._folder)

    def view(self) -> ClusterView:
        origin = CrawlOrigin("a crawl", self.manifest, Sites, Config)
        self.told: list[ReadingProgress] = []
        return ClusterView(
            origin,
            self.store,
            lambda shard: OpenedLog(self.changelogs[shard], self),
            rocks_opener(8 << 20, 4 << 20),
            self._folder / "cache",
            self.told.append,
        )


@pytest.fixture
def crawl(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def urls(view: ClusterView) -> list[str]:
    return [row.url for each in view.list_segments() for row in view.read_rows(each)]


def test_a_shard_is_opened_when_it_is_first_asked_for(crawl: Cluster) -> None:
    crawl.owner(1).commit(1)
    view = crawl.view()
    assert (crawl.opened, view.shards) == ([], {})
    assert view.open_table(1).get(b"k1") == b"v"
    assert view.open_table(1).get(b"k2") is None
    assert crawl.opened == [1]
    view.open_shards()
    assert sorted(crawl.opened) == [0, 1, 2]
    assert crawl.told[-1].opened == SHARDS
    view.close()


def test_cold_records_are_read_from_the_objects(crawl: Cluster) -> None:
    records = sorted(map(cold_record, range(5)), key=lambda each: each.url)
    rows = write_cold(crawl.store, records).rows
    crawl.owner(1).commit(1, writes={cold_key(1): encode_record(rows[1])})
    view = crawl.view()
    table = view.open_table(1)
    assert list(table.scan(b"U", b"V")) == [(b"U" + each.url, each.value) for each in records]
    assert table.get(b"U" + records[3].url) == records[3].value
    assert (table.get(b"k1"), table.get(b"U" + bytes(16))) == (b"v", None)
    crawl.store.delete([object_key(rows[1].name)])
    with pytest.raises(ColdDamaged, match=rows[1].name):
        list(view.open_table(1).scan(b"U", b"V"))
    view.close()


def test_positions_are_those_of_the_last_commit_and_of_its_owner(crawl: Cluster) -> None:
    owner = crawl.owner(0)
    owner.commit(1)
    owner.commit(is_final=True)
    view = crawl.view()
    view.open_shards([0, 2])
    first = view.shards[0]
    assert (first.owner_term, first.last, first.inbox) == (1, Mark(1, 2), 20)
    assert (first.wall, first.is_final) == (START + 2, True)
    assert view.shards[2].last == Mark(0, 0)
    assert view.seen.last.newest == Mark(1, 2)
    view.close()
    crawl.owner(0)  # it has claimed the shard, and may send requests
    view = crawl.view()
    view.open_shards([0])
    assert (view.shards[0].owner_term, view.shards[0].is_final) == (2, False)
    view.close()


def test_captures_are_those_of_the_state_while_the_owner_goes_on(crawl: Cluster) -> None:
    owner = crawl.owner(0)
    (place, *_) = owner.commit(1, 2)
    view = crawl.view()
    view.open_shards([0])
    first = urls(view)
    assert len(first) == 2
    owner.commit(3)
    assert urls(view) == first
    owner.close_segment()
    assert urls(view) == first
    owner.commit(4)
    assert urls(view) == first
    assert view.read_record(place.segment, place.offset).fields["WARC-Target-URI"] == first[0]
    later = crawl.view()
    later.open_shards([0])
    assert len(urls(later)) == 4
    assert [each.is_closed for each in later.list_segments()] == [True, False]
    for each in (view, later):
        each.close()


def test_bytes_of_a_warc_are_read_across_parts(crawl: Cluster) -> None:
    owner = crawl.owner(0)
    owner.commit(1)
    owner.commit(2)
    view = crawl.view()
    view.open_shards([0])
    (segment,) = view.list_segments()
    whole = view.read_warc(segment.name, 0, segment.length)
    assert len(whole) == segment.length
    assert view.read_warc(segment.name, 100, 900) == whole[100:900]
    assert view.read_warc(segment.name, 0, segment.length + 50) == whole
    owner.close_segment()
    assert view.read_warc(segment.name, 100, segment.length) == whole[100:]
    assert b"".join(view.read_journal(segment))
    view.close()


def test_a_record_of_a_shard_that_is_not_open_can_be_read(crawl: Cluster) -> None:
    (place,) = crawl.owner(2).commit(5)
    view = crawl.view()
    assert view.read_record(place.segment, place.offset).fields["WARC-Type"] == "response"
    assert crawl.opened == []
    with pytest.raises(RecordError, match="not a segment of this crawl"):
        view.read_record("other.warc.gz", 0)
    # one machine may have had more workers than there are shards
    with pytest.raises(RecordError, match="other-w009"):
        view.read_record("other-w009-t0001-000001-20250101000000.warc.gz", 0)
    view.close()


def test_a_shard_that_cannot_be_read_ends_the_reading_of_the_others(crawl: Cluster) -> None:
    crawl.damaged.add(1)
    view = crawl.view()
    with pytest.raises(LogDamaged):
        view.open_shards()
    assert 1 in crawl.ended
    view.close()


def test_a_closed_view_leaves_only_its_cache(crawl: Cluster, tmp_path: Path) -> None:
    crawl.owner(0).commit(1)
    view = crawl.view()
    view.open_shards()
    view.close()
    assert not list((tmp_path / "cache").glob("open-*"))
