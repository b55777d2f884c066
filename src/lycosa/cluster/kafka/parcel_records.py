"""A record of the inbox: parcels of one pair of shards, in order, with the crawl that they are of.

One record carries all parcels that wait for a destination, as far as they fit: brokers pay by the
request, and a request of the client library has one record batch of one partition
(docs/decisions/kafka-post.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from lycosa.base.model.foreign_record import ForeignRecord, is_foreign
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.exchange.exchange_errors import InboxDamaged
from lycosa.state.exchange.exchange_port import Parcel

GATHERED_BYTES = 256_000
"""Parcels are gathered into one record up to this size: a reader holds 128 records that it has
taken and not committed.
"""


class PostedParcels(msgspec.Struct, frozen=True, array_like=True, tag="parcels"):
    """``term`` is the one of the owner that posted it."""

    crawl: str
    term: int
    parcels: list[Parcel]


class _Raw(msgspec.Struct, frozen=True, array_like=True, tag="parcels"):
    """``PostedParcels`` with parcels that are bytes already."""

    crawl: str
    term: int
    parcels: list[msgspec.Raw]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(PostedParcels)


def records(crawl: str, term: int, parcels: Sequence[Parcel]) -> Iterator[tuple[int, bytes]]:
    """The records of these parcels, each with the number of parcels in it."""
    gathered: list[msgspec.Raw] = []
    size = 0
    for encoded in map(_ENCODER.encode, parcels):
        if gathered and size + len(encoded) > GATHERED_BYTES:
            yield len(gathered), _ENCODER.encode(_Raw(crawl, term, gathered))
            gathered, size = [], 0
        gathered.append(msgspec.Raw(encoded))
        size += len(encoded)
    if gathered:
        yield len(gathered), _ENCODER.encode(_Raw(crawl, term, gathered))


def parcels_of(
    topic: str, crawl: str, destination: int, offset: int, value: bytes | None
) -> Iterator[tuple[int, Parcel | ForeignRecord]]:
    """The parcels of a record with their positions, or the record if it is foreign. With a
    position, all in front of it is taken; so only the last parcel of a record has the one behind
    it. Raises ``InboxDamaged`` for a record of a newer program.
    """
    data = value or b""
    try:
        posted = _DECODER.decode(data)
    except UNREADABLE as error:
        if not is_foreign(data, crawl):
            raise InboxDamaged(
                f"the inbox of shard {destination} has a record of this crawl at offset {offset}"
                f" that this program cannot read ({error}): a newer program wrote it"
            ) from error
        yield offset + 1, ForeignRecord(topic, destination, offset, f"not readable ({error})", data)
        return
    if posted.crawl != crawl:
        why = f"of the crawl {posted.crawl}"
        yield offset + 1, ForeignRecord(topic, destination, offset, why, data)
        return
    for number, parcel in enumerate(posted.parcels, 1):
        yield offset + (number == len(posted.parcels)), parcel
