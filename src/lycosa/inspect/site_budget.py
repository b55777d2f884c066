"""What the budgets of a site and its hosts allow now, by the committed state of its partition."""

from __future__ import annotations

import msgspec

from lycosa.base.config.sections import BudgetSection
from lycosa.base.model.host_memory import Usage
from lycosa.inspect.committed_state import TableView
from lycosa.stages.admit.budgets import over_budget
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
