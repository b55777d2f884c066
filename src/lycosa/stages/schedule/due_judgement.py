"""What a page is worth when its time has come: in which band it waits, or that it is not due yet.

The time of a fetch was decided at the fetch before. Since then the price may have risen or fallen,
and the page may have become due long ago. So it is judged again when it enters the queue of its
host, by the value of a fetch now as a share of the price now. A page with a fixed interval, or with
one that halves and grows, is judged by the time since its last fetch as a share of that interval.
Both shares are 1 when the page is just due.
"""

from __future__ import annotations

import math

from lycosa.base.config.policy_classes import listing_of
from lycosa.base.config.policy_texts import PolicyKind
from lycosa.base.config.refetch_policies import find_policy
from lycosa.base.config.sections import RefetchSection
from lycosa.base.model.due_band import DueBand, DueJudgement, band_of
from lycosa.base.model.refetch_cell import rate_in, weight_in
from lycosa.base.model.url_state import History, UrlState
from lycosa.stages.schedule.refetch_value import PROBED_FROM, fetch_value, floor_of, wanted_days
from lycosa.state.kv.table_records import UrlRecord

_DAY_S = 86_400.0
_ENOUGH = 0.9  # of the price: times are whole seconds, and a price moves a little all the time


def judge_due(
    section: RefetchSection,
    url: str,
    record: UrlRecord,
    price: float,
    now_wall: float,
) -> DueJudgement:
    """The judgement of a page that was fetched before and whose time has come.

    ``price`` is that of a fetch at its host in days (``PriceInForce.of_host``), ``now_wall`` is in
    seconds since 1970.
    """
    history = record.history
    assert history is not None, "a page without a capture is new"
    policy = find_policy(section, url, record.listed)
    age_s = max(now_wall - history.fetched_at, 0.0)
    if listing_of(history.policy):
        # What lists pages is read first; its schedule bounds its share of the turns.
        return DueJudgement(DueBand.FOURFOLD, age_s / max(history.interval_s, 1))
    # Before the second fetch nothing is known of the page's changes. Without a budget `first_s` is
    # kept; with one the page counts as a usual one, or all new pages would exceed it. A page that
    # is gone has intervals that do not depend on its value.
    is_known = bool(history.observations or section.budget)
    has_value = history.cell and is_known and record.state is not UrlState.GONE
    if policy.kind is not PolicyKind.VALUE or not has_value:
        return _judge_by_time(history, age_s)
    low, high = policy.bounds(section)
    if low >= high:  # a fixed interval
        return _judge_by_time(history, age_s)
    worth = _worth(history.cell, price, age_s)
    wanted_s = wanted_days(history.cell, price, floor_of(section, high)) * _DAY_S
    if is_announced(record):
        # It has changed, says another source; how far that is believed is decided by its due time.
        return DueJudgement(band_of(max(worth, 1.0)), worth)
    if wanted_s > PROBED_FROM * high:
        if age_s < _ENOUGH * high:
            return DueJudgement(None, worth, now_wall + high - age_s)
        return DueJudgement(DueBand.PROBE, worth)
    if worth < _ENOUGH:
        # From now, not from the fetch: if the clock was ahead then, that would be years away.
        return DueJudgement(None, worth, now_wall + max(wanted_s, low) - age_s)
    return DueJudgement(band_of(worth), worth)


def is_announced(record: UrlRecord) -> bool:
    """Whether the page is due before its interval, as when a sitemap says that it has changed."""
    history = record.history
    if history is None or not record.due_at or not history.interval_s:
        return False
    # Due times may be ahead of the wall clock, never behind it.
    return record.due_at + 1 < history.fetched_at + history.interval_s


def _judge_by_time(history: History, age_s: float) -> DueJudgement:
    worth = age_s / history.interval_s if history.interval_s > 0 else 1.0
    return DueJudgement(band_of(worth), worth)


def _worth(cell: int, price: float, age_s: float) -> float:
    value = fetch_value(rate_in(cell), weight_in(cell), age_s / _DAY_S)
    return value / price if price > 0 else math.inf
