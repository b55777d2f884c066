"""The in-process fetcher in virtual time: limits, reasons and spool as the port says; and a
naive crawl that meets the oracle.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest

from lycosa.base.model.fetched import Fetched, FetchRequest, Limits
from lycosa.base.ports import ResolveError
from lycosa.base.reasons import Reason
from lycosa.synthetic import (
    ExpectedOutcome,
    Misbehaviour,
    RequestLog,
    RobotsVariant,
    SyntheticFetcher,
    SyntheticResolver,
    SyntheticWeb,
    VirtualClock,
    WebPlan,
    host_name,
    run_virtual,
)
from lycosa.synthetic.synthetic_robots import may_fetch

ADDRESS = "198.18.0.1"
QUICK = WebPlan(latency_s=0.0)


def fetch(
    path: str, *, limits: Limits | None = None, times: int = 1, spool_dir: Path | None = None
) -> Fetched:
    async def main() -> Fetched:
        web = SyntheticWeb(QUICK)
        fetcher = SyntheticFetcher(web, VirtualClock(), spool_dir=spool_dir)
        request = FetchRequest(web.seed_url() + path, ADDRESS, limits=limits or Limits())
        fetched = [await fetcher.fetch(request) for _ in range(times)]
        return fetched[-1]

    return run_virtual(main(), seed=None)


@pytest.mark.parametrize("misbehaviour", Misbehaviour)
def test_every_misbehaviour_ends_with_the_reason_of_its_table(misbehaviour: Misbehaviour) -> None:
    fetched = fetch(f"bad/{misbehaviour.value}")
    assert fetched.reason is misbehaviour.reason, fetched.detail
    assert fetched.duration_s <= 60.001 and len(fetched.body) <= 10_000_000
    assert misbehaviour.meaning


@pytest.mark.parametrize(
    "misbehaviour", [each for each in Misbehaviour if each.outcome is ExpectedOutcome.PAGE]
)
def test_what_is_called_a_page_is_one_at_the_second_request(misbehaviour: Misbehaviour) -> None:
    fetched = fetch(f"bad/{misbehaviour.value}", times=2)
    assert (fetched.status, fetched.reason) == (200, Reason.NONE)
    assert fetched.header("content-type").startswith("text/html")


@pytest.mark.parametrize(
    "misbehaviour", [each for each in Misbehaviour if each.outcome is ExpectedOutcome.ERROR]
)
def test_what_is_called_an_error_is_one_every_time(misbehaviour: Misbehaviour) -> None:
    assert fetch(f"bad/{misbehaviour.value}", times=4).status >= 300


def test_timeouts_come_when_the_limits_say() -> None:
    limits = Limits(first_byte_s=3.0, total_s=20.0, min_bytes_per_s=50, min_speed_window_s=4.0)
    assert fetch("bad/never-answers", limits=limits).duration_s == pytest.approx(3.0)
    # the first window has half the body
    assert fetch("bad/stalls-in-body", limits=limits).duration_s == pytest.approx(8.0)
    drip = fetch("bad/slow-drip", limits=Limits(total_s=7.5, min_bytes_per_s=0))
    assert (drip.reason, drip.truncated, len(drip.body)) == (Reason.TOTAL_TIMEOUT, "time", 8)
    assert drip.duration_s == pytest.approx(7.5)


def test_a_body_is_cut_at_the_limit_and_marked() -> None:
    fetched = fetch("bad/endless-body", limits=Limits(body_bytes=100_000))
    assert (fetched.reason, fetched.truncated, len(fetched.body)) == (
        Reason.BODY_TRUNCATED,
        "length",
        100_000,
    )
    exact = len(fetch("").body)
    assert fetch("", limits=Limits(body_bytes=exact)).reason is Reason.NONE
    assert fetch("", limits=Limits(body_bytes=exact - 1)).reason is Reason.BODY_TRUNCATED


def test_a_large_body_goes_to_a_file(tmp_path: Path) -> None:
    fetched = fetch("bad/many-links", limits=Limits(spool_bytes=1000), spool_dir=tmp_path)
    assert fetched.body == b"" and Path(fetched.spool).stat().st_size == fetched.body_bytes > 1000


def test_addresses_that_do_not_answer() -> None:
    async def main() -> list[tuple[Reason, float]]:
        web = SyntheticWeb(QUICK)
        reasons = {"198.18.0.2": Reason.CONNECT_REFUSED, "198.18.0.3": Reason.CONNECT_TIMEOUT}
        fetcher = SyntheticFetcher(web, VirtualClock(), unreachable=reasons)
        fetched = [
            await fetcher.fetch(FetchRequest(web.seed_url(), address))
            for address in (ADDRESS, *reasons)
        ]
        assert len(fetcher.log) == 1
        return [(each.reason, round(each.duration_s, 2)) for each in fetched]

    assert run_virtual(main(), seed=None) == [
        (Reason.NONE, 0.0),
        (Reason.CONNECT_REFUSED, 0.0),
        (Reason.CONNECT_TIMEOUT, 10.0),
    ]


def test_validators_make_the_request_conditional() -> None:
    async def main() -> None:
        web = SyntheticWeb(WebPlan(page_counts=(30,), redirects=0))
        fetcher = SyntheticFetcher(web, VirtualClock())
        seen = set()
        for url in sorted(web.reachable([web.seed_url()])):
            first = await fetcher.fetch(FetchRequest(url, ADDRESS))
            again = await fetcher.fetch(
                FetchRequest(
                    url,
                    ADDRESS,
                    etag=first.header("etag"),
                    last_modified=first.header("last-modified"),
                )
            )
            assert again.status == (304 if first.header("etag") else 200)
            assert again.reason is Reason.NONE and bool(again.body) == (again.status == 200)
            seen.add(again.status)
        assert seen == {200, 304}

    run_virtual(main())


def test_latency_passes_on_the_clock_and_stands_in_the_log() -> None:
    async def main() -> tuple[Fetched, RequestLog]:
        web = SyntheticWeb(WebPlan(latency_s=2.0))
        fetcher = SyntheticFetcher(web, VirtualClock(epoch=1000.0))
        return await fetcher.fetch(FetchRequest(web.seed_url(), ADDRESS)), fetcher.log

    fetched, log = run_virtual(main(), seed=None)
    assert fetched.started == 1000.0 and 0.0 < fetched.first_byte_s <= fetched.duration_s
    (exchange,) = log.exchanges
    assert (exchange.start, exchange.end, exchange.status) == (0.0, fetched.duration_s, 200)
    assert exchange.host == host_name(0) and exchange.address == ADDRESS


def test_names_resolve_to_shared_addresses_and_dead_ones_do_not() -> None:
    async def main() -> None:
        web = SyntheticWeb(WebPlan(hosts=300, dead_hosts=0.2))
        clock = VirtualClock()
        resolver = SyntheticResolver(web.hosts, clock, failing={host_name(0): Reason.DNS_FAILED})
        addresses, reasons = [], []
        for index in range(300):
            try:
                addresses += await resolver.resolve(host_name(index))
                assert not web.hosts.is_dead(index)
            except ResolveError as error:
                reasons.append(error.reason)
                assert index == 0 or web.hosts.is_dead(index)
        assert 1.5 < len(addresses) / len(set(addresses)) < 5
        assert 30 < len(reasons) < 90 and set(reasons) == {
            Reason.DNS_NO_SUCH_NAME,
            Reason.DNS_FAILED,
            Reason.DNS_TIMEOUT,
        }
        assert await resolver.resolve("127.0.0.1") == ["127.0.0.1"] and await resolver.resolve(
            "[::1]"
        ) == ["::1"]
        with pytest.raises(ResolveError) as caught:
            await resolver.resolve("www.elsewhere.example")
        assert caught.value.reason is Reason.DNS_NO_SUCH_NAME
        await resolver.close()

    run_virtual(main())


def links_of(url: str, body: bytes) -> set[str]:
    """Every followed reference, by regular expressions."""
    written = re.findall(
        r'<(?:a|link rel="canonical") (?:rel=nofollow )?href="([^"]*)"', body.decode()
    )
    return {urldefrag(urljoin(url, reference)).url for reference in written}


async def naive_crawl(
    web: SyntheticWeb, get: Callable[[str], Awaitable[Fetched | None]]
) -> set[str]:
    """Breadth first, by bytes alone: no sketch, no oracle."""
    pages, known, queue = set(), {web.seed_url()}, [web.seed_url()]
    while queue:
        url = queue.pop()
        variant = RobotsVariant(web.hosts.robots_variant(int(urlsplit(url).netloc[1:7])))
        parts = urlsplit(url)
        if not variant.is_reachable or not may_fetch(
            variant, parts.path + (f"?{parts.query}" if parts.query else "")
        ):
            continue
        fetched = await get(url)
        if fetched is None:
            continue
        found: set[str] = set()
        if 300 <= fetched.status < 400:
            found = {fetched.header("location")}
        elif fetched.status == 200 and fetched.header("content-type").startswith("text/html"):
            pages.add(url)
            body = (
                zlib.decompress(fetched.body, 31)
                if fetched.header("content-encoding")
                else fetched.body
            )
            if b'content="nofollow"' not in body:
                found = links_of(url, body)
        queue += found - known
        known |= found
    return pages


@pytest.mark.parametrize("seed", range(3))
def test_a_naive_crawl_by_bytes_finds_exactly_what_the_oracle_says(seed: int) -> None:
    plan = WebPlan(
        seed=seed,
        hosts=15,
        pages=25,
        nofollow=0.1,
        gone=0.05,
        variants=0.1,
        error_rate=0.3,
        dead_hosts=0.1,
        robots=0.7,
    )
    web = SyntheticWeb(plan)

    async def main() -> set[str]:
        clock = VirtualClock()
        fetcher, resolver = SyntheticFetcher(web, clock), SyntheticResolver(web.hosts, clock)

        async def get(url: str) -> Fetched | None:
            try:
                (address,) = await resolver.resolve(urlsplit(url).netloc)
            except ResolveError:
                return None
            fetched = await fetcher.fetch(FetchRequest(url, address))
            for _ in range(2):
                if fetched.status == 503:
                    fetched = await fetcher.fetch(FetchRequest(url, address))
            return fetched

        return await naive_crawl(web, get)

    truth = web.survey([web.seed_url()])
    assert truth.nofollow or truth.unreachable or truth.disallowed
    assert len(truth.pages) > 100
    assert run_virtual(main()) == truth.pages
