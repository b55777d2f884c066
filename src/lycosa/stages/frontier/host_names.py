"""The index of host names of a partition: ``h reversed-host`` with the key of the host.

The keys of visit states are hashes, so without this index a search for a name would read all of
them. The names are reversed by label, so the hosts of a domain are adjacent.

A table of an earlier version has no index. Its owner adds a few names with each commit, in the
order of the hosts' keys, and keeps the last key in the table. So the addition continues after a
restart, and no commit takes noticeably longer. The names of new hosts are added at once.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.urls.identity import reversed_host
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    encode_record,
    host_key,
    host_name_key,
    meta_key,
    prefix_end,
)

HOST_NAME_ROWS = b"h"
_INDEXED_KEY = meta_key("host_names")
_AT_ONCE = 100  # names that one commit adds: half a millisecond


class _Named(msgspec.Struct, array_like=True):
    """The first field of a visit state; the others are not decoded."""

    host: str


_decode_name = msgspec.msgpack.Decoder(_Named).decode
_decode_key = msgspec.msgpack.Decoder(bytes).decode


def indexed_until(get: Callable[[bytes], bytes | None]) -> bytes | None:
    """Up to which key of a host the index is complete; ``None`` when it is complete.

    ``get`` reads the partition's table. Empty when no name was added so far.
    """
    value = get(_INDEXED_KEY)
    return b"" if value is None else _decode_key(value) or None


class HostNames:
    """Adds names to the index of a partition's table."""

    def __init__(self, table: Overlay) -> None:
        self._table = table
        self._until = indexed_until(table.get)
        # A table without hosts gets the row that says "complete" with its first host.
        self._is_empty = self._until == b"" and not list(table.scan(b"H", prefix_end(b"H"), 1))
        if self._is_empty:
            self._until = None

    def add_name(self, host: str, host8: bytes) -> None:
        self._table.put(host_name_key(reversed_host(host)), host8)
        if self._is_empty:
            self._is_empty = False
            self._table.put(_INDEXED_KEY, encode_record(b""))

    @property
    def is_complete(self) -> bool:
        """Whether the index has all hosts."""
        return self._until is None

    def hosts_below(self, domain: str, most: int) -> list[bytes]:
        """The keys of the hosts whose names end with ``domain``; at most ``most``.

        Names such as ``badexample.org`` are not below ``example.org``, but
        ``example.organisation`` sorts among them: the caller compares the sites.
        """
        start = host_name_key(reversed_host(domain))
        return [bytes(value) for _, value in self._table.scan(start, prefix_end(start), most)]

    def add_older_names(self) -> None:
        """Add some of the hosts that are not in the index yet, if there are any."""
        if self._until is None:
            return
        last = b""
        for key, value in list(
            self._table.scan(host_key(self._until + b"\0"), prefix_end(b"H"), _AT_ONCE)
        ):
            last = key[1:]
            self.add_name(_decode_name(value).host, last)
        self._until = last or None
        self._table.put(_INDEXED_KEY, encode_record(last))
