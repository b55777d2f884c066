"""A cold file: the records of some URLs of one partition, as Parquet, sorted by their keys.

``record`` is the value of the ``U`` row, without its cell: a record that comes back is the one that
left, and gets a cell at its next fetch. The other columns are for people and for SQL engines, which
then do not need this program: ``url``, ``state``, ``reason``, times, HTTP status, number of
captures. A file is written once and never changes. Its name has the date, so that old files can be
moved to cheaper storage by age.

Groups have 1,024 rows. The key-value metadata has the first key of each, so one record costs one
read of a group of about 100 kB. Pages have checksums, which are verified when they are read.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.url_parts import join_url
from lycosa.state.cold.cold_rows import ColdDamaged, ColdRecord, object_key
from lycosa.state.objects.objects_port import ObjectStore

FORMAT = 1
_GROUP_ROWS = 1024
_KEY = 16  # bytes of host8 and url8
_FORMAT_KEY, _FIRSTS_KEY = b"lycosa.cold", b"lycosa.firsts"
_PLAIN = ["host_hash", "url_hash", "record"]
_DAMAGED = (pa.ArrowException, OSError, ValueError, KeyError, struct.error)

SCHEMA = pa.schema(
    [
        pa.field("host_hash", pa.binary(8), nullable=False),
        pa.field("url_hash", pa.binary(8), nullable=False),
        pa.field("url", pa.string(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("found_at", pa.timestamp("us"), nullable=False),
        pa.field("fetched_at", pa.timestamp("us")),
        pa.field("status", pa.int16()),
        pa.field("fetches", pa.int32(), nullable=False),
        pa.field("record", pa.binary(), nullable=False),
    ]
)


def encode_file(records: Sequence[ColdRecord]) -> bytes:
    """The bytes of a file with these records, which are sorted by ``url`` and differ in it."""
    assert records, "a cold file has records"
    columns = zip(*map(_cells, records), strict=True)
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )
    return encode_rows(table)


def encode_rows(table: pa.Table) -> bytes:
    """The bytes of a file with these rows, which have the columns of ``SCHEMA``."""
    sink = io.BytesIO()
    writer = pq.ParquetWriter(
        sink,
        SCHEMA,
        compression="zstd",
        compression_level=6,
        use_dictionary=["state", "reason"],
        write_page_checksum=True,
        store_schema=False,
    )
    with writer:
        writer.write_table(table, row_group_size=_GROUP_ROWS)
        firsts = b"".join(file_urls(table)[::_GROUP_ROWS])
        writer.add_key_value_metadata({_FORMAT_KEY: str(FORMAT), _FIRSTS_KEY: firsts.hex()})
    return sink.getvalue()


def _cells(each: ColdRecord) -> tuple[Any, ...]:
    record, history = each.record, each.record.history
    return (
        each.url[:8],
        each.url[8:],
        join_url("https" if record.secure else "http", each.host, record.target),
        UrlState(record.state).label,
        Reason(record.reason).name.lower() if record.reason else None,
        record.found_at * 1_000_000,
        history.fetched_at * 1_000_000 if history and history.fetched_at else None,
        history.status if history and history.status else None,
        history.fetches if history else 0,
        each.cold_value,
    )


def file_urls(table: pa.Table) -> list[bytes]:
    """The host8 and url8 of the rows of a file."""
    hosts, urls = (table.column(name).to_pylist() for name in _PLAIN[:2])
    return [host + url for host, url in zip(hosts, urls, strict=True)]


class ColdFile:
    """A file in a store, opened for reading. Only its end and what is asked for are read.

    Everything raises ``ColdDamaged`` when the file is not as it was written, and ``ObjectError``
    when the store cannot be read.
    """

    def __init__(self, store: ObjectStore, name: str, size: int) -> None:
        self._name = name
        self._source = _ObjectFile(store, object_key(name), size)
        self._file = self._read(
            lambda: pq.ParquetFile(
                pa.PythonFile(self._source, mode="r"), page_checksum_verification=True
            )
        )
        found = self._file.metadata.metadata or {}
        number = found.get(_FORMAT_KEY, b"")
        if number != str(FORMAT).encode():
            raise ColdDamaged(
                f"{object_key(name)} has the format {number.decode(errors='replace') or 'none'}, "
                f"and this program reads {FORMAT}"
            )
        firsts = self._read(lambda: bytes.fromhex(found[_FIRSTS_KEY].decode()))
        self._firsts = [firsts[at : at + _KEY] for at in range(0, len(firsts), _KEY)]
        self._group: tuple[int, dict[bytes, bytes]] = (-1, {})

    def get(self, url: bytes) -> bytes | None:
        """The value of the ``U`` row of a URL, given by its host8 and url8."""
        at = self._group_of(url)
        if at < 0:
            return None
        if at != self._group[0]:
            self._group = at, dict(self._rows(at))
        return self._group[1].get(url)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The URLs from ``start`` up to before ``end``, in order, with their values."""
        for at in range(max(self._group_of(start), 0), len(self._firsts)):
            if self._firsts[at] >= end:
                return
            for url, value in self._rows(at):
                if start <= url < end:
                    yield url, value

    def read(self) -> pa.Table:
        """All its rows."""
        table: pa.Table = self._read(self._file.read)
        return table.select(SCHEMA.names).cast(SCHEMA)

    def hashes(self) -> NDArray[np.uint64]:
        """The url8 of all records as numbers, in the order of the file."""
        column = self._read(lambda: self._file.read(columns=["url_hash"]).column(0))
        joined = b"".join(column.to_pylist())
        return np.frombuffer(joined, dtype=">u8").astype(np.uint64)

    def _group_of(self, url: bytes) -> int:
        """The group in which a URL would be; -1 when it is before the first."""
        from_below, beyond = 0, len(self._firsts)
        while from_below < beyond:
            middle = (from_below + beyond) // 2
            if self._firsts[middle] <= url:
                from_below = middle + 1
            else:
                beyond = middle
        return from_below - 1

    def _rows(self, at: int) -> list[tuple[bytes, bytes]]:
        table = self._read(lambda: self._file.read_row_group(at, columns=_PLAIN))
        hosts, urls, values = (table.column(name).to_pylist() for name in _PLAIN)
        return [(host + url, value) for host, url, value in zip(hosts, urls, values, strict=True)]

    def _read(self, call: Any) -> Any:
        try:
            return call()
        except _DAMAGED as error:
            if self._source.failure is not None:
                raise self._source.failure from error
            raise ColdDamaged(f"{object_key(self._name)} cannot be read: {error}") from error


class _ObjectFile(io.RawIOBase):
    """An object as a file for pyarrow, read in ranges."""

    def __init__(self, store: ObjectStore, key: str, size: int) -> None:
        self._store, self._key, self._size = store, key, size
        self._at = 0
        self.failure: Exception | None = None
        """The error of the store; pyarrow replaces it by another one."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = (0, self._at, self._size)[whence]
        self._at = start + offset
        return self._at

    def size(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        left = max(self._size - self._at, 0)
        wanted = left if size < 0 else min(size, left)
        if not wanted:
            return b""
        try:
            found = self._store.get(self._key, self._at, wanted)
        except Exception as error:
            self.failure = error
            raise
        self._at += len(found)
        return found
