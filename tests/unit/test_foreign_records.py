"""Records that other programs wrote into the topics of a crawl: they are stepped over, counted and
kept, and a commit or a parcel in whose place one stands is missed by its number.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lycosa.base.messages.progress import Progress
from lycosa.base.model.foreign_record import ForeignRecord
from lycosa.cli.cluster_status import foreign_line
from lycosa.cluster.kafka.changelog import ChangelogDamaged, frames
from lycosa.cluster.kafka.control_topic import ControlDamaged, KafkaControl
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.topics import CONTROL, Topics
from lycosa.state.commit import Commit, PartitionBatch
from lycosa.state.objects.folder import FolderStore
from lycosa.state.store.foreign_records import MAX_KEPT, ForeignRecords
from memory_kafka import MemoryKafka, MemoryKafkaClient

CRAWL, SHARD = "2f0cf3d2", 0
TOPICS = Topics("t", 1)
JUNK = [b"junk", b"", b"\xc1", b"{}", msgspec.msgpack.encode(["other", "crawl", 1])]
NEWER = msgspec.msgpack.encode(["newer", CRAWL, 1])


def commit(term: int, sequence: int, size: int = 3) -> Commit:
    batch = PartitionBatch(0, {b"key": bytes(size)})
    return Commit(term=term, sequence=sequence, wall=1.0, batches=[batch], crawl=CRAWL, shard=SHARD)


class Writing:
    """A crawl's topics, into which another program writes."""

    def __init__(self) -> None:
        self.cluster, self.noted = MemoryKafka(), list[ForeignRecord]()

    def log(self) -> KafkaLog:
        client = MemoryKafkaClient(self.cluster)
        return KafkaLog(client, TOPICS, CRAWL, SHARD, on_foreign=self.noted.append)

    def control(self) -> KafkaControl:
        client = MemoryKafkaClient(self.cluster)
        return KafkaControl(client, TOPICS, CRAWL, on_foreign=self.noted.append)

    def write(self, topic: str, value: bytes, key: bytes | None = None) -> int:
        return self.cluster.partition(topic, 0).append(value, key)


@pytest.mark.parametrize("junk", JUNK)
def test_a_log_with_foreign_records_anywhere_is_claimed_and_read_whole(junk: bytes) -> None:
    writing = Writing()
    at = [writing.write(TOPICS.changelog, junk)]
    log = writing.log()
    log.claim()
    for sequence in (1, 2, 3):
        at.append(writing.write(TOPICS.changelog, junk))
        log.append(commit(1, sequence, size=2_000_000))
    at.append(writing.write(TOPICS.changelog, junk))
    writing.noted.clear()
    after = writing.log()
    assert after.claim().latest == commit(1, 3, size=2_000_000)
    assert [each.sequence for each in after.read()] == [1, 2, 3]
    after.append(commit(2, 4))
    assert [(each.kind, each.offset, each.data) for each in writing.noted] == [
        ("changelog", offset, junk) for offset in at
    ]


def test_a_commit_in_whose_place_a_foreign_record_stands_is_missing() -> None:
    writing = Writing()
    log = writing.log()
    log.claim()
    for sequence in (1, 2, 3):
        log.append(commit(1, sequence))
    for entry in writing.cluster.partition(TOPICS.changelog, 0).entries:
        entry.value = b"junk" if entry.value == frames(commit(1, 2))[0] else entry.value
    with pytest.raises(ChangelogDamaged, match="commit 2 is missing"):
        writing.log().claim()


def test_a_record_of_a_newer_program_is_not_stepped_over() -> None:
    writing = Writing()
    writing.log().claim()
    writing.write(TOPICS.changelog, NEWER)
    with pytest.raises(ChangelogDamaged, match="of this crawl and not of a form"):
        writing.log().claim()
    writing.control().claim()
    writing.write(TOPICS.named(CONTROL), NEWER)
    with pytest.raises(ControlDamaged, match="a newer program wrote it"):
        writing.control().claim()


@pytest.mark.parametrize("junk", JUNK)
def test_a_coordinator_starts_although_another_program_wrote_into_its_topic(junk: bytes) -> None:
    writing, topic = Writing(), TOPICS.named(CONTROL)
    first = writing.control()
    first.claim()
    first.append([("end", b"1"), ("settings", b"2")])
    at = writing.write(topic, junk, b"x")
    assert first.newest_number() == 1
    state = writing.control().claim()
    assert (state.number, dict(state.values)) == (2, {"end": b"1", "settings": b"2"})
    assert [(each.kind, each.offset) for each in writing.noted] == [("control", at)] * 2
    assert "with the key 'x'" in writing.noted[0].why


def test_a_claim_writes_again_what_a_foreign_record_would_replace_at_the_next_compaction() -> None:
    writing, topic = Writing(), TOPICS.named(CONTROL)
    first = writing.control()
    first.claim()
    first.append([("end", b"1"), ("settings", b"2")])
    at = writing.write(topic, b"junk", b"settings")
    writing.control().claim()
    last = {
        entry.key: entry.value
        for number, entry in writing.cluster.partition(topic, 0).visible(0)
        if number > at
    }
    assert msgspec.msgpack.decode(last[b"settings"] or b"") == [CRAWL, 2, b"2"]
    assert dict(writing.control().claim().values) == {"end": b"1", "settings": b"2"}


def foreign(offset: int, kind: str = "inbox") -> ForeignRecord:
    return ForeignRecord(f"news.{kind}", 3, offset, "not readable", b"junk %d" % offset)


def test_foreign_records_are_counted_kept_and_told(tmp_path: Path) -> None:
    lines: list[str] = []
    records = ForeignRecords(FolderStore("file:///store", tmp_path), lines.append)
    records.note(foreign(35))
    records.note(foreign(2, "control"))
    assert records.counts == {"inbox": 1, "control": 1}
    kept = tmp_path / "foreign" / "news.inbox" / "00003" / "00000000000000000035"
    assert kept.read_bytes() == b"junk 35"
    assert lines[0] == (
        "stepped over a record that no program of this crawl wrote: news.inbox, partition 3, offset"
        " 35: not readable; its 7 bytes are in object storage:"
        " foreign/news.inbox/00003/00000000000000000035"
    )


def test_a_flood_of_foreign_records_is_counted_and_neither_kept_nor_told(tmp_path: Path) -> None:
    lines: list[str] = []
    records = ForeignRecords(FolderStore("file:///store", tmp_path), lines.append)
    for offset in range(1000):
        records.note(foreign(offset))
    assert records.counts == {"inbox": 1000}
    assert len(list(tmp_path.rglob("0*0*"))) <= MAX_KEPT + 1
    assert len(lines) == MAX_KEPT and lines[-1].endswith("further ones are only counted")


def test_a_store_that_is_away_does_not_stop_the_reader(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / "foreign").write_text("not a folder")
    records = ForeignRecords(FolderStore("file:///store", tmp_path), lines.append)
    records.note(foreign(35))
    assert records.counts == {"inbox": 1}
    assert "could not be kept" in lines[0]


def test_the_status_names_the_topics_with_foreign_records() -> None:
    counts = {"inbox": 2, "control": 1}
    found = Progress().with_numbers({}, {"lycosa_foreign_records_total": counts})
    assert foreign_line(found) == (
        "1 in control, 2 in inbox: another program writes to the topics of this crawl; see the logs"
    )
    assert foreign_line(Progress()) == ""
