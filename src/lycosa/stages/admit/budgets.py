"""The budgets of hosts and sites, as pure functions of what they used.

The page budget of a site may depend on its standing (IRLbot's STAR): ``site_pages`` for every site,
and more for each distinct other site that links to it. A host over budget is not refused for good.
It is parked and judged again after a wait that doubles (IRLbot's BEAST), so its URLs return after
the budget was raised or other sites have linked to its site.
"""

from __future__ import annotations

from lycosa.base.config.sections import BudgetSection
from lycosa.base.model.host_memory import Usage
from lycosa.base.reasons import Reason
from lycosa.stages.admit.linking_sites import is_exact, linking_sites
from lycosa.stages.admit.refusal import Refusal

FREE_DISCOVERIES = 10_000


def over_budget(
    section: BudgetSection, host: Usage, site: Usage, linking: bytes = b"", has_place: bool = True
) -> Refusal | None:
    """Why a host is over budget now, or ``None``.

    ``linking`` is the record of the sites that link to its site (module ``linking_sites``).
    ``has_place`` says that the host is one of those that ``site_hosts`` allows for its site; a host
    that has already given pages needs no place.
    """
    # Only for a host that gave no page yet: others have their place already.
    if (
        section.site_hosts
        and not has_place
        and not host.captures
        and site.hosts >= section.site_hosts
    ):
        return Refusal(
            Reason.SITE_HOST_BUDGET, "budgets.site_hosts", f"{site.hosts} of {section.site_hosts}"
        )
    if section.site_pages and site.captures >= section.site_pages:
        # computed only here, because estimating the number of linking sites is expensive
        most = site_pages_of(section, linking)
        if site.captures >= most:
            return Refusal(
                Reason.SITE_PAGE_BUDGET,
                "budgets.site_pages",
                f"{site.captures} of {most}{_earned(section, linking)}",
            )
    checks = (
        (Reason.HOST_PAGE_BUDGET, "budgets.host_pages", host.captures, section.host_pages),
        (Reason.HOST_BYTE_BUDGET, "budgets.host_bytes", host.bytes, section.host_bytes),
        (Reason.SITE_BYTE_BUDGET, "budgets.site_bytes", site.bytes, section.site_bytes),
        (Reason.HOST_TIME_BUDGET, "budgets.host_time_s", host.time_s, section.host_time_s),
    )
    for reason, rule, used, limit in checks:
        if limit and used >= limit:
            return Refusal(reason, rule, f"{used:.15g} of {limit:.15g}")
    return None


def site_pages_of(section: BudgetSection, linking: bytes) -> int:
    """The page budget of a site, given the record of the sites that link to it; 0 is no limit.

    Never less than ``site_pages``.
    """
    if not section.site_pages or not section.pages_per_linking_site:
        return section.site_pages
    earned = section.site_pages + section.pages_per_linking_site * linking_sites(linking)
    return (
        max(section.site_pages, min(earned, section.site_pages_max))
        if section.site_pages_max
        else earned
    )


def _earned(section: BudgetSection, linking: bytes) -> str:
    """A description of how a site's page budget is computed."""
    if not section.pages_per_linking_site:
        return ""
    number = f"{'' if is_exact(linking) else 'about '}{linking_sites(linking)}"
    most = f", at most {section.site_pages_max}" if section.site_pages_max else ""
    return (
        f" ({section.site_pages} and {section.pages_per_linking_site} for each of {number} linking"
        f" sites{most})"
    )


def over_discovery(section: BudgetSection, host: Usage) -> Refusal | None:
    """Why a host has brought too many new URLs for its fetched pages, or ``None``.

    It may bring 10,000, and ``discovery_per_page`` more for each page.
    """
    limit = FREE_DISCOVERIES + section.discovery_per_page * host.captures
    if section.discovery_per_page and host.discovered > limit:
        return Refusal(
            Reason.DISCOVERY_RATE,
            "budgets.discovery_per_page",
            f"{host.discovered} URLs from {host.captures} captures, {limit} allowed",
        )
    return None
