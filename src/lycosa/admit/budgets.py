"""What one host or site may take of the crawl, as pure functions of what it took.

Over budget is not refused for ever: the host is parked and looked at again after a wait that doubles (IRLbot's BEAST), so a raised budget
or a host that earns more pages brings its URLs back.
"""

from __future__ import annotations

from lycosa.admit.refusal import Refusal
from lycosa.config import BudgetSection
from lycosa.model.usage import Usage
from lycosa.reasons import Reason

FREE_DISCOVERIES = 10_000
LONGEST_PARK_S = 86_400.0


def over_budget(section: BudgetSection, host: Usage, site: Usage) -> Refusal | None:
    """Whether nothing more may be fetched from a host now, and which of its budgets or its site's says so."""
    checks = (
        (Reason.HOST_PAGE_BUDGET, "budgets.host_pages", host.pages, section.host_pages),
        (Reason.SITE_PAGE_BUDGET, "budgets.site_pages", site.pages, section.site_pages),
        (Reason.HOST_BYTE_BUDGET, "budgets.host_bytes", host.bytes, section.host_bytes),
        (Reason.SITE_BYTE_BUDGET, "budgets.site_bytes", site.bytes, section.site_bytes),
        (Reason.HOST_TIME_BUDGET, "budgets.host_time_s", host.time_s, section.host_time_s),
    )
    for reason, rule, used, limit in checks:
        if limit and used >= limit:
            return Refusal(reason, rule, f"{used:.15g} of {limit:.15g}")
    return None


def over_discovery(section: BudgetSection, host: Usage) -> Refusal | None:
    """Whether a host has brought more new URLs than its fetched pages justify: 10,000 and ``discovery_per_page`` for each page."""
    limit = FREE_DISCOVERIES + section.discovery_per_page * host.pages
    if section.discovery_per_page and host.discovered > limit:
        return Refusal(
            Reason.DISCOVERY_RATE, "budgets.discovery_per_page", f"{host.discovered} URLs from {host.pages} pages, {limit} allowed"
        )
    return None


def park_s(section: BudgetSection, times: int) -> float:
    """Seconds to park a host that was parked ``times`` times before: doubling from ``section.park_s``, at most a day."""
    return min(section.park_s * 2.0 ** min(max(times, 0), 64), LONGEST_PARK_S)
