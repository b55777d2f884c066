"""A table with cold rows reads as it did before any of its rows was cold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.state.cold.whole_table import WholeTable, whole_table
from lycosa.state.kv.kv_port import TableDamaged, TableError
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.objects.folder import FolderStore

KEYS = st.builds(
    lambda first, rest: first + rest,
    st.sampled_from([b"H", b"Q", b"U", b"a", b"V"]),
    st.binary(max_size=2),
)
ROWS = st.dictionaries(KEYS, st.binary(max_size=2), max_size=30)


def stored(rows: Mapping[bytes, bytes]) -> MemoryKeyValue:
    table = MemoryKeyValue()
    table.write(dict(rows))
    return table


@given(ROWS, st.sets(KEYS), ROWS, KEYS, KEYS)
def test_every_read_is_as_if_nothing_were_cold(
    rows: dict[bytes, bytes], gone: set[bytes], older: dict[bytes, bytes], one: bytes, other: bytes
) -> None:
    cold = {key: value for key, value in rows.items() if key in gone and key[:1] == b"U"}
    live = {key: value for key, value in rows.items() if key not in cold}
    # what a record was before it returned stays in its file
    stale = {key: value for key, value in older.items() if key in live and key[:1] == b"U"}
    whole = WholeTable(stored(live), stored({**stale, **cold}))
    assert {key: whole.get(key) for key in {*rows, *gone}} == {
        key: rows.get(key) for key in {*rows, *gone}
    }
    for start, end in [(b"", b"\xff"), (b"U", b"V"), (min(one, other), max(one, other))]:
        expected = sorted((key, rows[key]) for key in rows if start <= key < end)
        assert list(whole.scan(start, end)) == expected


def test_cold_rows_are_read_only_for_records_that_the_table_lacks() -> None:
    unread = MemoryKeyValue()
    whole = WholeTable(stored({b"Hx": b"1", b"Ux": b"1"}), unread)
    unread.close()  # every read raises
    assert [whole.get(key) for key in (b"Hx", b"Hy", b"Ux", b"V")] == [b"1", None, b"1", None]
    assert list(whole.scan(b"H", b"U")) == [(b"Hx", b"1")] and list(whole.scan(b"V", b"W")) == []
    with pytest.raises(TableError):
        whole.get(b"Uy")


def test_a_row_that_names_no_file_is_told_as_damage(tmp_path: Path) -> None:
    table = stored({b"c\0\0\0\0\0\1": b"\xc1"})
    with pytest.raises(TableDamaged, match="names a cold file"):
        whole_table(table, FolderStore("here", tmp_path))
    assert whole_table(table, None) is table
