"""Which URLs enter the crawl: pure rules, which can be evaluated again to explain a decision."""

from lycosa.stages.admit.budgets import over_budget, over_discovery
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.admit.scope import Scope
from lycosa.stages.admit.traps import Traps

__all__ = ["Refusal", "Scope", "Traps", "over_budget", "over_discovery"]
