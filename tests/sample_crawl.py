"""A crawl folder with a few captures and records, as a running crawl leaves it: locks held,
state unflushed, a segment open.
"""

from __future__ import annotations

from pathlib import Path

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Sites, hash8, host_of, partition_of, scheme_of, target_of
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.stages.politeness.robots_cache import RobotsRecord
from lycosa.stages.politeness.robots_parser import parse_robots
from lycosa.state.commit import Commit, CommitLog, PartitionBatch, marked
from lycosa.state.folder import manifest as manifests
from lycosa.state.kv.rocks import RocksKeyValue
from lycosa.state.kv.table_records import UrlRecord, encode_record, host_key, robots_key, url_key
from lycosa.state.store.warc_records import CrawlInfo
from store_samples import START, close_all, numbered, open_store

HOST = "www.example.org"
Writes = list[tuple[bytes, bytes | None]]


def url_record(
    url: str, state: UrlState = UrlState.QUEUED, **changes: object
) -> tuple[bytes, bytes | None]:
    values = {
        "depth": 1,
        "priority": 100,
        "kind": LinkKind.A,
        "found_at": int(START),
        "via": "/",
        **changes,
    }
    record = UrlRecord(state, scheme_of(url) == "https", target_of(url), **values)  # type: ignore[arg-type]
    return url_key(hash8(host_of(url)), hash8(url)), encode_record(record)


def visit_record(host: str, state: HostState = HostState.READY) -> tuple[bytes, bytes | None]:
    return host_key(hash8(host)), encode_record(VisitRecord(host, state, waiting=1, next_at=START))


def robots_record(
    host: str, text: bytes, agent: str = "lycosa", secure: bool = True
) -> tuple[bytes, bytes | None]:
    record = RobotsRecord(parse_robots(text, agent), "V" * 32, 200, START, START + 86400)
    return robots_key(hash8(host), secure), encode_record(record)


class SampleCrawl:
    """Captures 1 to 3 in a closed segment, 4 and 5 committed in an open one; three URLs of one
    host, nothing of it flushed.
    """

    def __init__(self, folder: Path, partitions: int = 4) -> None:
        self.folder = folder
        identity = manifests.Identity(
            partitions=partitions, bands=8, canonical={}, canonical_version=1, suffixes=""
        )
        manifest = manifests.create_crawl(folder, identity, "test", START)
        self.number = partition_of(Sites().site_of(HOST), partitions)
        self.log = CommitLog(folder / "log", 0)
        self.table = RocksKeyValue(folder / "state" / f"p{self.number:05d}")
        self.store = open_store(
            folder,
            info=CrawlInfo(
                crawl=manifest.crawl[:8], software="lycosa/0", user_agent="lycosa/0", operator=""
            ),
        )
        self.captured: list[str] = []
        self.capture(1, 2, 3)
        close_all(self.store)
        self.capture(4, 5)
        self.commit(
            [
                visit_record(HOST),
                robots_record(HOST, b"User-agent: *\nDisallow: /private\nCrawl-delay: 2\n"),
                url_record(f"https://{HOST}/queued"),
                url_record(
                    f"https://{HOST}/fetched",
                    UrlState.FETCHED,
                    history=History(1, int(START), 200, b"d" * 20),
                ),
                url_record(
                    f"https://{HOST}/failed",
                    UrlState.FAILED,
                    reason=Reason.HTTP_SERVER_ERROR,
                    detail="status 503",
                ),
            ]
        )

    def capture(self, *numbers: int) -> None:
        """Appends captures; they are not committed yet."""
        for number in numbers:
            each = numbered(number)
            self.store.append_capture(each)
            self.captured.append(each.fetched.url)

    def write_files(self) -> dict[str, int]:
        """The first step of a commit alone: bytes on disk, not yet in the log."""
        pending = self.store.freeze()
        self.store.files.put_records(pending)
        return pending.lengths

    def commit(self, writes: Writes) -> None:
        batch = PartitionBatch(self.number, writes)
        lengths = self.write_files()
        record = Commit(
            term=1, sequence=self.log.next_sequence, wall=START, lengths=lengths, batches=[batch]
        )
        self.log.append(record)
        self.table.write(marked(batch, record.mark, 0))

    def close(self) -> None:
        self.log.close()
        self.table.close()


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with its time and bytes."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }
