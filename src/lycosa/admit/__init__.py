"""Which URLs enter the crawl: pure rules that are judged again whenever somebody asks why."""

from lycosa.admit.budgets import over_budget, over_discovery
from lycosa.admit.refusal import Refusal
from lycosa.admit.scope import Scope
from lycosa.admit.traps import Traps

__all__ = ["Refusal", "Scope", "Traps", "over_budget", "over_discovery"]
