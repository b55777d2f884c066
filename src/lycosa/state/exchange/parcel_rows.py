"""The rows of an outbox as bytes: the only module that knows their formats.

    ======================  ==============================================================
    a parcel of             its row, in MessagePack
    ======================  ==============================================================
    discovered URLs         an array of ``Discovered``
    anything else           a map with a field for each kind: ``contents``, rows of
                            content-seen; ``fingerprints`` and ``verdicts`` of
                            near-duplicates; ``errands``; ``answers`` to errands;
                            ``wants`` of pages that are rendered, and ``settled`` ones;
                            ``places``, URLs whose places joined the scope
    ======================  ==============================================================

A new kind of parcel is a new field of ``ParcelRow``, with a default. A program must not send a row
with an unknown field, because the receiver would acknowledge a parcel of which a part is lost. So
``decode_row`` raises. ``urls_of``, which only reads the waiting URLs, ignores unknown fields.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.discovered import Discovered
from lycosa.base.model.parcel_items import (
    Answer,
    Errand,
    Fingerprint,
    PostedWant,
    SettledWant,
    Verdict,
)


class ParcelRow(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The content of a row. A parcel is of one kind, so the other fields are empty.

    Errands, answers, wants and settled wants count as one kind, and so do contents, fingerprints
    and verdicts.
    """

    discovered: list[Discovered] = []
    contents: list[tuple[bytes, bytes]] = []
    errands: list[Errand] = []
    answers: list[Answer] = []
    places: list[str] = []
    fingerprints: list[Fingerprint] = []
    verdicts: list[Verdict] = []
    wants: list[PostedWant] = []
    settled: list[SettledWant] = []


_EMPTY = ParcelRow()
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[list[Discovered] | ParcelRow] = msgspec.msgpack.Decoder(
    list[Discovered] | ParcelRow
)
_URLS: msgspec.msgpack.Decoder[list[Discovered] | dict[str, msgspec.Raw]] = msgspec.msgpack.Decoder(
    list[Discovered] | dict[str, msgspec.Raw]
)


def encode_row(row: ParcelRow) -> bytes:
    return _ENCODER.encode(row.discovered if row.discovered or row == _EMPTY else row)


def decode_row(value: bytes) -> ParcelRow:
    """The content of a row. Raises ``msgspec.DecodeError`` for an unknown kind."""
    decoded = _DECODER.decode(value)
    return ParcelRow(decoded) if isinstance(decoded, list) else decoded


def urls_of(value: bytes) -> list[Discovered]:
    """The URLs in a row; none for every other kind of parcel, known or unknown."""
    decoded = _URLS.decode(value)
    return decoded if isinstance(decoded, list) else []
