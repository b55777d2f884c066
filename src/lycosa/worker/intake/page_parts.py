"""Requisites of requisites: what a style sheet, a module or the document in a frame loads.

A part of a page is judged as near to a seed as the page itself: what it loads keeps its depth, as
the target of a redirect does, and only its ordinary links lead further. So an import is admitted at
the maximum depth, and a chain of imports without an end is bounded by ``scope.requisites_depth``,
for which ``hops`` counts the links.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from lycosa.base.config.sections import BudgetSection
from lycosa.base.model.discovered import Discovered
from lycosa.base.model.parsed import Link
from lycosa.base.reasons import Reason
from lycosa.stages.admit.scope import Scope, is_shown
from lycosa.stages.frontier.lease import Lease
from lycosa.worker.intake.linking_page import LinkingPage


class PageParts:
    """Divides the links of a part of a page into those that it loads and those that it follows.

    ``inner`` is the part as the source of what it loads.
    """

    def __init__(self, page: LinkingPage, scope: Scope, is_in_scope: bool) -> None:
        self._page, self._scope = page, scope
        record = page.lease.record
        origin = msgspec.structs.replace(page.origin, depth=record.depth, hops=record.hops + 1)
        self.inner = page._replace(origin=origin)
        self._is_shown = is_in_scope or is_shown(record.kind, page.parsed.media_type)

    def divide(self, links: Sequence[Link]) -> tuple[Sequence[Link], Sequence[Link]]:
        """The links that it follows as a page, and those that it loads.

        Those that lead too far from the page are counted as refused.
        """
        if not self._is_shown:
            self._page.refused[Reason.OUT_OF_SCOPE] += len(links)
            return (), ()
        is_part = self._scope.is_part
        loaded = [link for link in links if is_part(link.kind)]
        others = [link for link in links if not is_part(link.kind)]
        if self.inner.origin.hops >= self._scope.requisites_depth:
            self._page.refused[Reason.REQUISITE_LIMIT] += len(loaded)
            loaded = []
        return others, loaded


_Found = TypeVar("_Found", Link, Discovered)


class PageRequisites:
    """The limits on requisites; one per worker.

    ``are_taken`` says that the crawl fetches them, ``has_budget`` that those on other hosts are
    counted.
    """

    def __init__(self, scope: Scope, section: BudgetSection) -> None:
        self._scope, self._section = scope, section
        self.are_taken = scope.takes_requisites
        self.has_budget = self.are_taken and section.host_requisites > 0

    def links_of(
        self, page: LinkingPage, is_in_scope: Callable[[Lease], bool]
    ) -> tuple[list[Link], PageParts | None]:
        """The links of a page with only its first requisites, and how a part of a page is divided.

        The other requisites are counted as refused.
        """
        links = self._first_of(page)
        if not self._scope.is_part(page.lease.record.kind):
            return links, None
        return links, PageParts(page, self._scope, is_in_scope(page.lease))

    def _first_of(self, page: LinkingPage) -> list[Link]:
        links, left = page.parsed.links, self._section.page_requisites
        if not left or len(links) <= left:
            return links
        kept = []
        for link in links:
            if link.kind.is_requisite:
                left -= 1
                if left < 0:
                    continue
            kept.append(link)
        page.refused[Reason.REQUISITE_LIMIT] += len(links) - len(kept)
        return kept

    def within_budget(
        self, page: LinkingPage, fresh: list[Discovered], passed: list[Link]
    ) -> tuple[list[Discovered], list[Link]]:
        """The links without requisites of other hosts beyond the budget of the host of the page.

        Those that stay are counted in the host's usage, the others as refused.
        """
        return self._within(page, fresh), self._within(page, passed)

    def _within(self, page: LinkingPage, links: list[_Found]) -> list[_Found]:
        host = page.lease.host
        room = self._section.host_requisites - host.record.usage.requisites
        kept, brought = [], 0
        for link in links:
            if link.kind.is_requisite and link.host8 != host.host8:
                if brought >= room:
                    continue
                brought += 1
            kept.append(link)
        if brought:
            host.count_requisites(brought)
        page.refused[Reason.REQUISITE_LIMIT] += len(links) - len(kept)
        return kept
