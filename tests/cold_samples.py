"""Records and cold files for tests."""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.identity import hash8
from lycosa.state.cold.cold_file import encode_file
from lycosa.state.cold.cold_rows import ColdFileRow, ColdRecord, cold_key, cold_name, object_key
from lycosa.state.cold.cold_table import ColdTable
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.table_records import UrlRecord, encode_record, encode_url
from lycosa.state.objects.objects_port import ObjectStore

HOST = "site.example"


def cold_record(number: int, tries: int = 0, state: UrlState = UrlState.FETCHED) -> ColdRecord:
    """The record of ``https://site.example/page/NUMBER``, fetched once in 2001."""
    record = UrlRecord(
        state,
        True,
        f"/page/{number}",
        1,
        128,
        LinkKind.A,
        1_000_000_000,
        tries=tries,
        history=History(1, 1_000_000_100, 200, digest=bytes(20)),
    )
    url = hash8(HOST) + hash8(f"https://{HOST}/page/{number}")
    return ColdRecord(url, HOST, encode_url(record), record)


def named(store: ObjectStore, records: Sequence[ColdRecord], number: int = 1) -> ColdFileRow:
    """Write a file and return the row that names it."""
    data, name = encode_file(records), cold_name(0, number, 1, 1_100_000_000.0)
    store.put(object_key(name), data)
    return ColdFileRow.of(name, data, records, 1_100_000_000, len(records))


def write_cold(
    store: ObjectStore, records: Sequence[ColdRecord], table: KeyValue | None = None
) -> ColdTable:
    """A table of one file, which the row of ``table`` names."""
    row = named(store, records)
    if table is not None:
        table.write({cold_key(1): encode_record(row)})
    return ColdTable(store, {1: row})
