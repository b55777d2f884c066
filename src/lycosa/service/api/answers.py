"""What the service answers to the endpoints and to the operator's page, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class MergedList(msgspec.Struct, frozen=True):
    """A piece of a list that several owners gave together.

    ``rows`` are the owners' own, in the order of the list. ``cursor`` continues it (empty = it is
    complete), and each of ``marks`` after one row. ``wall`` is the time of the oldest commit from
    which a row was read. ``is_partial`` says that a time budget ended the search early (see
    ``Found``). ``silent`` lists the partitions whose owners did not answer: their rows are missing.
    An order of hosts is from the time ``ordered_at`` (wall time, 0 = from that commit), and ends
    where more are not kept when ``is_cut``.
    """

    rows: list[dict[str, Any]]
    cursor: str = ""
    wall: float = 0.0
    is_partial: bool = False
    silent: list[int] = []
    ordered_at: float = 0.0
    is_cut: bool = False
    marks: list[str] = []


class Rates(msgspec.Struct, frozen=True):
    """Captures a second: in the last minute, since this process watches, and the best minute."""

    current: float = 0.0
    mean: float = 0.0
    peak: float = 0.0


class OwnerSilent(Exception):
    """The owner of a partition did not answer; the same call may be made again.

    ``retry_s`` is when that makes sense, in seconds.
    """

    def __init__(self, partition: int, why: str, retry_s: float = 5.0) -> None:
        super().__init__(f"the owner of partition {partition} does not answer: {why}")
        self.partition, self.retry_s = partition, retry_s


class CoordinatorSilent(Exception):
    """The coordinator did not answer; the same call may be made again after ``retry_s``."""

    def __init__(self, why: str, retry_s: float = 5.0) -> None:
        super().__init__(f"the coordinator does not answer: {why}")
        self.retry_s = retry_s


class ServiceBusy(Exception):
    """So many calls wait that one more is refused; ``retry_s`` is when to try again."""

    def __init__(self, retry_s: float = 1.0) -> None:
        super().__init__("too many calls wait for the crawl")
        self.retry_s = retry_s


class ServiceRefusal(Exception):
    """The crawl refuses the call, and would refuse it again; the text says why."""


class SettingsChanged(Exception):
    """Settings have other values than the caller was shown, so a change would undo another one.

    ``reasons`` has a sentence for each such setting, with the values of both.
    """

    def __init__(
        self, given: Mapping[str, str], shown: Mapping[str, str], present: Mapping[str, str]
    ) -> None:
        self.reasons = {
            key: f"it is {value} now and was {shown[key]}"
            + (f"; the request gives {given[key]}" if key in given else "")
            for key, value in present.items()
        }
        every = ", ".join(f"{key}: {why}" for key, why in self.reasons.items())
        super().__init__(
            f"another operator changed settings meanwhile, so nothing was changed. {every}. GET"
            " /actions says who; look at the settings again and repeat the change if it is right"
        )
