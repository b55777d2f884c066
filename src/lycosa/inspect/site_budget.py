"""What the budgets of a site and its hosts say now, from the committed state of the partition
that owns it.
"""

from __future__ import annotations

import msgspec

from lycosa.admit.budgets import over_budget, site_pages_of
from lycosa.admit.linking_sites import is_exact, linking_sites
from lycosa.admit.refusal import Refusal
from lycosa.config.sections import BudgetSection
from lycosa.frontier.visit_state import VisitRecord
from lycosa.inspect.explain.facts import Explanation
from lycosa.inspect.reader import TableView
from lycosa.kv.records import linking_key, site_key
from lycosa.model.usage import Usage

_USAGE = msgspec.msgpack.Decoder(Usage)


class SiteBudget(msgspec.Struct, frozen=True):
    """A site, what it took, and the record of the sites that link to it."""

    site: str
    usage: Usage
    linking: bytes

    def refusal(self, section: BudgetSection, host: VisitRecord) -> Refusal | None:
        """Why nothing more would be fetched from one of its hosts now, or ``None``."""
        return over_budget(section, host.usage, self.usage, self.linking, host.has_place)


def site_budget(view: TableView, site: str) -> SiteBudget:
    """Reads what is kept of a site."""
    value = view.get(site_key(site))
    return SiteBudget(
        site,
        _USAGE.decode(value) if value is not None else Usage(),
        view.get(linking_key(site)) or b"",
    )


def site_facts(answer: Explanation, found: SiteBudget, section: BudgetSection) -> None:
    """The site's numbers, as far as a budget is set that they matter for."""
    if section.site_pages:
        most = site_pages_of(section, found.linking)
        answer.add_fact("site", found.site)
        answer.add_fact(
            "site_pages",
            found.usage.pages,
            f"{found.usage.pages:,} of {most:,} that its site may have",
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
            f"{found.usage.hosts:,} hosts of its site were visited, of {section.site_hosts:,} that"
            " may be",
        )


def judged_now(
    answer: Explanation, found: SiteBudget, section: BudgetSection, host: VisitRecord
) -> None:
    """What the budget would say to a parked host now: it may have grown meanwhile."""
    refusal = found.refusal(section, host)
    if refusal is None:
        answer.add_fact(
            "budget_now", "within", "within it by now, so it goes on when it is looked at again"
        )
    else:
        answer.add_fact("budget_now", f"{refusal.rule} = {refusal.value}")
