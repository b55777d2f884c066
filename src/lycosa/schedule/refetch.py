"""When a fetched page is due again: the interval shrinks when it changed and grows when it did not.

The additive-increase idea behind it is Cho and Garcia-Molina's (Effective page refresh policies,
2003): visit in proportion to how often change is seen, within bounds.
"""

from __future__ import annotations

from lycosa.config.sections import RefetchRule, RefetchSection

_SHRINK = 0.5
_GROW = 1.5


def next_interval(
    section: RefetchSection, interval_s: float, *, changed: bool, is_first: bool
) -> float:
    """Seconds until the page is due again; 0 when pages are not fetched again."""
    if section.rule is RefetchRule.OFF:
        return 0.0
    wanted = (
        section.first_s
        if is_first or interval_s <= 0
        else interval_s * (_SHRINK if changed else _GROW)
    )
    return min(max(wanted, section.min_s), section.max_s)
