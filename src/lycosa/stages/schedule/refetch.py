"""When a fetched page is due again: the one place that decides it.

By the adaptive rule the interval shrinks after a change and grows otherwise. It follows the idea of
Cho and Garcia-Molina (Effective page refresh policies, 2003): fetch in proportion to the frequency
of observed changes, within bounds. By the rule of value a page is due when a fetch is worth its
price (``schedule.refetch_value``).
"""

from __future__ import annotations

from lycosa.base.config.fixed_intervals import find_interval, read_intervals
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.urls.identity import host_of, target_of
from lycosa.stages.schedule.refetch_value import interval_by_value

_SHRINK = 0.5
_GROW = 1.5


def next_interval(
    section: RefetchSection,
    url: str,
    interval_s: float,
    *,
    changed: bool,
    is_first: bool,
    cell: int = 0,
) -> float:
    """Seconds until the page is due again; 0 when pages are not refetched.

    ``cell`` is that of its change rate and weight (``base.model.refetch_cell``). A page without
    one, as in formats that do not store it, has the adaptive interval. A fixed interval of the
    operator has no bounds.
    """
    if section.rule is RefetchRule.OFF:
        return 0.0
    if section.intervals:
        fixed = find_interval(section.intervals, host_of(url), target_of(url))
        if fixed is not None:
            return fixed.seconds
    if section.rule is RefetchRule.VALUE and cell and not is_first:
        return interval_by_value(section, cell)
    wanted = (
        section.first_s
        if is_first or interval_s <= 0
        else interval_s * (_SHRINK if changed else _GROW)
    )
    return min(max(wanted, section.min_s), section.max_s)


def longest_interval(section: RefetchSection) -> float:
    """The longest time in seconds after which a page may be due again."""
    fixed = (each.seconds for each in read_intervals(section.intervals))
    return max(section.max_s, max(fixed, default=0.0))
