"""The pure rules that judge every URL when it is found: scope, traps, and the user's rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from lycosa.base.config.sections import BudgetSection, SitemapSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.parsed import Link
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.admit.scope import Scope
from lycosa.stages.admit.traps import Traps
from lycosa.worker.extensions import UserRule


class Admission(msgspec.Struct, frozen=True):
    """The pure rules, in the order in which they judge.

    It also has the settings of budgets and sitemaps, which only the owner of a URL can judge, and
    whether licences are fetched.
    """

    scope: Scope
    traps: Traps
    rules: tuple[UserRule, ...] = ()
    budgets: BudgetSection = BudgetSection()
    sitemaps: SitemapSection = SitemapSection()
    fetches_licenses: bool = False

    def judge_url(self, found: Discovered, nofollow: bool = False) -> Refusal | None:
        """Why a URL is refused, or ``None``."""
        refusal = self.scope.judge_url(
            found.url, found.kind, found.depth, nofollow, found.via
        ) or self.traps.judge_url(found.url)
        if refusal is None and self.rules:
            return next(
                (refusal for rule in self.rules if (refusal := rule(found)) is not None), None
            )
        return refusal

    def why_unwanted(self, url: str, kind: LinkKind, depth: int) -> Refusal | None:
        """Why a URL that waited is not wanted any more, or ``None``."""
        scope = self.scope
        return scope.judge_waiting(url, kind, depth) if scope.judges_waiting else None

    def stamps_of(self, via: str, depth: int) -> Sequence[bytes]:
        """What tells finds of one URL on the page ``via`` from those of a moment ago.

        A link of a page in scope may pass where that of another page did not; so may a requisite
        named by another host, where its source or the budget of that host counts.
        """
        stamps = _stamps(min(depth, 255), 16 * self.scope.is_source(via))
        if self.scope.limits_sources or self.budgets.host_requisites:
            host8 = hash8(host_of(via))
            return [stamp + host8 for stamp in stamps]
        return stamps

    def judge_link(self, link: Link, depth: int, via: str = "") -> Refusal | None:
        """The same for a link of the page ``via``, when there are no rules of the user."""
        return self.scope.judge_url(
            link.url, link.kind, depth, link.nofollow, via
        ) or self.traps.judge_url(link.url)


@lru_cache(1024)
def _stamps(depth: int, hop: int) -> tuple[bytes, ...]:
    """One for each value of ``LinkKind.rules``, without and with nofollow."""
    return tuple(bytes([depth, hop + way]) for way in range(16))
