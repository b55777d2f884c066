"""Keys and record codecs of a partition's table.

Keys are big-endian with one prefix byte, so that the keys of one host stand side by side and queues
are in order:

==========================  =================================================
``U host8 url8``            the URL record
``Q host8 band1 seq6``      waiting URLs (value: their url8); dense sequence numbers make a refill a
                            range of keys
``H host8``                 the visit state of one host
``F band1 seq6``            host waiting in a front queue (value: host8)
``W address NUL band1 seq6``  host waiting for room at its address (value: host8); ``w address``
                              says where that line begins and ends
``D due4 host8 url8``       a URL due again, a retry or a refetch (value: host8 url8 of others of
                            the same commit due in the same second)
``P due4 host8``            a parked host, due for re-examination, or a sleeping one, due to line up
``R host8 scheme1``         robots.txt of one origin
``A site``                  usage of one site
``L site``                  which other sites link to it (module ``admit.linking``)
``J url``                   a URL whose place belongs to the scope: a seed, or where a seed
                            redirects
``V url8``                  a known URL, when URL-seen is a Bloom filter that the table confirms
``C digest`` ``S`` ``s``    content-seen (module ``seen``)
``T url8``                  the hosts whose robots.txt names this sitemap
``N host8``                 how many sitemaps the host brought, and how many URLs these listed
``B host8 url8``            a stored body that was not parsed (module ``frontier.unparsed``)
``X host8 url8``            crashes at which the URL was in flight (module ``attempts.crashes``)
``O`` ``I``                 outbox and watermarks (module ``exchange``)
``M name``                  meta data and counters
==========================  =================================================

Records are msgpack arrays: fields are only ever added at the end, with a default. Version 1 had
record ids as text and whole dates in the history of a URL, versions 1 and 2 one URL in each ``Q``
and ``D`` row; both are read as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from lycosa.model.completed import History, UrlState
from lycosa.model.discovered import LinkKind
from lycosa.reasons import Reason

RECORDS_VERSION = 3
SEQ_BYTES = 6
PARKED_BAND = 255
LINE_PREFIX = b"w"
CRASH_PREFIX = b"X"
_URL8, _DUE = 8, 5  # bytes of a hash, and of a key before what is due
_DATE, _ID = 9, 10  # places in a stored history

if TYPE_CHECKING:
    _History = History | None
else:
    _History = Any  # read as the array that is stored, then unfolded


class UrlRecord(msgspec.Struct, array_like=True, gc=False):
    """All that is remembered of one URL. Times are whole seconds since 1970; ``priority`` is in
    255ths.

    ``target`` is path and query; ``via`` the page it was found on, as that URL itself when it is on
    another host and as its target when it is on the same one. ``tries`` counts failed requests
    since the last capture; ``segment`` and ``offset`` are where the last capture stands.
    ``importance`` is that of the find that made the record, in 255ths (-1 = a record from before it
    was kept). ``chain`` has the redirects before ``via``, the first asked first; it is left out of
    a row where it is empty.
    """

    state: UrlState
    secure: bool
    target: str
    depth: int
    priority: int
    kind: LinkKind
    found_at: int
    via: str = ""
    hops: int = 0
    reason: Reason = Reason.NONE
    detail: str = ""
    tries: int = 0
    due_at: int = 0
    history: _History = None
    importance: int = -1
    chain: tuple[str, ...] = ()


_ENCODER = msgspec.msgpack.Encoder()
_URL_DECODER = msgspec.msgpack.Decoder(UrlRecord)
# of MessagePack's arrays of 16 and of 15
_WHOLE_HEAD, _HEAD_WITHOUT_CHAIN = (
    b"\xdc\x00\x10",
    b"\x9f",
)
assert len(UrlRecord.__struct_fields__) == 16, "the heads are of so many fields"
_URN = "urn:uuid:"
_OWN_ID = re.compile(
    _URN + "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
).fullmatch

encode = _ENCODER.encode


def encode_url(record: UrlRecord) -> bytes:
    """The value of a ``U`` row."""
    history = record.history
    if history is None:
        return _trimmed(encode(record), record)
    record.history = _folded(history)
    value = encode(record)
    record.history = history
    return _trimmed(value, record)


def _trimmed(value: bytes, record: UrlRecord) -> bytes:
    """A row without its last field, the chain, when that is empty: nearly every URL has none."""
    return value if record.chain else _HEAD_WITHOUT_CHAIN + value[len(_WHOLE_HEAD) : -1]


def decode_url(value: bytes) -> UrlRecord:
    """The record in a ``U`` row, of either version. Raises one of
    ``lycosa.system.wire.UNREADABLE``.
    """
    record = _URL_DECODER.decode(value)
    if record.history is not None:
        record.history = _unfolded(record.history)  # type: ignore[arg-type]  # an array so far
    return record


def _folded(history: History) -> Any:
    """A history as it is stored: the record's id as the 16 bytes of its UUID, ``date_us`` counted
    from ``fetched_at``.

    An id that is a string is in the form of version 1, and so is the date.
    """
    if not _OWN_ID(history.record_id):
        return history
    fields = list(msgspec.structs.astuple(history))
    fields[_DATE] -= history.fetched_at * 1_000_000
    fields[_ID] = bytes.fromhex(history.record_id[len(_URN) :].replace("-", ""))
    return fields


def _unfolded(fields: list[Any]) -> History:
    try:
        if len(fields) > _ID and isinstance(fields[_ID], bytes):
            fields[_DATE] += fields[1] * 1_000_000
            fields[_ID] = f"{_URN}{UUID(bytes=fields[_ID])}"
    except (TypeError, ValueError) as error:
        raise msgspec.ValidationError(f"no history: {error}") from error
    return msgspec.convert(fields, History)


def url_key(host8: bytes, url8: bytes) -> bytes:
    return b"U" + host8 + url8


def queue_key(host8: bytes, band: int, seq: int) -> bytes:
    return b"Q" + host8 + band.to_bytes(1, "big") + seq.to_bytes(SEQ_BYTES, "big")


def row_urls(row: bytes) -> list[bytes]:
    """The ``url8`` values in a row of a back queue."""
    return [row[at : at + _URL8] for at in range(0, len(row), _URL8)]


def host_key(host8: bytes) -> bytes:
    return b"H" + host8


def front_key(band: int, seq: int) -> bytes:
    return b"F" + band.to_bytes(1, "big") + seq.to_bytes(SEQ_BYTES, "big")


def line_key(address: str, band: int, seq: int) -> bytes:
    return (
        b"W" + address.encode() + b"\0" + band.to_bytes(1, "big") + seq.to_bytes(SEQ_BYTES, "big")
    )


def waiting_key(address: str, band: int, seq: int) -> bytes:
    """The row of a host's place: in the line of an address, or in the partition's front queues
    when that is empty.
    """
    return line_key(address, band, seq) if address else front_key(band, seq)


def place_of(key: bytes) -> tuple[str, int, int]:
    """The address, band and number of such a row."""
    seq = int.from_bytes(key[-SEQ_BYTES:], "big")
    return key[1 : -SEQ_BYTES - 2].decode() if key[:1] == b"W" else "", key[-SEQ_BYTES - 1], seq


def due_key(due_at: int, host8: bytes, url8: bytes) -> bytes:
    return b"D" + due_at.to_bytes(4, "big") + host8 + url8


def due_urls(key: bytes, row: bytes) -> list[bytes]:
    """The ``host8 url8`` of all URLs in a row of the refetch schedule: one is in the key, the
    others are the value.
    """
    return [key[_DUE:], *(row[at : at + 2 * _URL8] for at in range(0, len(row), 2 * _URL8))]


def parked_key(due_at: int, host8: bytes) -> bytes:
    return b"P" + due_at.to_bytes(4, "big") + host8


def robots_key(host8: bytes, secure: bool) -> bytes:
    return b"R" + host8 + (b"s" if secure else b"h")


def site_key(site: str) -> bytes:
    return b"A" + site.encode()


def linking_key(site: str) -> bytes:
    return b"L" + site.encode()


def known_key(url8: bytes) -> bytes:
    return b"V" + url8


def joined_key(url: str) -> bytes:
    return b"J" + url.encode()


def unparsed_key(host8: bytes, url8: bytes) -> bytes:
    return b"B" + host8 + url8


def crash_key(host8: bytes, url8: bytes) -> bytes:
    return CRASH_PREFIX + host8 + url8


def sitemap_key(url8: bytes) -> bytes:
    return b"T" + url8


def sitemap_count_key(host8: bytes) -> bytes:
    return b"N" + host8


def meta_key(name: str) -> bytes:
    return b"M" + name.encode()


def prefix_end(prefix: bytes) -> bytes:
    """The first key behind all keys with this prefix (which never ends in 0xFF)."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
