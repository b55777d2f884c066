"""Makes the state of a crawl with many known URLs: sorted table files, put in place by RocksDB as
they are, and the seen files.

The records are those the frontier writes, in its own form: half of the URLs wait in their hosts'
back queues, half are fetched, a fifth of these with an ETag, all with a refetch time. Hosts are
written in the order of their keys, which is the order of the table.
"""

from __future__ import annotations

import hashlib
import random
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from bench.frontier_web import Web, host_name, target
from rocksdict import DBCompressionType, Options, SstFileWriter

from lycosa.base.config.sections import FrontierSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.host_memory import Usage
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.identity import Sites, hash8, partition_of
from lycosa.stages.frontier.back_queue import Lane
from lycosa.stages.frontier.due import probe_place
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.state.kv import rocks
from lycosa.state.kv.table_records import (
    UrlRecord,
    decode_url,
    due_key,
    encode_record,
    encode_url,
    front_key,
    host_key,
    queue_key,
    url_key,
)
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.state.shard.counters import COUNTERS_KEY, Counters

NOW = 1_750_000_000
SECTION = FrontierSection()
_BANDS = (3, 4)
_FILE_BYTES = 64 << 20
# The importance, which records got later, at its default. The last fields of histories and records
# are left out where they have their defaults.
_IMPORTANCE = UrlRecord(UrlState.QUEUED, False, "/", 0, 0, LinkKind.A, 0).importance


def bottom_options() -> Options:
    """Options for table files made outside a store and ingested as its lowest level: compressed as
    that level is.
    """
    cache = rocks.SharedCache(8 << 20, 1 << 20)
    options = rocks._options(cache, 16)
    options.set_compression_type(DBCompressionType.zstd())
    options.set_compression_options(rocks._WINDOW_BITS, rocks._LEVEL, 0, rocks._DICTIONARY_BYTES)
    options.set_zstd_max_train_bytes(rocks._TRAINING_BYTES)
    table = rocks._table_options(cache)
    table.set_bloom_filter(1, False)  # minimal, because the lowest level has no filters
    options.set_block_based_table_factory(table)
    return options


def table_folder(folder: Path, number: int) -> Path:
    """One partition's table."""
    return folder / f"p{number:05d}"


def seen_path(folder: Path, number: int) -> Path:
    """One partition's URL-seen file."""
    return folder / f"seen-{number:05d}"


def history(chance: random.Random, at: int) -> History:
    """What a fetch leaves."""
    noise = chance.randbytes(56)
    number = int.from_bytes(noise[:8], "big")
    return History(
        fetches=1,
        fetched_at=at,
        status=200,
        digest=noise[8:28],
        simhash=int.from_bytes(noise[28:36], "big"),
        etag=f'"{number >> 20:x}-{number & 0xFFFFFFFFFFFF:x}"' if number % 5 == 0 else "",
        interval_s=604_800,
        date_us=at * 1_000_000 + number % 1_000_000,
        record_id=f"urn:uuid:{uuid.UUID(bytes=noise[36:52], version=4)}",
        segment=f"8bdc4e89-w000-{at % 999:06d}-2025061512{at % 60:02d}10",
        offset=int.from_bytes(noise[52:], "big") >> 2,
    )


def _stored(chance: random.Random, at: int) -> list[Any]:
    """The same as it is stored in a URL's record, made faster."""
    noise = chance.randbytes(56)
    number = int.from_bytes(noise[:8], "big")
    etag = f'"{number >> 20:x}-{number & 0xFFFFFFFFFFFF:x}"' if number % 5 == 0 else ""
    segment = f"8bdc4e89-w000-{at % 999:06d}-2025061512{at % 60:02d}10"
    simhash, offset = int.from_bytes(noise[28:36], "big"), int.from_bytes(noise[52:], "big") >> 2
    return [
        1,
        at,
        200,
        noise[8:28],
        simhash,
        etag,
        "",
        0,
        604_800,
        number % 1_000_000,
        noise[36:52],
        segment,
        offset,
    ]


def _row_ends(count: int) -> list[int]:
    """Where the rows of a back queue of ``count`` URLs end: as a crawl leaves them, eight of a
    page's own host and two found elsewhere.
    """
    ends = [
        end
        for start in range(0, count, 10)
        for end in (start + 8, start + 9, start + 10)
        if end < count
    ]
    return [*ends, count] if count else []


def _rows(url8s: list[bytes]) -> Iterator[bytes]:
    start = 0
    for end in _row_ends(len(url8s)):
        yield b"".join(url8s[start:end])
        start = end


class _Table:
    """Sorted rows into table files."""

    def __init__(self, folder: Path, number: int) -> None:
        self._store = rocks.RocksKeyValue(table_folder(folder, number))
        self._folder, self._name = folder, f"load-{number}"
        self._files: list[Path] = []

    def add(self, rows: Iterator[tuple[bytes, bytes]]) -> None:
        writer, written = None, 0
        for key, value in rows:
            if writer is None:
                path = self._folder / f"{self._name}-{len(self._files)}.sst"
                writer = SstFileWriter(bottom_options())
                writer.open(str(path))
                self._files.append(path)
                written = 0
            writer[key] = value
            written += len(key) + len(value)
            if written > _FILE_BYTES:
                writer.finish()
                writer = None
        if writer is not None:
            writer.finish()

    def close(self) -> None:
        self._store._db.ingest_external_file([str(path) for path in self._files])
        for path in self._files:
            path.unlink(missing_ok=True)
        self._store.close()


