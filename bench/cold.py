"""What the cold archive saves, and what it costs: ``python -m bench.cold [--millions 5] [--links
1000000] [--folder DIR]``.

A crawl's state is made of which four fifths of the URLs are fetched and due again in months, or wait
as probes (``frontier_load``). The
frontier's rate is measured on it as in ``bench.frontier``, nine of ten links known. Then all records
that may go are archived as a worker does, one file and one commit after the other, and the rate is
measured again with the hashes of cold URLs open. ``--ripe`` measures with links that bring cold URLs
back; by default they are not cold for long enough, as most are.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bench.frontier import PARTITIONS, Crawl, disk_bytes, rss_bytes, stream
from bench.frontier_load import NOW, load, table_folder
from bench.interpreter import described

from lycosa.base.config.sections import ColdSection
from lycosa.stages.frontier.partition import Partition
from lycosa.state.cold.cold_file import encode_file
from lycosa.state.cold.cold_keys import COLD_DAY_S, ColdKeys, notes_of
from lycosa.state.cold.cold_rows import (
    ColdFileRow,
    ColdRecord,
    cold_files,
    cold_name,
    noted_state,
    object_key,
)
from lycosa.state.cold.cold_table import ColdTable
from lycosa.state.objects.folder import FolderStore

DAY = 86_400.0
ENDED = 0.8


class ColdCrawl(Crawl):
    """The crawl of ``bench.frontier`` whose records may become cold."""

    def __init__(self, folder: Path, cache_bytes: int, return_after_s: float) -> None:
        super().__init__(folder, cache_bytes)
        self.files = FolderStore(str(folder), folder)
        self.keys: dict[int, ColdKeys] = {}
        section = ColdSection(after_s=DAY, return_after_s=return_after_s, least_records=1)
        for partition in self.partitions:
            cold = partition.cold
            cold._section = section
            path = folder / f"cold-{partition.number:05d}"
            keys = ColdKeys(path, cold.files, ColdTable(self.files, cold.files))
            cold.hashes = self.keys[partition.number] = keys
        self.parts = dict.fromkeys(("walk", "encode and store", "delete", "commit"), 0.0)
        self.longest_commit_s = 0.0

    def archive(self) -> int:
        """Archive all that may go; returns the number of records."""
        found = 0
        later = NOW + 30 * DAY
        for partition in self.partitions:
            while True:
                mark = time.perf_counter()
                gathered = partition.cold.step(later, 1000)
                self._lap("walk", mark)
                if gathered:
                    found += self._archive_file(partition, gathered, later)
                if not partition.cold.row.began:
                    break
            keys = self.keys[partition.number]
            if keys.has_fresh:
                keys.save()
        for table in self.tables.values():
            table.flush()
        return found

    def _archive_file(
        self, partition: Partition, gathered: Sequence[ColdRecord], now: float
    ) -> int:
        mark = time.perf_counter()
        number = max(partition.cold.files, default=0) + 1
        content, name = encode_file(gathered), cold_name(partition.number, number, 1, now)
        self.files.put(object_key(name), content)
        row = ColdFileRow.of(name, content, gathered, int(now))
        mark = self._lap("encode and store", mark)
        steps = partition.cold.remove(number, row, gathered)
        removed = [each for part in steps for each in part]
        mark = self._lap("delete", mark)
        self.commit()
        self.longest_commit_s = max(self.longest_commit_s, time.perf_counter() - mark)
        self._lap("commit", mark)
        notes = notes_of(
            [each.url for each in removed],
            int(now) // COLD_DAY_S,
            [noted_state(each.record) for each in removed],
            [int(each.record.reason) for each in removed],
        )
        keys = self.keys[partition.number]
        keys.add(number, name, notes)
        if keys.should_save:
            keys.save()
        return len(removed)

    def _lap(self, name: str, mark: float) -> float:
        now = time.perf_counter()
        self.parts[name] += now - mark
        return now


def copied(kept: Path, work: Path) -> Path:
    """A copy to run in; table files are never written again, so they are links."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(kept, work, copy_function=os.link)
    for pattern in ("seen-*", "cold-[0-9]*", "p*/[A-Z]*", "p*/*.json", "p*/*.log", "log/*"):
        for path in work.glob(pattern):
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(data)
    return work


