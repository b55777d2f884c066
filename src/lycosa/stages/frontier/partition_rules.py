"""The rules of a crawl that a partition applies; each is a pure function of the settings."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.config.sections import ColdSection, CopiesSection, RefetchSection, RenderSection
from lycosa.base.model.host_memory import Usage
from lycosa.stages.frontier.change_signals import ChangeSignals
from lycosa.stages.frontier.entry_bands import JudgePage, judge_as_due
from lycosa.stages.frontier.policy_walk import KeptInterval
from lycosa.stages.frontier.ranking import Prioritize, by_importance


class FrontierRules(msgspec.Struct, frozen=True):
    """The rules, as functions.

    ``over_discovery``: whether a host has contributed more new URLs than its budget allows.
    ``prioritize``: the priority of a URL. ``forward``: when a page is due that has changed
    according to signals. ``kept_interval``: the interval of a page after a change of policies.
    ``look_at``: the price by which the next look at a page of a host is scheduled, by its hash.
    ``host_prices`` are the prices of hosts that have too few turns, which the partition finds if
    it ``has_host_prices``: if any page is refetched by its value.
    ``judge``: what a page is worth whose time has come; without it there are no bands of due pages,
    as in formats that have none. ``copies``: what is set back because pages like it were near
    copies. ``cold``: which records go to cold files.
    ``speculative_share``: of a host's captures, what speculative URLs may get. ``render``: the
    bounds of a page that is rendered.
    """

    over_discovery: Callable[[Usage], bool] = lambda _: False
    prioritize: Prioritize = by_importance
    forward: ChangeSignals = ChangeSignals(RefetchSection())
    kept_interval: KeptInterval = lambda _section, _url, interval_s, *_: interval_s
    look_at: Callable[[bytes], float | None] = lambda _: None
    host_prices: dict[bytes, float] = {}
    has_host_prices: Callable[[], bool] = lambda: False
    judge: JudgePage | None = judge_as_due
    copies: CopiesSection = CopiesSection()
    cold: ColdSection = ColdSection()
    speculative_share: float = 0.05
    render: RenderSection = RenderSection()
