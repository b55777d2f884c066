"""Links that gather before they are looked up: the same state as taken in at once, never behind
a commit or an idle workbench.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import FrontierSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Link
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.system.frames import UNREADABLE
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.discovery import LinkSource
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.workbench import Workbench
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.rocks import RocksKeyValue, SharedCache
from lycosa.state.kv.table_records import (
    UrlRecord,
    decode_url,
    encode_record,
    encode_url,
    prefix_end,
)
from lycosa.state.seen.seen_port import Hashes, Mask

NOW = 1_750_000_000.0
SECTION = FrontierSection(bands=3, head=2)


class SetSeen:
    """URL-seen as a set; what a partition asks of it."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def unseen(self, hashes: Hashes) -> Mask:
        new = []
        for each in hashes.tolist():
            new.append(each not in self._known)
            self._known.add(each)
        return np.array(new, dtype=np.bool_)


def link(url: str) -> Link:
    return Link(url, hash8(host_of(url)), hash8(url), LinkKind.A)


def new_partition() -> tuple[Partition, MemoryKeyValue]:
    store = MemoryKeyValue()
    return Partition(0, Overlay(store), SetSeen(), SECTION), store  # type: ignore[arg-type]


def commit(partition: Partition, store: MemoryKeyValue) -> None:
    store.write(partition.freeze())
    partition.table.settle()


def url(host: int, path: int) -> str:
    return f"http://h{host}.test/{path}"


PAGES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from([0.1, 0.4, 0.9]),
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=12),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(PAGES, st.integers(1, 12))
def test_gathered_links_leave_the_same_state_as_links_taken_in_at_once(
    pages: list[tuple[int, float, list[tuple[int, int]]]], every: int
) -> None:
    gathering, one = new_partition()
    at_once, other = new_partition()
    for number, (depth, importance, places) in enumerate(pages):
        origin = LinkSource(url(0, 0), depth, importance)
        links = [link(url(*place)) for place in places]
        gathering.gather_links(origin, links, NOW)
        at_once.discover_urls([origin.found(each) for each in links], NOW)
        if number % every == 0:
            commit(gathering, one)
            commit(at_once, other)
    commit(gathering, one)
    commit(at_once, other)
    assert list(one.scan(b"", b"\xff")) == list(other.scan(b"", b"\xff"))


def test_a_commit_takes_in_what_gathered() -> None:
    partition, store = new_partition()
    partition.gather_links(LinkSource("", 1, 0.1), [link(url(1, 1))], NOW)
    commit(partition, store)
    assert len(list(store.scan(b"U", prefix_end(b"U")))) == 1
    assert partition.counters.count_in(UrlState.QUEUED) == 1


def test_a_workbench_with_nothing_ready_takes_in_what_gathered() -> None:
    partition, _ = new_partition()
    frontier = Frontier([partition], Workbench(4), 10)
    partition.gather_links(LinkSource("", 1, 0.1), [link(url(1, 1))], NOW)
    host = frontier.acquire(0.0, NOW)
    assert host is not None and host.name == "h1.test"


def test_nobody_takes_a_crawl_for_finished_while_links_gather() -> None:
    partition, _ = new_partition()
    frontier = Frontier([partition], Workbench(4), 10)
    partition.gather_links(LinkSource("", 1, 0.1), [link(url(1, 1))], NOW)
    assert frontier.waiting_in_front() == 1


def test_a_history_is_read_as_it_was_written_in_either_version() -> None:
    history = History(
        2, 1_750_000_000, 200, b"d" * 20, 2**63 + 1, '"e"', "then", 1, 3600, 1_749_999_999_123_456,
        "urn:uuid:12345678-9abc-4def-8123-456789abcdef", "segment", 2**33, "", "http://h1.test/",
    )  # fmt: skip
    record = UrlRecord(UrlState.FETCHED, True, "/a", 1, 100, LinkKind.A, 7, history=history)
    assert decode_url(encode_url(record)) == decode_url(encode_record(record)) == record
    assert len(encode_url(record)) < len(encode_record(record)) - 25
    bare = UrlRecord(UrlState.FAILED, True, "/a", 1, 100, LinkKind.A, 7, history=History(1, 7))
    assert decode_url(encode_url(bare)) == bare
    foreign = msgspec.structs.replace(
        record,
        history=History(1, 7, date_us=8, record_id="urn:uuid:12345678-9abc-4def-8123-456789ABCDEF"),
    )
    assert decode_url(encode_url(foreign)) == foreign


@pytest.mark.parametrize(
    "history",
    [
        5,
        [1, 2, 3, b"", 4, "", "", 5, 6, "date", b"i" * 16],
        [1, 2, 3, b"", 4, "", "", 5, 6, 7, b"short"],
    ],
)
def test_a_record_with_a_history_that_is_none_is_refused(history: object) -> None:
    record = UrlRecord(UrlState.FETCHED, True, "/a", 1, 100, LinkKind.A, 7)
    fields = list(msgspec.structs.astuple(record))
    fields[UrlRecord.__struct_fields__.index("history")] = history
    with pytest.raises(UNREADABLE):
        decode_url(encode_record(fields))


def test_a_store_opened_again_uses_the_shared_cache(tmp_path: Path) -> None:
    rows: list[tuple[bytes, bytes | None]] = [
        (b"%05d" % n, b"%0500d" % (n * 7919)) for n in range(10_000)
    ]
    for opened in range(2):
        cache = SharedCache(64 << 20, 8 << 20)
        store = RocksKeyValue(tmp_path / "kv", cache)
        if not opened:
            store.write(rows)
            store.flush()
        assert all(store.get(key) for key, _ in rows)
        assert cache.snapshot()["cache"] > 4_000_000, opened
        store.close()
