"""One rule on all pages of a web, in steps of an hour."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from bench.refetch_web.copies import WebCopies
from bench.refetch_web.made_web import MadeWeb
from bench.refetch_web.rules import Rule
from bench.refetch_web.turns import Turns

STEP = 1 / 24
_FIRST_ROUND = 5.0  # days in which pages are found


class Window(NamedTuple):
    """What a rule gave between two times: weighted freshness, weighted age, fetches a day."""

    since: float
    until: float
    freshness: float
    age: float
    fetches: float
    waiting: int


def run_rule(
    web: MadeWeb, rule: Rule, budget: float, until: float, edges: list[float], seed: int
) -> list[Window]:
    """The windows between the times ``edges``, of which the last is the end."""
    chance = np.random.default_rng([seed, 3])
    copies = WebCopies(web, seed)
    due = chance.uniform(0, _FIRST_ROUND, web.pages)
    turns = Turns(web, STEP, budget if rule.has_budget else np.inf)
    waiting = np.zeros(0, np.int64)
    band, entered = np.zeros(web.pages, np.int64), np.zeros(web.pages)
    windows, before, fetches = [], 0.0, 0
    pending = sorted(edges)
    for number in range(1, round(until / STEP) + 1):
        now = number * STEP
        rule.step(now)
        ready = np.flatnonzero(due <= now)
        if len(ready):
            fetched = copies.fetched[ready]
            is_new = np.isinf(fetched)
            if is_new.any():
                new = ready[is_new]
                band[new], entered[new] = 0, due[new]
                due[new] = np.inf
                waiting = np.concatenate([waiting, new])
            old = ready[~is_new]
            if len(old):
                at, later = rule.judge(old, now, now - fetched[~is_new])
                is_early = at < 0
                due[old[is_early]] = later[is_early]
                old, at = old[~is_early], at[~is_early]
                band[old], entered[old] = at, due[old]
                due[old] = np.inf
                waiting = np.concatenate([waiting, old])
        if len(waiting):
            places = turns.choose(waiting, band[waiting], entered[waiting])
            chosen = waiting[places]
            is_left = np.ones(len(waiting), bool)
            is_left[places] = False
            waiting = waiting[is_left]
            was = copies.fetched[chosen]
            # A page that waits for its turn has it at any time of the step.
            at = np.maximum(entered[chosen], now - STEP * chance.random(len(chosen)))
            at = np.maximum(at, now - STEP)
            changed = copies.fetch(chosen, at)
            due[chosen] = rule.plan(chosen, at, at - was, changed)
            fetches += len(chosen)
        if pending and now >= pending[0] - STEP / 2:
            pending.pop(0)
            fresh, age = copies.freshness_since(now)
            windows.append(
                Window(before, now, fresh, age, fetches / (now - before), len(waiting))
            )
            before, fetches = now, 0
    return windows
