"""The lower bound of a share by what was counted so far: what few cases may say at most.

One rule for all decisions that wait until enough was seen: whether the dates of a host are trusted,
whether pages of a pattern are near copies, whether validators hide changes. Of a share with the
prior Beta(*p*, *p*), after *y* cases for it and *n* against it, the bound is the value that
Beta(*p + y*, *p + n*) exceeds with a chance of nine in ten. Without a case for it the bound is 0.

The prior is uniform (*p* = 1) where nothing is known before. For a rare share it is that of
Jeffreys (*p* = 1/2), whose bound is nearly that of Wilson's interval (Brown, Cai and DasGupta,
Interval estimation for a binomial proportion, 2001): a uniform prior would add half a case.

The distribution function is a continued fraction (DLMF 8.17.22), evaluated by Lentz's method, and
inverted by Newton's method within a bracket. Values are cached, for counts in eighths.
"""

from __future__ import annotations

import math
from functools import lru_cache

UNIFORM, JEFFREYS = 1.0, 0.5
_SHARE = 0.1  # the chance that the true share is below the bound
_STEP = 8  # counts are rounded to so many parts of one: decayed counts would hardly ever repeat
_CACHED = 1 << 14
_TENTH = 1.2816  # standard deviations to the lower tenth of a normal distribution
_TINY, _EXACT, _TERMS, _ROUNDS = 1e-30, 1e-12, 400, 60


def lower_bound(yes: float, no: float, prior: float = UNIFORM) -> float:
    """The share that is exceeded with a chance of nine in ten.

    After so many cases for it and against it, which may be fractions.
    """
    return _bound(round(yes * _STEP), round(no * _STEP), prior)


@lru_cache(_CACHED)
def _bound(yes: int, no: int, prior: float) -> float:
    if yes <= 0:
        return 0.0
    a, b = yes / _STEP + prior, no / _STEP + prior
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    mean = a / (a + b)
    low, high = 0.0, 1.0
    at = mean - _TENTH * math.sqrt(mean * (1 - mean) / (a + b + 1))
    for _ in range(_ROUNDS):
        if not low < at < high:
            at = (low + high) / 2  # Newton's step left the bracket
        density = math.exp(scale + (a - 1) * math.log(at) + (b - 1) * math.log1p(-at))
        excess = _distribution(a, b, at, density) - _SHARE
        if excess < 0:
            low = at
        else:
            high = at
        step = excess / density if density > 0 else math.inf
        if abs(step) < _EXACT:
            break
        at -= step
    return at


def _distribution(a: float, b: float, x: float, density: float) -> float:
    """The distribution function of Beta(a, b), whose density at *x* is given."""
    factor = density * x * (1 - x)
    # The fraction converges fast on one side of the mean; the other side is its mirror image.
    if x < (a + 1) / (a + b + 2):
        return factor * _fraction(a, b, x) / a
    return 1 - factor * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    upper, lower = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = lower
    for m in range(1, _TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            lower = 1 / _not_zero(1 + term * lower)
            upper = _not_zero(1 + term / upper)
            change = upper * lower
            value *= change
        if abs(change - 1) < _EXACT:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
