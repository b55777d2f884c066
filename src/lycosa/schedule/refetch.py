"""When a fetched page is due again: the interval shrinks after a change and grows otherwise.

It follows the idea of Cho and Garcia-Molina (Effective page refresh policies, 2003): fetch in
proportion to the frequency of observed changes, within bounds.
"""

from __future__ import annotations

from lycosa.config.sections import RefetchRule, RefetchSection

_SHRINK = 0.5
_GROW = 1.5


def next_interval(
    section: RefetchSection, interval_s: float, *, changed: bool, is_first: bool
) -> float:
    """Seconds until the page is due again; 0 when pages are not refetched."""
    if section.rule is RefetchRule.OFF:
        return 0.0
    wanted = (
        section.first_s
        if is_first or interval_s <= 0
        else interval_s * (_SHRINK if changed else _GROW)
    )
    return min(max(wanted, section.min_s), section.max_s)
