"""The rows of an outbox as bytes: the one place that knows their forms.

==========================  ======================================================================
a parcel of                 its row, in MessagePack
==========================  ======================================================================
discovered URLs             an array of ``Discovered``
anything else               a map with a field for each kind: ``contents``, rows of content-seen;
                            ``errands`` and ``answers`` to errands; ``places``, URLs
                            whose places joined the scope
==========================  ======================================================================

A new kind of parcel is a new field of ``_Map``, with a default. A program that does not know a
field must not send such a row: the receiver would acknowledge a parcel of which a part is lost, so
``decode_row`` raises. ``urls_of``, which only reads which URLs wait, ignores fields that it does
not know.
"""

from __future__ import annotations

import msgspec

from lycosa.model.discovered import Discovered
from lycosa.model.errand import Answer, Errand


class ParcelRow(msgspec.Struct, frozen=True):
    """What a row holds; a parcel is of one kind, so the others are empty. Errands and answers
    count as one.
    """

    discovered: list[Discovered]
    contents: list[tuple[bytes, bytes]] = []
    errands: list[Errand] = []
    answers: list[Answer] = []
    places: list[str] = []


class _Map(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    contents: list[tuple[bytes, bytes]] = []
    errands: list[Errand] = []
    answers: list[Answer] = []
    places: list[str] = []


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[list[Discovered] | _Map] = msgspec.msgpack.Decoder(
    list[Discovered] | _Map
)
_URLS: msgspec.msgpack.Decoder[list[Discovered] | dict[str, msgspec.Raw]] = msgspec.msgpack.Decoder(
    list[Discovered] | dict[str, msgspec.Raw]
)


def encode_row(row: ParcelRow) -> bytes:
    """The bytes of a row."""
    if row.contents or row.errands or row.answers or row.places:
        return _ENCODER.encode(_Map(row.contents, row.errands, row.answers, row.places))
    return _ENCODER.encode(row.discovered)


def decode_row(value: bytes) -> ParcelRow:
    """All that a row holds. Raises ``msgspec.DecodeError`` for one of a kind that this program
    does not know.
    """
    decoded = _DECODER.decode(value)
    if isinstance(decoded, list):
        return ParcelRow(decoded)
    return ParcelRow([], decoded.contents, decoded.errands, decoded.answers, decoded.places)


def urls_of(value: bytes) -> list[Discovered]:
    """The URLs that a row carries to their owner; none for every other kind of parcel, known or
    not.
    """
    decoded = _URLS.decode(value)
    return decoded if isinstance(decoded, list) else []
