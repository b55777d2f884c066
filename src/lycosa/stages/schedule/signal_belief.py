"""What signals change: the belief that a page has changed, not the value of a fetch.

A page that changes *r* times a day and was fetched *t* days ago has changed with the chance
*1 - exp(-x)*, *x = r t*. A signal of precision *q* leaves the share *1 - q* of the doubt, and a
source of recall *a* would have told of the share *a* of all changes. Hence

    x = (1 - a) r t - sum over signals of ln(1 - q)

and the value of a fetch is that of this *x* (``refetch_value``; Busa-Fekete and others, Learning to
crawl with noisy signals, 2025). The page is due when it reaches the price, so a believed signal
makes it due at once, a doubtful one somewhat earlier, and one that never was right not at all.

A page with another policy than ``value`` has no price. It is due at a fixed *x*: that at which
halving and lengthening its interval are in balance. The interval then stands for the rate.

The precision of a source is that of its host. A signal says nothing new about a page that has
probably changed anyway, so a change is counted for it by the chance that the signal was the reason:
*q / (q + (1 - q) p)*, with the chance *p* of a change without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from lycosa.base.config.refetch_policies import PolicyKind, find_policy
from lycosa.base.config.sections import RefetchSection
from lycosa.base.listing_kind import NOT_LISTED
from lycosa.base.lower_bound import lower_bound
from lycosa.base.model.refetch_cell import rate_in, weight_in
from lycosa.base.model.source_truth import UNIT, SourceTruth
from lycosa.base.model.url_state import History
from lycosa.stages.schedule.refetch_value import chance_of_change, days_until_due

_DAY_S = 86_400.0
MOST_CERTAIN = 0.98
"""The maximum of precision and recall: nothing is certain."""
_PRIOR_RIGHT, _PRIOR_WRONG = 2.0, 1.0  # an unknown source is believed by two thirds
_ADAPTIVE_X = -math.log(1 - math.log(1.5) / math.log(3.0))
"""Where the interval of the adaptive rule keeps its length: *p ln 2 = (1 - p) ln 1.5*."""
_MOST_SILENCE = 0.75  # silence makes an interval at most four times as long
_TRUSTED = 0.8


class Belief(NamedTuple):
    """What signals mean for a page.

    ``wait_s`` is the time between its last fetch and the next one. ``chance`` is that of a change
    by now, without the signals.
    """

    wait_s: float
    chance: float


def precision_of(truth: SourceTruth) -> float:
    """The chance that a signal of a source is right: the mean of its distribution."""
    right, wrong = truth.right / UNIT + _PRIOR_RIGHT, truth.wrong / UNIT + _PRIOR_WRONG
    return min(right / (right + wrong), MOST_CERTAIN)


def recall_of(truth: SourceTruth) -> float:
    """The share of changes that a source tells of, by its lower bound.

    Silence costs freshness where it is believed wrongly, so few findings count for little.
    """
    return min(lower_bound(truth.told / UNIT, truth.missed / UNIT), MOST_CERTAIN)


def is_trusted(truth: SourceTruth) -> bool:
    """Whether a source was right often enough to count as evidence."""
    return lower_bound(truth.right / UNIT, truth.wrong / UNIT) > _TRUSTED


def right_share(truth: SourceTruth, changed: bool, chance: float) -> float:
    """How far a signal was right; ``chance`` is that of a change without it."""
    if not changed:
        return 0.0
    precision = precision_of(truth)
    return precision / (precision + (1 - precision) * min(max(chance, 0.0), 1.0))


def doubt_of(truths: Iterable[SourceTruth]) -> float:
    """The product of *1 - q* of sources that announced a change: 1 without any."""
    return math.prod(1 - precision_of(each) for each in truths)


def judge_signals(
    section: RefetchSection,
    url: str,
    history: History,
    age_s: float,
    signals: Iterable[SourceTruth],
    silence: Iterable[SourceTruth] = (),
    price: float = 0.0,
    listed: int = NOT_LISTED,
) -> Belief:
    """When a page is due of which some sources say that it has changed, and others are silent.

    ``price`` is that of a fetch at its host, 0 that of the settings. ``listed`` is the mark in its
    record.
    ``age_s`` is the time since its last fetch; a negative one, of a clock that was set back, counts
    as 0. ``silence`` are the sources that announced changes of the page before. The wait is never
    shorter than the minimum of the page's policy, and infinite for a page that is not fetched
    again.
    """
    policy = find_policy(section, url, listed)
    if policy.kind is PolicyKind.NEVER or not history.interval_s:
        return Belief(math.inf, 0.0)
    has_value = policy.kind is PolicyKind.VALUE and history.cell and history.observations
    rate, wanted = _by_value(section, history.cell, price) if has_value else _by_interval(history)
    low = policy.shortest_wait(section)
    high = policy.bounds(section)[1] if has_value else float(history.interval_s)
    silent = max((recall_of(each) for each in silence), default=0.0) if has_value else 0.0
    days = (wanted + math.log(doubt_of(signals))) / (rate * (1 - min(silent, _MOST_SILENCE)))
    wait_s = min(max(days * _DAY_S, low), max(high, low))
    return Belief(wait_s, chance_of_change(rate, age_s / _DAY_S))


def _by_interval(history: History) -> tuple[float, float]:
    return _ADAPTIVE_X * _DAY_S / history.interval_s, _ADAPTIVE_X


def _by_value(section: RefetchSection, cell: int, price: float) -> tuple[float, float]:
    """The rate of a page in changes a day, and the *x* at which it is due."""
    rate = rate_in(cell)
    days = days_until_due(rate, weight_in(cell), price or section.price)
    return rate, max(rate * days, -math.log1p(-section.least_chance))
