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

import msgspec

from lycosa.base.config.policy_classes import LISTING_CLASSES, listing_of
from lycosa.base.config.sections import SitemapSection
from lycosa.base.listing_kind import ListingKind
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.url_state import History
from lycosa.stages.schedule.fetch_outcome import Meaning
from lycosa.stages.schedule.refetch_plan import FoundContent, RefetchPlan

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


def with_own_schedule(
    plan: RefetchPlan,
    section: SitemapSection,
    kind: ListingKind,
    old: History,
    found: FoundContent,
    turns: tuple[int, float],
    formats: int,
) -> RefetchPlan:
    """The plan of a sitemap or feed after a fetch; that of a page stays as it is.

    ``turns`` are the number of sitemaps and feeds of its host, and the pause between two of its
    turns in seconds. Formats without classes of policies do not say what a record was.
    """
    if not kind or found.meaning is Meaning.FAILED or not plan.interval_s:
        return plan
    is_known = old.fetches > 0 and (not old.policy or bool(listing_of(old.policy)))
    interval_s = listing_interval(
        section,
        kind,
        float(old.interval_s) if is_known and not found.was_gone else 0.0,
        changed=plan.changed,
        listings=turns[0],
        delay_s=turns[1],
    )
    number = LISTING_CLASSES[kind] if formats >= LATE_FIELDS else 0
    return msgspec.structs.replace(plan, interval_s=interval_s, cell=0, policy=number)
