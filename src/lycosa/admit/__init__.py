"""Which URLs enter the crawl: pure rules, which can be evaluated again to explain a decision."""

from lycosa.admit.budgets import over_budget, over_discovery
from lycosa.admit.refusal import Refusal
from lycosa.admit.scope import Scope
from lycosa.admit.traps import Traps

__all__ = ["Refusal", "Scope", "Traps", "over_budget", "over_discovery"]
