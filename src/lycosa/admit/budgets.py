"""What one host or site may take of the crawl, as pure functions of what it took.

A site's pages may be bounded by its standing (IRLbot's STAR): ``site_pages`` for everyone, and more
for each distinct other site that links to it. Over budget is not refused for ever: the host is
parked and judged again after a wait that doubles (IRLbot's BEAST), so a raised budget or a site
that others link to by then brings its URLs back.
"""

from __future__ import annotations

from lycosa.admit.linking import is_exact, linking_sites
from lycosa.admit.refusal import Refusal
from lycosa.config.sections import BudgetSection
from lycosa.model.usage import Usage
from lycosa.reasons import Reason

FREE_DISCOVERIES = 10_000


def over_budget(
    section: BudgetSection, host: Usage, site: Usage, linking: bytes = b"", has_place: bool = True
) -> Refusal | None:
    """Whether nothing more may be fetched from a host now, and which of its budgets or its site's
    says so.

    ``linking`` is the record of the sites that link to its site (module ``linking``). ``has_place``
    says that the host is one of those that ``site_hosts`` allows its site; a host that gave pages
    already does not need one.
    """
    if section.site_hosts and not has_place and not host.pages and site.hosts >= section.site_hosts:
        return Refusal(
            Reason.SITE_HOST_BUDGET, "budgets.site_hosts", f"{site.hosts} of {section.site_hosts}"
        )
    if section.site_pages and site.pages >= section.site_pages:
        most = site_pages_of(section, linking)
        if site.pages >= most:
            return Refusal(
                Reason.SITE_PAGE_BUDGET,
                "budgets.site_pages",
                f"{site.pages} of {most}{_earned(section, linking)}",
            )
    checks = (
        (Reason.HOST_PAGE_BUDGET, "budgets.host_pages", host.pages, section.host_pages),
        (Reason.HOST_BYTE_BUDGET, "budgets.host_bytes", host.bytes, section.host_bytes),
        (Reason.SITE_BYTE_BUDGET, "budgets.site_bytes", site.bytes, section.site_bytes),
        (Reason.HOST_TIME_BUDGET, "budgets.host_time_s", host.time_s, section.host_time_s),
    )
    for reason, rule, used, limit in checks:
        if limit and used >= limit:
            return Refusal(reason, rule, f"{used:.15g} of {limit:.15g}")
    return None


def site_pages_of(section: BudgetSection, linking: bytes) -> int:
    """Pages that a site may have, given the record of the sites that link to it; 0 is no limit.
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
    """How a limit came about, for people."""
    if not section.pages_per_linking_site:
        return ""
    number = f"{'' if is_exact(linking) else 'about '}{linking_sites(linking)}"
    most = f", at most {section.site_pages_max}" if section.site_pages_max else ""
    return (
        f" ({section.site_pages} and {section.pages_per_linking_site} for each of {number} linking"
        f" sites{most})"
    )


def over_discovery(section: BudgetSection, host: Usage) -> Refusal | None:
    """Whether a host has brought more new URLs than its fetched pages justify: 10,000 and
    ``discovery_per_page`` for each page.
    """
    limit = FREE_DISCOVERIES + section.discovery_per_page * host.pages
    if section.discovery_per_page and host.discovered > limit:
        return Refusal(
            Reason.DISCOVERY_RATE,
            "budgets.discovery_per_page",
            f"{host.discovered} URLs from {host.pages} pages, {limit} allowed",
        )
    return None
