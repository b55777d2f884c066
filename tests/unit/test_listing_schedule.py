"""When sitemaps and feeds are read again: by their changes, within bounds, as a share of turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.sections import SitemapSection
from lycosa.base.listing_kind import ListingKind
from lycosa.stages.schedule.listing_schedule import listing_interval

DAY_S = 86_400.0
SECTION = SitemapSection()
KINDS = [kind for kind in ListingKind if kind]


def interval(
    before_s: float,
    changed: bool = False,
    kind: ListingKind = ListingKind.SITEMAP,
    listings: int = 1,
    delay_s: float = 1.0,
) -> float:
    return listing_interval(
        SECTION, kind, before_s, changed=changed, listings=listings, delay_s=delay_s
    )


def test_feeds_and_news_come_first_and_more_often() -> None:
    for kind in (ListingKind.FEED, ListingKind.NEWS):
        assert interval(0, kind=kind) == 3600
        assert interval(900, True, kind) == SECTION.news_min_s
    assert interval(0) == interval(0, kind=ListingKind.INDEX) == DAY_S
    assert interval(3600, True) == SECTION.min_s


def test_the_interval_follows_the_changes() -> None:
    assert interval(DAY_S, True) == DAY_S / 2
    assert interval(DAY_S) == 1.5 * DAY_S
    assert interval(6 * DAY_S) == SECTION.max_s


def test_ten_thousand_sitemaps_take_a_share_of_their_hosts_turns() -> None:
    each = interval(3600, True, listings=10_000, delay_s=10)
    assert 10_000 / each <= SECTION.share / 10
    assert each > SECTION.max_s  # the share comes before the longest wish


@given(
    st.sampled_from(KINDS),
    st.floats(0, 1e9),
    st.booleans(),
    st.integers(0, 100_000),
    st.floats(0, 1000),
)
def test_all_of_a_host_never_take_more_than_their_share(
    kind: ListingKind, before_s: float, changed: bool, listings: int, delay_s: float
) -> None:
    each = interval(before_s, changed, kind, listings, delay_s)
    assert each >= SECTION.news_min_s
    assert listings * delay_s <= each * SECTION.share * (1 + 1e-9)
    assert each <= max(SECTION.max_s, listings * delay_s / SECTION.share)
