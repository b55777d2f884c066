"""An overlay shows what the table will be, and a crash forgets exactly what was not committed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay

keys = st.binary(min_size=1, max_size=2)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, st.binary(max_size=2)),
        st.tuples(st.just("delete"), keys, st.just(b"")),
        st.tuples(st.just("freeze"), st.just(b""), st.just(b"")),
        st.tuples(st.just("settle"), st.just(b""), st.just(b"")),
        st.tuples(st.just("crash"), st.just(b""), st.just(b"")),
    ),
    max_size=40,
)


@given(steps, keys, keys, st.integers(0, 5))
@settings(deadline=None, max_examples=300)
def test_it_reads_like_a_dictionary_over_commits_and_crashes(
    operations: list[tuple[str, bytes, bytes]], low: bytes, high: bytes, limit: int
) -> None:
    store = MemoryKeyValue()
    overlay = Overlay(store)
    now: dict[bytes, bytes] = {}
    committed: dict[bytes, bytes] = {}
    in_flight = None
    for step, key, value in operations:
        if step == "put":
            overlay.put(key, value)
            now[key] = value
        elif step == "delete":
            overlay.delete(key)
            now.pop(key, None)
        elif step == "freeze" and in_flight is None:
            in_flight = (overlay.freeze(), dict(now))
        elif step == "settle" and in_flight is not None:
            store.write(in_flight[0])
            overlay.settle()
            committed, in_flight = in_flight[1], None
        elif step == "crash":
            overlay, now, in_flight = Overlay(store), dict(committed), None
        pairs = sorted((k, v) for k, v in now.items() if low <= k < high)
        assert list(overlay.scan(low, high, limit)) == (pairs[:limit] if limit else pairs)
        ranges = [(b"", low), (high, b"\xff" * 3)] if low <= high else []
        assert list(overlay.scan_ranges(ranges)) == [
            list(overlay.scan(start, end)) for start, end in ranges
        ]
        assert overlay.get(low) == now.get(low)
        assert overlay.get_many([low, high, low]) == [now.get(low), now.get(high), now.get(low)]


def test_one_batch_is_in_flight_at_a_time() -> None:
    overlay = Overlay(MemoryKeyValue())
    overlay.put(b"a", b"1")
    overlay.freeze()
    overlay.put(b"b", b"2")
    with pytest.raises(AssertionError):
        overlay.freeze()
    assert overlay.open_writes == 1
