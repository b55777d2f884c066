"""Content-seen by digest, and the cache of hashes met lately."""

from __future__ import annotations

from hashlib import sha1

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.capture import Original, StoredOriginal
from lycosa.state.seen.content_seen import SeenContent, content_key
from lycosa.state.seen.recent import RecentHashes


class DictTable(dict[bytes, bytes]):
    """A table in memory."""

    def put(self, key: bytes, value: bytes) -> None:
        self[key] = value


FIRST, SECOND = (
    StoredOriginal("https://a.example/", 1_700_000_000_000_000, "<urn:uuid:1>", "s.warc.gz", 99),
    StoredOriginal("https://b.example/", 2),
)


def test_a_digest_finds_the_first_capture() -> None:
    table = DictTable()
    content, digest = SeenContent(table), sha1(b"body").digest()
    assert content.find_original(digest) is None
    content.remember_original(digest, FIRST)
    content.remember_original(digest, SECOND)
    assert content.find_original(digest) == FIRST
    assert SeenContent(table).find_original(digest) == FIRST
    assert content.find_original(sha1(b"other").digest()) is None
    assert list(table) == [b"C" + digest]


def test_rows_without_a_place_are_read_by_every_version_and_stay_as_they_are() -> None:
    """A row of an older program has no place; an older program reads a row that has one."""
    table = DictTable()
    content, digest = SeenContent(table), sha1(b"body").digest()
    older = Original(FIRST.url, FIRST.date_us, FIRST.record_id)
    table[content_key(digest)] = row = msgspec.msgpack.encode(older)
    assert content.find_original(digest) == StoredOriginal(*msgspec.structs.astuple(older))
    content.remember_original(digest, FIRST)
    assert table[content_key(digest)] == row
    newer = sha1(b"newer").digest()
    content.remember_original(newer, FIRST)
    assert msgspec.msgpack.decode(table[content_key(newer)], type=Original) == older


def test_a_digest_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="20 bytes"):
        SeenContent(DictTable()).find_original(b"short")


def test_recent_hashes_stop_repeats_until_forgotten() -> None:
    recent = RecentHashes(10)
    assert [recent.admit(value) for value in (b"a", b"b", b"a", b"a")] == [True, True, False, False]
    recent.forget(b"a")
    recent.forget(b"never met")
    assert [recent.admit(value) for value in (b"a", b"a", b"b")] == [True, False, False]
    assert recent.snapshot() == {"held": 2, "admitted": 3, "stopped": 4}


def test_no_capacity_admits_everything() -> None:
    recent = RecentHashes(0)
    assert recent.admit(b"a")
    assert recent.admit(b"a")
    assert len(recent) == 0


@settings(deadline=None)
@given(capacity=st.integers(1, 12), values=st.lists(st.integers(0, 15), max_size=80))
def test_the_last_half_of_the_capacity_is_always_remembered(
    capacity: int, values: list[int]
) -> None:
    recent, met = RecentHashes(capacity), list[int]()
    for value in values:
        is_new = recent.admit(bytes([value]))
        distinct = list(dict.fromkeys(reversed(met)))
        if value in distinct[: capacity // 2]:
            assert not is_new
        if value not in met:
            assert is_new
        met.append(value)
        assert len(recent) <= max(capacity, 2)
