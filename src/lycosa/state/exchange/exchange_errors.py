"""Errors between partitions, by cause.

All except ``ParcelsLost``, ``ParcelsStuck``, ``PositionLost`` and ``InboxDamaged`` are retried.
"""

from __future__ import annotations


class ExchangeError(Exception):
    """A parcel was not acknowledged; it may still have arrived.

    The owner is missing, the connection was lost, the time limit has passed, or the receiver
    refused.
    """


class ParcelRefused(ExchangeError):
    """The receiver answered that it did not take the parcel."""


class ParcelGap(ParcelRefused):
    """A parcel arrived before the one in front of it.

    The sender starts again after the last acknowledged parcel.
    """


class ParcelsLost(ParcelRefused):
    """Parcels were not taken, although the source knows that they were handed over.

    The receiver would wait for them endlessly.
    """

    def __init__(self, source: int, destination: int, taken: int, acknowledged: int) -> None:
        self.source, self.taken, self.acknowledged = source, taken, acknowledged
        super().__init__(
            f"partition {destination} has taken {taken} parcels from partition {source}, of which"
            f" {acknowledged} were acknowledged: commits of the receiving worker are lost. The"
            " crawl was stopped; the next start with the same command reports what is missing"
        )


class ParcelsStuck(ExchangeError):
    """Parcels were refused for so long that waiting longer makes no sense."""

    def __init__(
        self, source: int, destination: int, sequence: int, seconds: float, why: str
    ) -> None:
        super().__init__(
            f"parcel {sequence} from partition {source} was refused by partition {destination} for"
            f" {seconds:.0f} s ({why}). The crawl was stopped, and nothing is lost: give the same"
            " command again to resume it"
        )


class PositionLost(ExchangeError):
    """An inbox topic lacks the records after the position in the last commit.

    The topic was truncated, or is another one.
    """

    def __init__(self, destination: int, after: int, first: int, last: int) -> None:
        super().__init__(
            f"partition {destination} has read its inbox up to position {after}, and the topic"
            f" holds positions {first} to {last}: records are lost, as after the topic was deleted"
            " and made again. End all nodes and the coordinator, delete what is left of the topics,"
            " and continue by `lycosa cluster rescue`"
        )


class InboxDamaged(ExchangeError):
    """An inbox topic lacks a parcel, or holds a record of this crawl that cannot be read."""


class NoAnswer(ExchangeError):
    """A call was not answered in time.

    It may have taken effect. Calls are idempotent, so the caller repeats it.
    """


class CallRefused(ExchangeError):
    """The owner answered a call with an error; repeating it unchanged gives the same result."""
