"""When a sitemap or feed is read again: by how often it changes, within separate bounds.

Policies of pages do not apply to it, except that it is not read again where they say ``never``.
What it lists is the reason to read it, and a host whose pages are fetched once a month may publish
every hour. So its interval halves when it has changed and grows by half when it has not, between
bounds of the section ``sitemaps``. Feeds and sitemaps of news have a shorter minimum.

A host may have thousands of sitemaps. Together they may take a share of its turns, so the shortest
interval of each grows with their number. That bounds what they take from the pages, and because
what is due of them comes first in the queue of its host, pages cannot starve them either.
"""

from __future__ import annotations

from lycosa.base.config.sections import SitemapSection
from lycosa.base.listing_kind import ListingKind

_SHRINK, _GROW = 0.5, 1.5
_FIRST_S, _FIRST_FAST_S = 86_400.0, 3600.0


def listing_interval(
    section: SitemapSection,
    kind: ListingKind,
    before_s: float,
    *,
    changed: bool,
    listings: int,
    delay_s: float,
) -> float:
    """Seconds until a sitemap or feed is read again.

    ``before_s`` is the interval before this reading (0 = it is the first). ``listings`` is the
    number of sitemaps and feeds of its host, ``delay_s`` the pause between two of its turns.
    """
    least = section.news_min_s if kind.is_fast else section.min_s
    least = max(least, listings * delay_s / section.share)
    first = _FIRST_FAST_S if kind.is_fast else _FIRST_S
    wanted = before_s * (_SHRINK if changed else _GROW) if before_s > 0 else first
    return min(max(wanted, least), max(section.max_s, least))
