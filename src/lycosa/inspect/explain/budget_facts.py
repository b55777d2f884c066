"""Facts about the budgets of a URL's site and host."""

from __future__ import annotations

from lycosa.base.config.sections import BudgetSection
from lycosa.inspect.explain.facts import Explanation
from lycosa.inspect.site_budget import SiteBudget
from lycosa.stages.admit.budgets import site_pages_of
from lycosa.stages.admit.linking_sites import is_exact, linking_sites
from lycosa.stages.frontier.visit_state import VisitRecord


def site_facts(answer: Explanation, found: SiteBudget, section: BudgetSection) -> None:
    """The site's numbers, for the budgets that are set."""
    if section.site_pages:
        most = site_pages_of(section, found.linking)
        answer.add_fact("site", found.site)
        answer.add_fact(
            "site_pages",
            found.usage.captures,
            f"{found.usage.captures:,} of at most {most:,} of its site",
        )
        answer.add_fact("site_pages_most", most)
    if section.pages_per_linking_site:
        number = linking_sites(found.linking)
        answer.add_fact(
            "linking_sites",
            number,
            f"{'' if is_exact(found.linking) else 'about '}{number:,} other sites link to its site",
        )
    if section.site_hosts:
        answer.add_fact(
            "site_hosts",
            found.usage.hosts,
            f"{found.usage.hosts:,} hosts of its site were visited, of at most"
            f" {section.site_hosts:,}",
        )


def judged_now(
    answer: Explanation, found: SiteBudget, section: BudgetSection, host: VisitRecord
) -> None:
    """What the budget allows a parked host now; it may have grown since the host was parked."""
    refusal = found.refusal(section, host)
    if refusal is None:
        answer.add_fact(
            "budget_now", "within", "now within the budget, so the host resumes at its next check"
        )
    else:
        answer.add_fact("budget_now", f"{refusal.rule} = {refusal.value}")
