"""Checks seeds before a crawl begins, so that refusals are reported at once.

A crawl whose seeds are all unusable leaves no folder. The rules are those that a worker checks
again when it takes the seed, without those of the program and without the places of the scope: a
seed is always in its own place.
"""

from __future__ import annotations

import msgspec

from lycosa.base.config.sections import Config, ScopeRule
from lycosa.base.model.discovered import LinkKind
from lycosa.base.urls.canonical import Canonicalizer, InvalidUrl
from lycosa.stages.admit.scope import Scope
from lycosa.stages.admit.traps import Traps, year_of


class SeedCheck:
    """Checks by the settings of a crawl; ``wall`` is seconds since 1970."""

    def __init__(self, config: Config, wall: float) -> None:
        self._canonicalizer = Canonicalizer(config.canonical)
        self._scope = Scope(
            msgspec.structs.replace(config.scope, rule=ScopeRule.ANY), lambda host: host
        )
        self._traps = Traps(config.traps, year_of(wall))

    def refusal(self, seed: str) -> str:
        """Why the seed cannot be crawled, in words; empty when it can."""
        try:
            url = self._canonicalizer.canonical(seed)
        except InvalidUrl as error:
            return f"not a URL that can be crawled: {error.detail or error.reason.meaning}"
        refusal = self._scope.judge_url(url, LinkKind.SEED, 0) or self._traps.judge_url(url)
        return str(refusal) if refusal is not None else ""
