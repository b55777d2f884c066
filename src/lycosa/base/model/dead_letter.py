"""A URL that failed for good, as reported and as listed, and an operator's decision about it."""

from __future__ import annotations

from enum import Enum

import msgspec

from lycosa.base.reasons import Reason


class DeadLetter(msgspec.Struct, frozen=True):
    """A URL that is not retried, after ``tries`` tries, at ``wall`` (seconds since 1970)."""

    url: str
    reason: Reason
    detail: str
    tries: int
    wall: float


class DeadLetterAction(Enum):
    """What an operator may decide about a dead letter. The value is written to disk."""

    RETRY = "retry"  # the URL is queued again, with a fresh retry count
    DROP = "drop"  # it is not listed any more; the URL remains known and failed


class DecidedDeadLetter(msgspec.Struct, frozen=True, array_like=True):
    """A decision, by whom, and when (microseconds since 1970).

    ``number`` is that of the dead letter that was decided, 0 if it has none.
    """

    action: DeadLetterAction
    by: str
    date_us: int
    number: int = 0


class ListedDeadLetter(msgspec.Struct, frozen=True):
    """A dead letter.

    ``number`` counts those of its partition; it is 0, and ``date_us`` too, if the URL failed under
    a version that did not number them.
    """

    partition: int
    number: int
    url: str
    host: str
    reason: Reason
    detail: str
    tries: int
    date_us: int
