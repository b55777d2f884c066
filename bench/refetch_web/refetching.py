"""One rule on all pages of a web, in steps of an hour."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from bench.refetch_web.copies import WebCopies
from bench.refetch_web.made_web import MadeWeb
from bench.refetch_web.rules import PROBE, Rule
from bench.refetch_web.turns import Turns

STEP = 1 / 24
_FIRST_ROUND = 5.0  # days before the start, in which each page was fetched once
_PROBE_GAIN, _MOST_SAVED = 0.05 / 0.95, 100.0


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
    everything = np.arange(web.pages)
    first = -chance.uniform(0, _FIRST_ROUND, web.pages)
    copies.fetch(everything, first)
    copies.freshness_since(0.0)
    due = rule.plan(everything, first, np.full(web.pages, np.inf), np.zeros(web.pages, bool))
    turns = Turns(web, STEP, budget if rule.has_budget else np.inf)
    waiting = probes = np.zeros(0, np.int64)
    saved = 0.0
    band, entered = np.zeros(web.pages, np.int64), np.zeros(web.pages)
    windows, before, fetches = [], 0.0, 0
    pending = sorted(edges)
    for number in range(1, round(until / STEP) + 1):
        now = number * STEP
        rule.step(now)
        ready = np.flatnonzero(due <= now)
        if len(ready):
            at, later = rule.judge(ready, now, now - copies.fetched[ready])
            is_early = at < 0
            due[ready[is_early]] = later[is_early]
            ready, at = ready[~is_early], at[~is_early]
            band[ready], entered[ready] = at, due[ready]
            due[ready] = np.inf
            probes = np.concatenate([probes, ready[at == PROBE]])
            waiting = np.concatenate([waiting, ready[at != PROBE]])
        if len(probes) and saved >= 1:
            order = np.argsort(copies.fetched[probes], kind="stable")
            taken, probes = np.split(probes[order], [int(saved)])
            entered[taken] = now
            saved -= len(taken)
            waiting = np.concatenate([waiting, taken])
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
            # As ``frontier.probe_line``: probes have at most their share of the refetches.
            others = np.count_nonzero(band[chosen] != PROBE)
            saved = min(saved + others * _PROBE_GAIN, _MOST_SAVED)
        if pending and now >= pending[0] - STEP / 2:
            pending.pop(0)
            fresh, age = copies.freshness_since(now)
            windows.append(Window(before, now, fresh, age, fetches / (now - before), len(waiting)))
            before, fetches = now, 0
    return windows
