"""How often a page changes, estimated from what its last fetches found.

A page changes at random times with a constant rate (a Poisson process; Cho and Garcia-Molina,
Estimating frequency of change, 2003). A fetch tells only whether there was a change since the fetch
before, not how many, so the chance of what it found is ``1 - exp(-rate * days)`` or
``exp(-rate * days)``. An observation of a fetch is one byte, and a table has the logarithm of its
chance at each rate of the grid (``base.model.refetch_cell``). The sum over the 16 last
observations and a prior is the posterior; there is no iteration, and the result is a cell.

A page that differs at every fetch, but hardly, is *restless*: a counter of visitors or a list of
random links does not make it worth fetching. Of such a page only a larger difference of its text
counts as a change.
"""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np

from lycosa.base.model.refetch_cell import CELL_RATES

MOST_OBSERVATIONS = 16
_SEEDED = 8  # observations that stand for the fetches of an older program
_RESTLESS = 8  # fetches in a row that found a difference
_SMALL_BITS = 3  # of the simhash: a near-duplicate

_DAY_S = 86_400.0
_SHORTEST_S, _LONGEST_S = 60.0, 4 * 365.25 * _DAY_S
_TIMES = 85  # steps of 19 %
_TIME_STEP = math.log(_LONGEST_S / _SHORTEST_S) / (_TIMES - 1)


class ChangeFinding(IntEnum):
    """What a fetch found, in comparison with the one before. The value is written to disk."""

    SAME = 0
    IMMATERIAL = 1  # a difference that does not count
    CHANGED = 2


_FINDINGS = len(ChangeFinding)


def observation(elapsed_s: float, finding: ChangeFinding) -> int:
    """The byte of a fetch that came ``elapsed_s`` after the one before.

    It is three times a logarithmic step of the time, plus the finding. 255 is not used.
    """
    steps = math.log(max(elapsed_s, _SHORTEST_S) / _SHORTEST_S) / _TIME_STEP
    return _FINDINGS * min(round(steps), _TIMES - 1) + finding


def elapsed_in(byte: int) -> float:
    """The seconds of an observation, within 9 %."""
    return _SHORTEST_S * math.exp(_TIME_STEP * (byte // _FINDINGS))


def finding_in(byte: int) -> ChangeFinding:
    """What an observation's fetch found."""
    return ChangeFinding(byte % _FINDINGS)


def add_observation(
    observations: bytes, elapsed_s: float, is_changed: bool, distance: int | None
) -> bytes:
    """The observations after one more fetch; the oldest one is dropped when there are too many.

    ``distance`` is the number of bits in which the simhashes of both texts differ, ``None`` where
    one has none. A time that is not positive tells nothing: a clock was set back.
    """
    if elapsed_s <= 0:
        return observations
    finding = ChangeFinding.CHANGED if is_changed else ChangeFinding.SAME
    if is_changed and distance is not None and distance <= _SMALL_BITS:
        last = observations[-_RESTLESS:]
        findings = {finding_in(byte) for byte in last}
        if len(last) == _RESTLESS and ChangeFinding.SAME not in findings:
            finding = ChangeFinding.IMMATERIAL
            if ChangeFinding.IMMATERIAL not in findings:
                # It is found only now that the page is restless: the last differences were no
                # changes either.
                observations = observations[:-_RESTLESS] + bytes(byte - 1 for byte in last)
    added = bytes((observation(elapsed_s, finding),))
    return (observations + added)[-MOST_OBSERVATIONS:]


def is_restless(observations: bytes) -> bool:
    """Whether each of the last fetches found a difference."""
    last = observations[-_RESTLESS:]
    return len(last) == _RESTLESS and all(
        finding_in(byte) is not ChangeFinding.SAME for byte in last
    )


def seed_observations(fetches: int, changes: int, interval_s: float) -> bytes:
    """Observations that stand for the fetches of a record without any, as of an older program.

    They are few, so that real ones soon count more, and all have the record's present interval:
    where a change halves it and none lengthens it, that is near the time between changes.
    """
    again = fetches - 1
    number = min(again, _SEEDED)
    if number <= 0 or interval_s <= 0:
        return b""
    changed = round(number * min(changes, again) / again)
    one, other = (
        observation(interval_s, each) for each in (ChangeFinding.SAME, ChangeFinding.CHANGED)
    )
    return bytes([one] * (number - changed) + [other] * changed)


def estimate_rate(observations: bytes) -> float:
    """The change rate of a page in changes a day: the most probable one of the grid.

    The mean is no better where there are many observations. Where there are few, what is improbable
    but fast draws it up, and a page that changed once would be taken for one that is never worth a
    fetch (``bench/refetch_value.py`` shows what comes of it).
    """
    scores = _PRIOR + _TABLE[np.frombuffer(observations, np.uint8)].sum(0)
    return CELL_RATES[int(scores.argmax(0))]


def changes_seen(observations: bytes) -> tuple[int, float]:
    """How many changes the observations saw, and in how many days."""
    changes = sum(finding_in(byte) is ChangeFinding.CHANGED for byte in observations)
    return changes, sum(map(elapsed_in, observations)) / _DAY_S


# What is assumed of a page before its second fetch: it changes about every two weeks, two thirds of
# the pages within a factor of seven. That is less than one observation weighs at most rates.
_PRIOR_RATE, _PRIOR_SPREAD = 1 / 14, 2.0
_PRIOR = -0.5 * ((np.log(CELL_RATES) - math.log(_PRIOR_RATE)) / _PRIOR_SPREAD) ** 2


def _table() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The logarithm of the chance of each byte at each rate."""
    table = np.zeros((256, len(CELL_RATES)))
    for byte in range(_TIMES * _FINDINGS):
        x = np.array(CELL_RATES) * (elapsed_in(byte) / _DAY_S)
        table[byte] = np.log(-np.expm1(-x)) if finding_in(byte) is ChangeFinding.CHANGED else -x
    return table


_TABLE = _table()
