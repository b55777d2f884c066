"""The budget of refetches: a rate, or a share of what the machines could fetch.

    12000/d  500/h  30/m  2/s      fetches in a day, an hour, a minute or a second
    20%                            of the capacity

Without a budget the price of a refetch is constant (``refetch.price``).
"""

from __future__ import annotations

import re

import msgspec

_DAY_S = 86_400
_UNITS = {"s": _DAY_S, "m": 1440, "h": 24, "d": 1}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(?:1\s*)?(s|m|h|d|sec|min|hour|day)")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_MOST_A_DAY = 1e10
_HOW = "write a rate, as 12000/d or 2/s, or a share of the capacity, as 20%"


class RefetchBudget(msgspec.Struct, frozen=True):
    """A budget: fetches ``a_day``, or a ``share`` of the capacity, of which one is 0."""

    a_day: float = 0.0
    share: float = 0.0


def read_budget(text: str) -> RefetchBudget | None:
    """The budget that a text states, ``None`` for an empty one.

    Raises ``ValueError``, which says what to write.
    """
    text = text.strip()
    if not text:
        return None
    if found := _RATE.fullmatch(text):
        a_day = float(found[1]) * _UNITS[found[2][0]]
        if a_day > _MOST_A_DAY:
            raise ValueError(f"{text!r} is more than {_MOST_A_DAY:g} fetches a day")
        budget = RefetchBudget(a_day=a_day)
    elif found := _SHARE.fullmatch(text):
        if float(found[1]) > 100:
            raise ValueError(f"{text!r} is more than all of the capacity")
        budget = RefetchBudget(share=float(found[1]) / 100)
    else:
        raise ValueError(f"{text!r} is no budget; {_HOW}")
    if not budget.a_day and not budget.share:
        raise ValueError(
            f"{text!r} would leave no refetch; write refetch.rule=off for that, or leave the budget"
            " empty for a constant price"
        )
    return budget


def is_capacity_share(text: str) -> bool:
    """Whether a valid text states a share of the capacity."""
    return text.endswith("%") or text.rstrip().endswith("%")


def check_budget(text: str) -> None:
    """Raises ``ValueError`` for a text that states no budget."""
    read_budget(text)