def load_partition(
    folder: Path, number: int, urls: int, hosts: int, ended: float = 0.0
) -> tuple[int, int]:
    """One partition; gives its URLs and the bytes of them.

    With ``ended``, that share of the URLs is fetched, as the default refetch rule leaves them: of
    three pages two are due again in months, and one waits as a probe.
    """
    web = Web(urls, hosts)
    owned = np.flatnonzero(np.fromfile(folder / "owners", dtype=np.uint8) == number).tolist()
    mine = sorted((hash8(name), h, name) for h in owned for name in (host_name(h),))
    table, chance = _Table(folder, number), random.Random(number)
    seen: list[np.ndarray] = []
    due: list[tuple[int, bytes]] = []
    queues: list[tuple[bytes, list[bytes]]] = []
    counters, length = Counters(hosts=len(mine)), 0

    def records() -> Iterator[tuple[bytes, bytes]]:
        nonlocal length
        sha256 = hashlib.sha256
        for host8, h, name in mine:
            rows = []
            size = int(web.sizes[h])
            fetched = _fetched(size, ended)
            first = f"http://{name}".encode()
            made, via = [], ""
            for i in range(size):
                path = target(h, i)
                full = first + path.encode()
                url8 = sha256(full).digest()[:8]
                length += len(full)
                found = NOW - 9_000_000 + i % 100_000
                if i % 12 == 0:
                    via = target(h, i // 12)
                due_at, past, state = 0, None, 1
                if i < fetched:
                    at = NOW - chance.getrandbits(22)
                    due_at, past, state = at + 604_800 * 100, _stored(chance, at), 3
                    if ended:
                        past += ["", "", False, 0, b"", "", 0, b"", 1 + (at + i) % 900]
                        due_at = due_at if i % 3 else probe_place(at)
                        counters.move_cell(None, History(cell=past[-1]))
                    due.append((due_at, host8 + url8))
                row = encode_record(
                    [
                        state,
                        False,
                        path,
                        3 + i % 3,
                        128 - i % 2 * 20,
                        10,
                        found,
                        via,
                        0,
                        0,
                        "",
                        0,
                        due_at,
                        past,
                        _IMPORTANCE,
                    ]
                )
                if i == 0:
                    assert encode_url(decode_url(row)) == row, "the form that the frontier writes"
                rows.append((url_key(host8, url8), row))
                made.append(url8)
            rows.sort()
            yield from rows
            queues.append((host8, made[fetched:]))
            seen.append(np.frombuffer(b"".join(made), dtype=">u8").astype(np.uint64))

    def waiting() -> Iterator[tuple[bytes, bytes]]:
        for host8, url8s in queues:
            for part, band in enumerate(_BANDS):
                yield from (
                    (queue_key(host8, band, seq), row)
                    for seq, row in enumerate(_rows(url8s[part::2]))
                )

    def visits() -> Iterator[tuple[bytes, bytes]]:
        for place, (host8, h, name) in enumerate(mine):
            size = int(web.sizes[h])
            fetched = _fetched(size, ended)
            queued = size - fetched
            record = VisitRecord(
                name,
                HostState.READY,
                {
                    band: Lane(0, len(_row_ends(len(range(part, queued, 2)))))
                    for part, band in enumerate(_BANDS)
                },
                queued,
                next_at=NOW - 1000.0,
                usage=Usage(fetched, fetched * 50_000, fetched * 0.2, size),
                front=(3, place),
                deepest=5,
                importance=0.1,
                address="203.0.113.7",
                cells=fetched if ended else 0,
            )
            counters.move_urls(None, UrlState.QUEUED, queued)
            counters.move_urls(None, UrlState.FETCHED, fetched)
            yield host_key(host8), encode_record(record)

    table.add(records())
    table.add(waiting())
    table.add(visits())
    table.add((front_key(3, place), host8) for place, (host8, _, _) in enumerate(mine))
    due.sort()
    table.add(_due_rows(due))
    table.add(iter([(COUNTERS_KEY, encode_record(counters))]))
    table.close()
    file = SortedSeenUrls(seen_path(folder, number))
    file.rebuild(seen, 0)
    file.close()
    return counters.discovered, length


def _due_rows(due: list[tuple[int, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """The rows of the schedule: up to 64 URLs of one time share a row."""
    for time, group in groupby(due, key=lambda entry: entry[0]):
        urls = [url for _, url in group]
        for at in range(0, len(urls), 64):
            yield due_key(time, urls[at][:8], urls[at][8:]), b"".join(urls[at + 1 : at + 64])


def _fetched(size: int, ended: float) -> int:
    return round(size * ended) if ended else size // 2


def load(
    folder: Path, urls: int, hosts: int, partitions: int, processes: int, ended: float = 0.0
) -> tuple[int, int]:
    """All partitions; gives known URLs and the bytes of them."""
    folder.mkdir(parents=True, exist_ok=True)
    site_of = Sites().site_of
    np.fromiter(
        (partition_of(site_of(host_name(h)), partitions) for h in range(hosts)), dtype=np.uint8
    ).tofile(folder / "owners")
    with ProcessPoolExecutor(processes, max_tasks_per_child=1) as pool:
        made = [
            pool.submit(load_partition, folder, number, urls, hosts, ended)
            for number in range(partitions)
        ]
        results = [each.result() for each in made]
    (folder / "owners").unlink()
    return sum(count for count, _ in results), sum(length for _, length in results)


if __name__ == "__main__":
    millions = float(sys.argv[2])
    print(load(Path(sys.argv[1]), int(millions * 1e6), int(millions * 1e4), 16, 2))
