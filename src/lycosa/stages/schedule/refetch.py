"""When a fetched page is due again: the interval shrinks after a change and grows otherwise.

It follows the idea of Cho and Garcia-Molina (Effective page refresh policies, 2003): fetch in
proportion to the frequency of observed changes, within bounds.
"""

from __future__ import annotations

from lycosa.base.config.fixed_intervals import find_interval, read_intervals
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.urls.identity import host_of, target_of

_SHRINK = 0.5
_GROW = 1.5
_GROW_GONE = 3.0


def next_interval(
    section: RefetchSection, url: str, interval_s: float, *, changed: bool, is_first: bool
) -> float:
    """Seconds until the page is due again; 0 when pages are not refetched.

    A fixed interval of the operator has no bounds.
    """
    if section.rule is RefetchRule.OFF:
        return 0.0
    if section.intervals:
        fixed = find_interval(section.intervals, host_of(url), target_of(url))
        if fixed is not None:
            return fixed.seconds
    wanted = (
        section.first_s
        if is_first or interval_s <= 0
        else interval_s * (_SHRINK if changed else _GROW)
    )
    return min(max(wanted, section.min_s), section.max_s)


def gone_interval(section: RefetchSection, url: str, interval_s: float, *, is_first: bool) -> float:
    """Seconds until a page that is gone is looked at again; 0 when it is not.

    ``interval_s`` is the interval before this look, unless the page is gone since this fetch
    (``is_first``). The intervals grow, so a page that stays away costs few requests.
    """
    if not next_interval(section, url, interval_s, changed=False, is_first=True):
        return 0.0
    wanted = section.gone_first_s if is_first else interval_s * _GROW_GONE
    return wanted if 0 < wanted <= section.gone_max_s else 0.0


def longest_interval(section: RefetchSection) -> float:
    """The longest time in seconds after which a page may be due again."""
    fixed = (each.seconds for each in read_intervals(section.intervals))
    return max(section.max_s, section.gone_max_s, max(fixed, default=0.0))
