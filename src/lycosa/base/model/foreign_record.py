"""A record in a topic of the crawl that no program of the crawl wrote.

Any program that may write to a topic can put one there by mistake. The crawl steps over it, because
commits and parcels are numbered: one that is missing is noticed by its number. Every record of the
crawl has the crawl's UUID near its beginning, so a record that cannot be read and has it is of a
newer program. That one is never stepped over.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

_HEAD_BYTES = 200


class ForeignRecord(msgspec.Struct, frozen=True):
    """Its place, why it is no record of the crawl, and its bytes."""

    topic: str
    partition: int
    offset: int
    why: str
    data: bytes

    @property
    def kind(self) -> str:
        """The last part of the topic's name: ``changelog``, ``inbox`` or ``control``."""
        return self.topic.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.topic}, partition {self.partition}, offset {self.offset}: {self.why}"


OnForeign = Callable[[ForeignRecord], None]
"""Gets each foreign record that a reader steps over, on the reader's thread."""


def not_noted(record: ForeignRecord) -> None:
    """The ``OnForeign`` of a reader that owns nothing; the owner reports the record."""


def is_foreign(data: bytes, crawl: str) -> bool:
    """Whether bytes that cannot be read are not of the crawl ``crawl`` (its UUID)."""
    return crawl.encode() not in data[:_HEAD_BYTES]
