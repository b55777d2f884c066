"""At what rate a host is crawled that refuses some requests: ``python -m bench.back_off [--days
7]``.

One host at a time, in virtual time: requests of 50 ms, the default settings, ``politeness.delay``
deciding every pause. Refusals are 503 without Retry-After. Each line is a rule: a good answer
counts towards recovery each time (the rule of the crawler), or only each fifth or twentieth in a
row, or never. Printed are good answers, as a share of those of a host that never refuses; for hosts
that limit the rate by a bucket of tokens, as a share of what the bucket permits; and the number of
requests.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.model.host_memory import Pace
from lycosa.stages.politeness.delay import delay_s, pace_after_request

Refuses = Callable[[int, float], bool]
"""Whether the host refuses, by the number of the request and its time."""

_SECTION = PolitenessSection()
_EXCHANGE_S = 0.05
_DAY_S = 86400.0
_START = 1_750_000_000.0
_RULES = {1: "each good answer", 5: "each 5th in a row", 20: "each 20th in a row", 0: "none"}


class Bucket:
    """A limiter: so many tokens a minute, at most ``burst`` at once, a request without a token
    is refused.
    """

    def __init__(self, per_minute: float, burst: float) -> None:
        self._per_s, self._burst = per_minute / 60, burst
        self._tokens, self._filled = burst, 0.0

    def __call__(self, number: int, at: float) -> bool:
        self._tokens, self._filled = (
            min(self._burst, self._tokens + (at - self._filled) * self._per_s),
            at,
        )
        refuses = self._tokens < 1
        self._tokens -= not refuses
        return refuses


def by_chance(share: float) -> Refuses:
    chance = random.Random(1)
    return lambda *_: chance.random() < share


def crawl(refuses: Refuses, each: int, span_s: float) -> tuple[int, int]:
    """Good answers and requests in ``span_s``, when each ``each``-th good answer in a row counts
    towards recovery; 0 is none.
    """
    pace, now, good, requests, in_a_row = Pace(), 0.0, 0, 0, 0
    chance = random.Random(2)
    while now < span_s:
        requests += 1
        now += _EXCHANGE_S
        if refuses(requests, now):
            in_a_row = 0
            pace = pace_after_request(pace, _SECTION, 503, "", _EXCHANGE_S, _START + now)
        else:
            good, in_a_row = good + 1, in_a_row + 1
            counts = each and in_a_row % each == 0
            pace = pace_after_request(
                pace, _SECTION, 200 if counts else 500, "", _EXCHANGE_S, _START + now
            )
        now += delay_s(pace, _SECTION, _START + now, chance).seconds
    return good, requests


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=float, default=7.0)
    span_s = parser.parse_args().days * _DAY_S
    polite, _ = crawl(lambda *_: False, 1, span_s)
    print(f"never refuses: {polite:,} pages in {span_s / _DAY_S:g} days")
    hosts: dict[str, Callable[[], Refuses]] = {
        "0.5 %": lambda: by_chance(0.005),
        "5 %": lambda: by_chance(0.05),
        "20 %": lambda: by_chance(0.2),
        "every second": lambda: lambda number, _: number % 2 == 0,
        "half, by chance": lambda: by_chance(0.5),
        "80 %": lambda: by_chance(0.8),
        "always": lambda: lambda *_: True,
    }
    buckets = {
        f"{per_minute} a minute, {burst} at once": (per_minute, burst)
        for per_minute, burst in ((5, 5), (20, 10), (30, 1))
    }
    for each, rule in _RULES.items():
        print(f"what counts: {rule}")
        for name, make in hosts.items():
            good, requests = crawl(make(), each, span_s)
            print(
                f"  refuses {name}: {good / polite:.2%} of the polite rate, {requests:,} requests"
            )
        for name, (per_minute, burst) in buckets.items():
            good, requests = crawl(Bucket(per_minute, burst), each, span_s)
            print(
                f"  permits {name}: {good / (per_minute * span_s / 60):.1%} of what it permits,"
                f" {requests:,} requests"
            )


if __name__ == "__main__":
    main()
