"""The records that a coordinator must not lose, and the state that they define.

A coordinator has each record written before it sends what follows from it, so the next coordinator
knows at least everything that a worker was sent. In a cluster the records are in the topic
``control``, to which only the latest claimant can write. On one machine they are not kept: each
start counts again from the folder.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class PermitSaved(msgspec.Struct, frozen=True, tag=True):
    """The owner of a shard in that term may have ``captures`` captures in all.

    ``serial`` numbers the permits of the shard.
    """

    shard: int
    term: int
    serial: int
    captures: int


class SettingsSaved(msgspec.Struct, frozen=True, tag=True):
    """Settings that change while the crawl runs."""

    version: int
    values: dict[str, str]


class EndSaved(msgspec.Struct, frozen=True, tag=True):
    """The decision that the crawl ends, and how."""

    end: str
    at_once: bool


Record = PermitSaved | SettingsSaved | EndSaved


class Control(msgspec.Struct, frozen=True):
    """The state after all records; the defaults are those of a new crawl.

    ``permits`` are by shard.
    """

    permits: dict[int, PermitSaved] = {}
    settings: SettingsSaved = SettingsSaved(0, {})
    end: EndSaved = EndSaved("", False)


def folded(records: Iterable[Record]) -> Control:
    """The state after all records, in their order."""
    permits: dict[int, PermitSaved] = {}
    settings, end = SettingsSaved(0, {}), EndSaved("", False)
    for record in records:
        if isinstance(record, PermitSaved):
            permits[record.shard] = record
        elif isinstance(record, SettingsSaved):
            settings = record
        else:
            end = record
    return Control(permits, settings, end)
