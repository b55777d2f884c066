"""The error of estimated change rates, by true rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_RATES = (
    ("hours (4 a day and more)", 4, 99),
    ("a day", 0.5, 4),
    ("a week", 1 / 14, 0.5),
    ("a month", 1 / 60, 1 / 14),
    ("half a year", 1 / 365, 1 / 60),
    ("years", 0, 1 / 365),
)
"""Names of intervals, with their least and greatest rate in changes a day."""


def error_lines(rates: Any, known: Any, observations: Any) -> list[str]:
    """A line for each interval, of the pages with two observations or more.

    Arrays of true rates and of estimates, in changes a day, and of how many observations there are.
    """
    off, lines = np.log(known / rates), []
    for name, low, high in _RATES:
        those = (rates >= low) & (rates < high)
        some = those & (observations >= 2)
        if some.any():
            near, bias = np.median(np.abs(off[some])), np.median(off[some])
            lines.append(
                f"  {name:26} {some.sum():6} of {those.sum():6} pages,"
                f" {observations[some].mean():4.1f} observations, median error a factor of"
                f" {math.exp(float(near)):.2f}, bias {math.exp(float(bias)):.2f}"
            )
    return lines
