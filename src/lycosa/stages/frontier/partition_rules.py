"""The rules of a crawl that a partition applies; each is a pure function of the settings."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.config.sections import CopiesSection, RefetchSection
from lycosa.base.model.usage import Usage
from lycosa.stages.frontier.policy_walk import KeptInterval
from lycosa.stages.frontier.ranking import Prioritize, by_importance
from lycosa.stages.frontier.sitemap_news import SitemapNews


class FrontierRules(msgspec.Struct, frozen=True):
    """The rules, as functions.

    ``over_discovery``: whether a host has contributed more new URLs than its budget allows.
    ``prioritize``: the priority of a URL. ``forward``: when a page is due that has changed
    according to a sitemap. ``kept_interval``: the interval of a page after a change of policies.
    ``copies``: what is set back because pages like it were near copies.
    """

    over_discovery: Callable[[Usage], bool] = lambda _: False
    prioritize: Prioritize = by_importance
    forward: SitemapNews = SitemapNews(RefetchSection())
    kept_interval: KeptInterval = lambda _section, _url, interval_s, _cell: interval_s
    copies: CopiesSection = CopiesSection()
