"""Decides when a known page is due that has changed after its last fetch, according to a sitemap.

A sitemap is trusted until it is wrong. The first time, the page is due as soon as the minimum
between two fetches allows. Each fetch that was moved forward and found no change halves the trust:
the page then waits half of its normal interval, three quarters of it, and so on, and the interval
itself grows with each fetch in vain. A fetch that finds a change restores the trust. So a sitemap
that gives the present time for everything gains only a few fetches of each page.

One value of ``lastmod`` has an effect once: the page is fetched after it, so it is old from then
on. A time in the future has no effect.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.config.refetch_policies import find_policy
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.state.kv.table_records import UrlRecord

_MAX_HALVINGS = 30


class SitemapNews:
    """The rule, for the settings of a crawl.

    ``ahead_s`` returns the seconds by which crawl time is ahead of the wall clock. Due times are
    crawl time; the dates of sitemaps and fetches are wall time.
    """

    def __init__(self, section: RefetchSection, ahead_s: Callable[[], float] = lambda: 0.0) -> None:
        self.section = section  # its settings may change while the crawl runs
        self.ahead_s = ahead_s

    def is_news(self, lastmod: int, now: float) -> bool:
        """Whether ``lastmod`` can be later than a page's last fetch.

        An older one cannot: every page is fetched again within the longest interval.
        """
        return (
            self.section.rule is not RefetchRule.OFF and now - self.section.max_s < lastmod <= now
        )

    def due_at(self, record: UrlRecord, lastmod: int, now: float, url: str = "") -> int:
        """When a page that changed at ``lastmod`` is due, in whole seconds of crawl time.

        ``url`` is the page's, for the minimum of its policy.

        0 when it was fetched since, is not fetched again, or is due no later anyway.
        """
        history = record.history
        if history is None or not record.due_at or lastmod <= history.fetched_at:
            return 0
        section = self.section
        wait_s = max(
            find_policy(section, url).shortest_wait(section) if url else section.min_s,
            history.interval_s * (1.0 - 0.5 ** min(history.forwards, _MAX_HALVINGS)),
        )
        due_at = int(max(history.fetched_at + wait_s, now) + self.ahead_s()) + 1
        return due_at if due_at < record.due_at else 0

    @staticmethod
    def apply(record: UrlRecord, due_at: int) -> None:
        """Make the page due at ``due_at``, because of a sitemap."""
        assert record.history is not None
        record.due_at = due_at
        record.history = msgspec.structs.replace(
            record.history, forwards=record.history.forwards + 1
        )