def rate_of(
    what: str, folder: Path, urls: int, hosts: int, links: int, cache: int, return_after_s: float
) -> None:
    """Print the frontier's rate and memory."""
    crawl, source = ColdCrawl(folder, cache, return_after_s), stream(urls, hosts, 5)
    crawl.run(source, links // 5)
    before = crawl.completed
    cpu = crawl.run(source, links)
    anon, mapped = rss_bytes()
    returning = sum(len(each.cold.returning) for each in crawl.partitions)
    print(
        f"{what}: {cpu / links * 1e6:.2f} us of processor time a link ({links / cpu:,.0f} a second),"
        f" {crawl.completed - before} URLs completed; {anon / 1e6:.0f} MB own memory,"
        f" {mapped / 1e6:.0f} MB mapped; {returning} URLs to come back"
    )
    source.close()  # type: ignore[attr-defined]
    crawl.close()


def live_bytes(folder: Path) -> int:
    """Bytes of tables."""
    return sum(disk_bytes(table_folder(folder, number)) for number in range(PARTITIONS))


def _compact(crawl: ColdCrawl) -> None:
    """What RocksDB does by itself as the crawl goes on."""
    for table in crawl.tables.values():
        table._db.compact_range(None, None)  # type: ignore[attr-defined]


def _look_up(folder: Path, urls: int) -> None:
    """Print what one look-up of a record and one of a hash cost."""
    crawl = ColdCrawl(folder, 64 << 20, 0.0)
    partition = crawl.partitions[0]
    start = time.perf_counter()
    table = ColdTable(crawl.files, cold_files(partition.table))
    keys = [key for key, _ in zip(table.scan(b"U", b"V"), range(200_000), strict=False)]
    scanned = time.perf_counter() - start
    chosen = [key for key, _ in keys[:: max(len(keys) // 200, 1)]]
    start = time.perf_counter()
    found = ColdTable(crawl.files, cold_files(partition.table)).get_many(chosen)
    assert all(found)
    each = (time.perf_counter() - start) / len(chosen)
    print(
        f"a record is read from its file in {each * 1e3:.1f} ms;"
        f" {len(keys) / scanned:,.0f} records a second in order"
    )
    hashes = np.random.default_rng(1).integers(0, 1 << 63, size=512 * 200, dtype=np.uint64)
    start = time.perf_counter()
    for at in range(0, len(hashes), 512):
        partition.cold.ripe_places(hashes[at : at + 512], NOW)
    each = (time.perf_counter() - start) / len(hashes)
    print(f"a known link is asked whether it is cold in {each * 1e6:.2f} us, {urls} known")
    crawl.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--millions", type=float, default=5.0, help="known URLs")
    parser.add_argument("--links", type=int, default=1_000_000)
    parser.add_argument("--per-host", type=float, default=100.0)
    parser.add_argument("--folder", type=Path, help="where the state is made, and kept")
    parser.add_argument("--cache-mb", type=int, default=256, help="RocksDB's cache")
    parser.add_argument("--ripe", action="store_true", help="links bring cold URLs back")
    options = parser.parse_args()
    print(described())
    urls, cache = int(options.millions * 1e6), options.cache_mb << 20
    hosts, wait = int(urls / options.per_host), 0.0 if options.ripe else 365 * DAY
    with tempfile.TemporaryDirectory() as name:
        base = options.folder or Path(name)
        gc.freeze()  # as worker processes do
        gc.set_threshold(20_000, 50, 100)
        kept = base / f"ended-{options.millions:g}"
        if not kept.exists():
            load(kept, urls, hosts, PARTITIONS, os.cpu_count() or 1, ENDED)
        print(f"before: {live_bytes(kept) / 1e6:.0f} MB of tables, {urls} URLs")
        work = base / "run"
        rate_of("before", copied(kept, work), urls, hosts, options.links, cache, wait)
        archived = copied(kept, base / "archived")
        crawl = ColdCrawl(archived, cache, wait)
        start = time.perf_counter()
        records = crawl.archive()
        print(
            f"{records} records archived in {time.perf_counter() - start:.0f} s: "
            + ", ".join(f"{part} {seconds:.0f} s" for part, seconds in crawl.parts.items())
            + f"; the longest commit took {crawl.longest_commit_s:.2f} s"
        )
        print(f"then: {live_bytes(archived) / 1e6:.0f} MB of tables")
        _compact(crawl)
        crawl.close()
        files = [path.stat().st_size for path in archived.glob("cold/*/*.parquet")]
        hashes = sum(path.stat().st_size for path in archived.glob("cold-[0-9]*"))
        print(
            f"compacted: {live_bytes(archived) / 1e6:.0f} MB of tables; {len(files)} cold files of"
            f" {sum(files) / 1e6:.0f} MB ({sum(files) / max(records, 1):.0f} bytes a record),"
            f" {hashes / 1e6:.0f} MB of hashes"
        )
        _look_up(archived, urls)
        rate_of("after", copied(archived, work), urls, hosts, options.links, cache, wait)


if __name__ == "__main__":
    main()
