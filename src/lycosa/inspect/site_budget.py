"""What the budgets of a site and its hosts allow now, by the committed state of its partition."""

from __future__ import annotations

import msgspec

from lycosa.base.config.sections import BudgetSection
from lycosa.base.model.usage import Usage
from lycosa.inspect.committed_state import TableView
from lycosa.inspect.explain.facts import Explanation
from lycosa.stages.admit.budgets import over_budget, site_pages_of
from lycosa.stages.admit.linking_sites import is_exact, linking_sites
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.state.kv.table_records import linking_key, site_key

_USAGE = msgspec.msgpack.Decoder(Usage)


class SiteBudget(msgspec.Struct, frozen=True):
    """A site, its usage, and the record of the sites that link to it."""

    site: str
    usage: Usage
    linking: bytes

    def refusal(self, section: BudgetSection, host: VisitRecord) -> Refusal | None:
        """Why none of its hosts may fetch more now, or ``None``."""
        return over_budget(section, host.usage, self.usage, self.linking, host.has_place)


def site_budget(view: TableView, site: str) -> SiteBudget:
    """Read the usage and the linking sites of a site."""
    value = view.get(site_key(site))
    return SiteBudget(
        site,
        _USAGE.decode(value) if value is not None else Usage(),
        view.get(linking_key(site)) or b"",
    )


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
