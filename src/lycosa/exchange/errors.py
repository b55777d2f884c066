"""What can go wrong between partitions, by cause. Everything but ``ParcelsLost``,
``ParcelsStuck``, ``PositionLost`` and ``InboxDamaged`` is tried again.
"""

from __future__ import annotations


class ExchangeError(Exception):
    """A parcel was not acknowledged: no owner, connection lost, time over, or the receiver
    refused. It may still have arrived.
    """


class ParcelRefused(ExchangeError):
    """The receiver answered, and did not take the parcel."""


class ParcelGap(ParcelRefused):
    """A parcel arrived before the one in front of it; the sender starts again from the last one
    acknowledged.
    """


class ParcelsLost(ParcelRefused):
    """Parcels that the source knows to be handed over were not taken: the receiver would wait
    for them for ever.
    """

    def __init__(self, source: int, destination: int, taken: int, acknowledged: int) -> None:
        super().__init__(
            f"partition {destination} has taken {taken} parcels from partition {source}, of which"
            f" {acknowledged} were acknowledged: commits of the receiving worker are lost. The"
            " crawl was ended; the next start with the same command says what is missing"
        )


class ParcelsStuck(ExchangeError):
    """Parcels were refused again and again, for so long that waiting on makes no sense."""

    def __init__(
        self, source: int, destination: int, sequence: int, seconds: float, why: str
    ) -> None:
        super().__init__(
            f"parcel {sequence} from partition {source} was refused by partition {destination} for"
            f" {seconds:.0f} s ({why}). The crawl was ended, and nothing is lost: give the same"
            " command again"
        )


class PositionLost(ExchangeError):
    """An inbox topic does not hold what follows the position that the last commit names: the
    topic was cut, or is another one.
    """

    def __init__(self, destination: int, after: int, first: int, last: int) -> None:
        super().__init__(
            f"partition {destination} has read its inbox up to position {after}, and the topic"
            f" holds positions {first} to {last}: records are lost"
        )


class InboxDamaged(ExchangeError):
    """An inbox topic holds a record that is of another crawl or cannot be read; it is never
    stepped over.
    """


class NoAnswer(ExchangeError):
    """A call was not answered in time. It may have taken effect: calls are idempotent, so the
    caller repeats it.
    """


class CallRefused(ExchangeError):
    """The owner answered a call with an error: repeating it without a change has the same
    result.
    """
