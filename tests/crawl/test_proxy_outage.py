"""While the proxy cannot be used hosts wait, and nothing counts against them or their URLs; and
captures with credentials equal those of their own URL alone, also when the state is rebuilt.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from absences import AwayFetcher
from judging import are_balanced, host_states, outcomes, quick_config, stored_rows
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.fetched import Fetched, FetchRequest, Privacy
from lycosa.base.model.url_state import UrlState
from lycosa.base.ports import Fetcher
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of
from lycosa.inspect.audit.folder_audit import audit
from scripted import page, scripted_crawl
from virtual_crawl import VirtualCrawl

A, B = "http://a.example/", "http://b.example/"
AWAY_S = 3600.0
WORDS = "the same words on the pages of two hosts, which are enough to be compared " * 3


def is_clean(crawl: VirtualCrawl) -> None:
    report = audit(crawl.folder)
    assert report.is_clean, report.first_breaches()


def test_a_proxy_that_is_away_for_an_hour_costs_no_host_and_no_url(tmp_path: Path) -> None:
    web = {A: page("1", "2"), f"{A}1": page(), f"{A}2": page()}
    crawl, _ = scripted_crawl(tmp_path / "c", web, quick_config())
    tried: list[AwayFetcher] = []

    def is_away(_: str, now: float) -> Reason | None:
        return Reason.PROXY_FAILED if 1.0 < now < AWAY_S else None

    def wrap(inner: Fetcher) -> Fetcher:
        tried.append(AwayFetcher(inner, crawl.clock, is_away))
        return tried[-1]

    crawl.wrap = wrap
    crawl.run([A])
    assert [host.failures for host in host_states(crawl).values()] == [0]
    ends = {url: state for url, (state, _) in outcomes(crawl).items()}
    assert ends == dict.fromkeys(web, UrlState.FETCHED)
    # It is tried again at growing intervals, of two minutes at most.
    assert AWAY_S / 140 < len(tried[0].tried) < AWAY_S / 60
    are_balanced(crawl)
    is_clean(crawl)


class _WithCredentials:
    """Marks answers of one host as those of requests with credentials."""

    def __init__(self, inner: Fetcher, host: str) -> None:
        self._inner, self._host = inner, host

    async def fetch(self, request: FetchRequest) -> Fetched:
        fetched = await self._inner.fetch(request)
        if host_of(request.url) != self._host:
            return fetched
        return msgspec.structs.replace(fetched, privacy=Privacy.PRIVATE)

    async def close(self) -> None:
        await self._inner.close()


def test_an_unchanged_private_page_is_a_revisit_of_itself_alone(tmp_path: Path) -> None:
    web = {A: page(WORDS), B: page(WORDS)}
    config = msgspec.structs.replace(
        quick_config(), refetch=RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=3600.0)
    )
    crawl, _ = scripted_crawl(tmp_path / "c", web, config)
    crawl.wrap = lambda inner: _WithCredentials(inner, "a.example")
    crawl.run([A, B])
    crawl.now += 2 * 86_400
    crawl.run([])
    rows = [row for row in stored_rows(crawl.folder) if row.url in (A, B)]
    first = {row.url: row for row in rows if row.fetch_number == 1}
    later = [row for row in rows if row.fetch_number > 1]
    assert first[A].is_private and not first[B].is_private
    assert first[A].digest == first[B].digest
    assert not any(row.original or row.near_duplicate_of for row in first.values())
    assert later
    for row in later:
        assert row.original is not None and row.original.url == row.url
        assert row.original.record_id == first[row.url].record_id
    is_clean(crawl)
