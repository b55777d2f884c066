"""The records that a coordinator must not lose, and the state that they define.

A coordinator has each record written before it sends what follows from it, so the next coordinator
knows at least everything that a worker was sent. In a cluster the records are in the topic
``control``, to which only the latest claimant can write. On one machine they are not kept: each
start counts again from the folder.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from lycosa.base.model.code_version import CodeVersion
from lycosa.base.model.compatibility import FIRST_FORMATS


class PermitSaved(msgspec.Struct, frozen=True, tag=True):
    """The owner of a shard in that term may have ``captures`` captures in all.

    ``serial`` numbers the permits of the shard.
    """

    shard: int
    term: int
    serial: int
    captures: int


class CrawlAction(msgspec.Struct, frozen=True):
    """An action of an operator on the whole crawl; ``action`` and ``subject`` as in the log.

    ``call`` identifies it, ``date_us`` is in microseconds since 1970, ``why`` is a remark.
    """

    call: str
    by: str
    date_us: int
    action: str
    subject: str
    why: str = ""


class SettingsSaved(msgspec.Struct, frozen=True, tag=True):
    """What operators steer while the crawl runs: settings, a pause, and their latest actions.

    ``code`` is the user code that the crawl runs.
    """

    version: int
    values: dict[str, str]
    is_paused: bool = False
    actions: list[CrawlAction] = []
    code: dict[str, CodeVersion] = {}


class EndSaved(msgspec.Struct, frozen=True, tag=True):
    """The decision that the crawl ends, and how; with an empty ``end`` it continues."""

    end: str
    at_once: bool


class AsksSaved(msgspec.Struct, frozen=True, tag=True):
    """Whether all requests of callers were made, so that the crawl may finish."""

    are_over: bool


class DrainSaved(msgspec.Struct, frozen=True, tag=True):
    """Whether the node gets no more shards."""

    node: str
    is_over: bool


class FormatsSaved(msgspec.Struct, frozen=True, tag=True):
    """The formats in force (``model.compatibility``)."""

    number: int


Record = PermitSaved | SettingsSaved | EndSaved | AsksSaved | DrainSaved | FormatsSaved


class Control(msgspec.Struct, frozen=True):
    """The state after all records; the defaults are those of a new crawl.

    ``permits`` are by shard. ``draining`` are the nodes that get no more shards. ``is_first``: the
    crawl never had a coordinator, so no node can run anything of it.
    """

    permits: dict[int, PermitSaved] = {}
    settings: SettingsSaved = SettingsSaved(0, {})
    end: EndSaved = EndSaved("", False)
    asks: AsksSaved = AsksSaved(False)
    draining: frozenset[str] = frozenset()
    is_first: bool = False
    formats: int = FIRST_FORMATS


_RECORDS: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def decode_records(values: Iterable[bytes]) -> list[Record]:
    """The records of these values. Raises ``msgspec.DecodeError`` for one of a newer program."""
    return [_RECORDS.decode(value) for value in values]


def key_of(record: Record) -> str:
    """The part of the state that the record replaces as a whole.

    The last record of each key defines the state, so a log may drop the others.
    """
    match record:
        case PermitSaved(shard=shard):
            return f"permit/{shard}"
        case DrainSaved(node=node):
            return f"drain/{node}"
        case SettingsSaved():
            return "settings"
        case EndSaved():
            return "end"
        case AsksSaved():
            return "asks"
        case FormatsSaved():
            return "formats"


def folded(records: Iterable[Record]) -> Control:
    """The state after all records, in their order."""
    permits: dict[int, PermitSaved] = {}
    draining: set[str] = set()
    settings, end, asks = SettingsSaved(0, {}), EndSaved("", False), AsksSaved(False)
    formats = FIRST_FORMATS
    for record in records:
        if isinstance(record, PermitSaved):
            permits[record.shard] = record
        elif isinstance(record, SettingsSaved):
            settings = record
        elif isinstance(record, EndSaved):
            end = record
        elif isinstance(record, AsksSaved):
            asks = record
        elif isinstance(record, FormatsSaved):
            formats = max(formats, record.number)
        elif record.is_over:
            draining.discard(record.node)
        else:
            draining.add(record.node)
    return Control(permits, settings, end, asks, frozenset(draining), formats=formats)
