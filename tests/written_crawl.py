"""A crawl folder whose commits a test writes down: what reads logs while they grow begins here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of, scheme_of, target_of
from lycosa.stages.frontier.dead_letters import DeadLetterRecord
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.state.commit import Commit, CommitLog, LastCommit, Mark, PartitionBatch, marked
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.names import last_commit_path, table_folder
from lycosa.state.kv.rocks import RocksKeyValue
from lycosa.state.kv.table_records import (
    UrlRecord,
    dead_letter_key,
    encode_record,
    encode_url,
    host_key,
    url_key,
)

WALL = 1_780_000_000.0
Writes = Mapping[bytes, bytes | None]


def url_write(
    url: str,
    state: UrlState = UrlState.QUEUED,
    reason: Reason = Reason.NONE,
    history: History | None = None,
    **fields: object,
) -> dict[bytes, bytes | None]:
    """The write of a URL's record."""
    record = UrlRecord(
        state,
        scheme_of(url) == "https",
        target_of(url),
        1,
        128,
        LinkKind.A,
        int(WALL),
        reason=reason,
    )
    record.history = history
    for name, value in fields.items():
        setattr(record, name, value)
    return {url_key(hash8(host_of(url)), hash8(url)): encode_url(record)}


def host_write(
    host: str, state: HostState = HostState.READY, **fields: object
) -> dict[bytes, bytes | None]:
    """The write of a host's record."""
    record = VisitRecord(host, state)
    for name, value in fields.items():
        setattr(record, name, value)
    return {host_key(hash8(host)): encode_record(record)}


def letter_write(url: str, number: int) -> dict[bytes, bytes | None]:
    """The write of a URL's dead letter, which a crawl makes in the commit that gives it up."""
    key = hash8(host_of(url)) + hash8(url)
    row = DeadLetterRecord(key, int(WALL * 1_000_000), Reason.HTTP_SERVER_ERROR, "", 3)
    return {dead_letter_key(number): encode_record(row)}


class WrittenCrawl:
    """Partitions of workers that commit when the test says so."""

    def __init__(self, folder: Path, partitions: int = 2, file_bytes: int = 1) -> None:
        self.folder = folder
        identity = manifests.Identity(
            partitions=partitions, bands=8, canonical={}, canonical_version=1, suffixes=""
        )
        manifests.create_crawl(folder, identity, "test", WALL)
        self._file_bytes = file_bytes
        self._logs: dict[int, CommitLog] = {}
        self._before = {number: Mark(0, 0) for number in range(partitions)}
        self.tables = {
            number: RocksKeyValue(table_folder(folder, number)) for number in range(partitions)
        }
        self.wall = WALL

    def log(self, worker: int = 0) -> CommitLog:
        if worker not in self._logs:
            self._logs[worker] = CommitLog(
                self.folder / "log",
                worker,
                self._file_bytes,
                LastCommit(last_commit_path(self.folder, worker)),
            )
        return self._logs[worker]

    def commit(
        self,
        *writes: Writes,
        partition: int = 0,
        worker: int = 0,
        term: int = 1,
        ahead_s: float = 0.0,
    ) -> Commit:
        """One commit of one partition, a second after the one before."""
        self.wall += 1
        together = {key: value for each in writes for key, value in each.items()}
        batch = PartitionBatch(partition, together)
        record = Commit(
            term=term,
            sequence=self.log(worker).next_sequence,
            wall=self.wall,
            batches=[batch],
            before=dict(self._before),
            time=self.wall + ahead_s,
            shard=worker,
        )
        self.log(worker).append(record)
        self.tables[partition].write(marked(batch, record.mark, worker))
        self._before[partition] = record.mark
        return record

    def trim(self) -> None:
        """Flushes every table and drops what they have from the logs, except the last commits."""
        for table in self.tables.values():
            table.flush()
        for log in self._logs.values():
            log.drop_until(log.next_sequence)

    def close(self) -> None:
        for closed in (*self._logs.values(), *self.tables.values()):
            closed.close()
