"""The class of bounds of a refetch policy, a number that the record of a page keeps."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from lycosa.base.config.policy_texts import PolicyKind, RefetchPolicy

BY_RULE_CLASS = 0
NEVER_CLASS, ADAPTIVE_CLASS, VALUE_CLASS = 0xF1, 0xF3, 0xF4
_STEPS_S = (
    0.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
    7_776_000.0,
    31_536_000.0,
)


def policy_class(policy: RefetchPolicy | None) -> int:
    """The number (u8) that the record of a page keeps of its policy (``History.policy``).

    Pages of one class share a grid of the refetch price. The number has its meaning in itself, so
    it stays right when the rules change:

    * 0: no rule is for the page (``None``): ``refetch.rule``, and the bounds of the section;
    * 0xF1 ``never``, 0xF3 ``adaptive``, whatever their bounds: the price does not move them; 0xF4
      ``value`` with the bounds of the section;
    * ``every``: a number whose upper four bits are more than its lower ones, which are not 0. The
      91 such numbers stand for times from a second to ten years (``promised_s``);
    * else ``value`` with other bounds: the step of ``min`` in the upper four bits, that of
      ``max`` in the lower ones (``class_bounds``).
    """
    if policy is None:
        return BY_RULE_CLASS
    if policy.kind is PolicyKind.EVERY:
        return _EVERY_CLASSES[_nearest(_PROMISED_S, policy.seconds)]
    if policy.kind is PolicyKind.NEVER:
        return NEVER_CLASS
    if policy.kind is PolicyKind.ADAPTIVE:
        return ADAPTIVE_CLASS
    low, high = min(_step(policy.min_s), 14), _step(policy.max_s)
    if low and high and high < low:
        high = low
    return (low << 4 | high) or VALUE_CLASS


def class_bounds(number: int) -> tuple[float, float]:
    """The bounds in seconds that a class of ``value`` stands for; 0 is that of the section.

    They are the nearest of 15 steps from a minute to a year: the plan of a price counts with them,
    and each page is scheduled by the exact bounds of its rule.
    """
    if number >= NEVER_CLASS or number in _PROMISES:
        return 0.0, 0.0
    return _STEPS_S[number >> 4], _STEPS_S[number & 15]


def promised_s(number: int) -> float:
    """The time in seconds of a class of ``every``, within a fourth; 0 for other classes.

    The usual times, as 15 minutes or a week, are exact.
    """
    return _PROMISES.get(number, 0.0)


def _step(seconds: float) -> int:
    return 1 + _nearest(_STEPS_S[1:], seconds) if seconds else 0


def _nearest(steps: Sequence[float], seconds: float) -> int:
    return min(range(len(steps)), key=lambda step: abs(log(steps[step] / seconds)))


# The usual times are exact. The order of the numbers is that of the times, and never changes.
_PROMISED_S = tuple(
    number * unit
    for unit, numbers in (
        (1.0, (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50)),
        (60.0, (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 45, 50)),
        (3600.0, (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 16, 18, 20)),
        (86_400.0, (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 21, 25, 28, 30, 35)),
        (86_400.0, (42, 50, 60, 70, 90, 105, 120, 150, 180, 210, 240, 300, 365, 450, 540, 730)),
        (86_400.0, (1095, 1460, 1825, 2555, 3650)),
    )
    for number in numbers
)
_EVERY_CLASSES = tuple(
    upper << 4 | lower for upper in range(2, len(_STEPS_S) - 1) for lower in range(1, upper)
)
_PROMISES = dict(zip(_EVERY_CLASSES, _PROMISED_S, strict=True))
