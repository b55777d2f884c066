"""When a fetched page is due again: by the policy that is for it (``config.refetch_policies``).

This is the one place that decides it. By the adaptive rule the interval shrinks after a change and
grows otherwise. It follows the idea of Cho and Garcia-Molina (Effective page refresh policies,
2003): fetch in proportion to the frequency of observed changes, within bounds. By the rule of value
a page is due when a fetch is worth its price (``schedule.refetch_value``).
"""

from __future__ import annotations

from lycosa.base.config.refetch_policies import PolicyKind, find_policy, policy_book
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.listing_kind import NOT_LISTED
from lycosa.stages.schedule.refetch_value import PROBED_FROM, interval_by_value

_SHRINK = 0.5
_GROW = 1.5
_GROW_GONE = 3.0


def next_interval(
    section: RefetchSection,
    url: str,
    interval_s: float,
    *,
    changed: bool,
    is_first: bool,
    cell: int = 0,
    look: float | None = None,
    listed: int = NOT_LISTED,
) -> float:
    """Seconds until the page is due again; 0 when it is not fetched again.

    The time of ``every`` has no bounds. ``cell`` is that of the page's change rate and weight
    (``base.model.refetch_cell``). A page without one, as in formats that do not store it, has the
    adaptive interval instead of that by its value. ``look`` is the price by which the page is to be
    looked at; without it ``refetch.price`` counts, and ``refetch.first_s`` before the second fetch.
    ``listed`` is the mark in the page's record.
    """
    policy = find_policy(section, url, listed)
    if policy.kind is PolicyKind.NEVER:
        return 0.0
    if policy.kind is PolicyKind.EVERY:
        return policy.seconds
    if policy.kind is PolicyKind.VALUE and cell and (look is not None or not is_first):
        return interval_by_value(section, cell, policy.bounds(section), look)
    wanted = (
        section.first_s
        if is_first or interval_s <= 0
        else interval_s * (_SHRINK if changed else _GROW)
    )
    low, high = policy.bounds(section)
    return min(max(wanted, low), high)


def kept_interval(
    section: RefetchSection,
    url: str,
    interval_s: float,
    cell: int = 0,
    look: float | None = None,
    listed: int = NOT_LISTED,
) -> float:
    """The interval of a page under rules that changed since its last fetch; 0 for none.

    What was learned of its changes stays, as far as the policy has room for it. The weight of a
    policy is in the cell, so it counts from the next fetch on.
    """
    policy = find_policy(section, url, listed)
    if policy.kind is PolicyKind.NEVER:
        return 0.0
    if policy.kind is PolicyKind.EVERY:
        return policy.seconds
    low, high = policy.bounds(section)
    if policy.kind is PolicyKind.VALUE and cell:
        return interval_by_value(section, cell, policy.bounds(section), look)
    return min(max(interval_s or section.first_s, low), high)


def gone_interval(
    section: RefetchSection,
    url: str,
    interval_s: float,
    *,
    is_first: bool,
    listed: int = NOT_LISTED,
) -> float:
    """Seconds until a page that is gone is looked at again; 0 when it is not.

    ``interval_s`` is the interval before this look, unless the page is gone since this fetch
    (``is_first``). The intervals grow, so a page that stays away costs few requests.
    """
    if not next_interval(section, url, interval_s, changed=False, is_first=True, listed=listed):
        return 0.0
    wanted = section.gone_first_s if is_first else interval_s * _GROW_GONE
    return wanted if 0 < wanted <= section.gone_max_s else 0.0


def longest_interval(section: RefetchSection) -> float:
    """The longest time in seconds after which a page may be due again."""
    policies = (rule.policy for rule in policy_book(section).rules)
    longest_s = max(
        section.max_s,
        max((max(each.seconds, *each.bounds(section)) for each in policies), default=0.0),
    )
    # By its value a page may be due later than its maximum.
    return max(longest_s * (PROBED_FROM if uses_value(section) else 1.0), section.gone_max_s)


def uses_value(section: RefetchSection) -> bool:
    """Whether any page may be refetched by its value."""
    if section.rule is RefetchRule.OFF:
        return False
    policies = (rule.policy for rule in policy_book(section).rules)
    return section.rule is RefetchRule.VALUE or any(
        each.kind is PolicyKind.VALUE for each in policies
    )
