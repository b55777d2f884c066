"""What it costs to look at due pages that are not fetched: ``python -m bench.refetch_web.looks
[--pages 100000] [--hosts 1000]``.

All pages become due at once, at a price that has risen fourfold since they were scheduled. Each is
read, judged, and gets a later time; none is requested. Printed are processor time a look and bytes a
record, in a table in memory and in one on disk (RocksDB), with what a commit of the rows costs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from lycosa.base.config.sections import FrontierSection, RefetchRule, RefetchSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.due_band import DueJudgement
from lycosa.base.model.refetch_cell import cell_of
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.identity import hash8
from lycosa.stages.frontier.change_signals import ChangeSignals
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.schedule.change_rate import ChangeFinding, observation
from lycosa.stages.schedule.due_judgement import judge_due
from lycosa.stages.schedule.refetch_value import floor_of, wanted_days
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.kv.table_records import UrlRecord, decode_url, encode_url, prefix_end, url_key
from lycosa.state.seen.urls_sorted import SortedSeenUrls

NOW = 1_750_000_000
DAY_S = 86_400.0
PRICE = 1.0
SECTION = RefetchSection(rule=RefetchRule.VALUE, budget="", price=4 * PRICE)


def measure(store: KeyValue, folder: Path, pages: int, hosts: int) -> str:
    def judge(host8: bytes, url: str, record: UrlRecord, now_wall: float) -> DueJudgement:
        return judge_due(SECTION, url, record, SECTION.price, now_wall)

    seen = SortedSeenUrls(folder / "seen")
    seen.rebuild((), 0)
    rules = FrontierRules(forward=ChangeSignals(SECTION), judge=judge)
    partition = Partition(0, Overlay(store), seen, FrontierSection(partitions=1), rules)
    cell = cell_of(1 / 10, 1.0)
    interval_s = wanted_days(cell, PRICE, floor_of(SECTION, SECTION.max_s)) * DAY_S
    told = bytes([observation(interval_s, ChangeFinding.SAME)] * 16)
    size = 0
    for number in range(pages):
        name = f"h{number % hosts}.example"
        url = f"https://{name}/page/{number}"
        host = partition.find_or_add_host(hash8(name), url)
        partition.visits.mark_changed(host)
        due_at = NOW + number * 60 // pages
        history = History(
            fetches=17,
            fetched_at=int(due_at - interval_s),
            status=200,
            digest=bytes(20),
            simhash=1 << 63,
            etag='"5f8b-5a"',
            interval_s=int(interval_s),
            text_digest=bytes(8),
            observations=told,
            cell=cell,
        )
        record = UrlRecord(UrlState.FETCHED, True, f"/page/{number}", 1, 200, LinkKind.A, NOW, "/")
        record.due_at, record.history = due_at, history
        row = encode_url(record)
        size += len(row)
        partition.table.put(url_key(host.host8, hash8(url)), row)
        partition.alarms[0].add_due(due_at, host.host8 + hash8(url))
        if number % 20_000 == 0:
            commit(partition, store)
    commit(partition, store)
    began, looked, longest, commit_s = time.process_time(), 0, 0.0, 0.0
    now = float(NOW + 61)
    while partition.next_due() <= now:
        start = time.process_time()
        looked += partition.wake_due(now)
        longest = max(longest, time.process_time() - start)
        if looked % 12_800 < 128:
            start = time.process_time()
            commit(partition, store)
            commit_s += time.process_time() - start
    commit(partition, store)
    used = time.process_time() - began
    records = [decode_url(value) for _, value in store.scan(b"U", prefix_end(b"U"))]
    moved = sum(record.due_at > now for record in records)
    assert (looked, moved, len(records)) == (pages, pages, pages), (looked, moved, len(records))
    return (
        f"{pages:,} due pages of {hosts:,} hosts: {used / looked * 1e6:.1f} us a look, of which"
        f" {commit_s / looked * 1e6:.1f} for commits; the longest step {longest * 1e3:.1f} ms;"
        f" {size / pages:.0f} bytes a record. 10 million looks: {used / looked * 1e7:.0f} s"
    )


def commit(partition: Partition, store: KeyValue) -> None:
    writes = partition.freeze()
    if writes:
        store.write(writes)
        partition.table.settle()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.refetch_web.looks", description=__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--hosts", type=int, default=1000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-looks-") as folder:
        place = Path(folder)
        print("memory: ", measure(MemoryKeyValue(), place, asked.pages, asked.hosts), flush=True)
        (place / "disk").mkdir()
        store = rocks_opener(256 << 20)(place / "disk" / "table")
        print("RocksDB:", measure(store, place / "disk", asked.pages, asked.hosts))
        store.close()


if __name__ == "__main__":
    main()
