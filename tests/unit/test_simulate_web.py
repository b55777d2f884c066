"""What a described web is made of: sizes of hosts, and samples of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.simulate.sample import HostRow, draw, parts_of
from lycosa.simulate.web_model import Sizes, Web, host_sizes


@given(st.sampled_from(Sizes), st.integers(1, 5000), st.floats(1.0, 500.0))
def test_hosts_that_stand_for_all_have_their_mean(sizes: Sizes, count: int, mean: float) -> None:
    web = Web(hosts=10_000, pages=int(10_000 * mean), sizes=sizes)
    drawn = host_sizes(web, count)
    assert drawn.min() >= 1
    assert drawn.sum() == pytest.approx(count * web.pages / web.hosts, rel=0.01, abs=count * 0.51)


def test_sizes_are_as_uneven_as_the_web_says() -> None:
    shares = {}
    for sizes in Sizes:
        drawn = sorted(
            host_sizes(Web(hosts=1_000_000, pages=100_000_000, sizes=sizes), 10_000).tolist(),
            reverse=True,
        )
        # of the pages, at the largest hundredth of the hosts
        shares[sizes] = sum(drawn[:100]) / sum(drawn)
    # Pareto with exponent a: a share p has p^(1 - 1/a)
    assert shares[Sizes.ZIPF] == pytest.approx(0.01 ** (1 / 3), rel=0.1)
    # normal: P(z > z_p - sigma) with z_0.01 = 2.326, sigma = 1
    assert shares[Sizes.LOGNORMAL] == pytest.approx(0.0924, rel=0.05)
    assert shares[Sizes.FIXED] == pytest.approx(0.01)


def test_no_host_has_more_pages_than_the_largest() -> None:
    assert host_sizes(Web(hosts=1000, pages=100_000, largest=500), 1000).max() <= 520


def test_a_web_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="each host needs at least one page"):
        Web(hosts=10, pages=9)
    with pytest.raises(ValueError, match="fewer than the mean"):
        Web(hosts=10, pages=1000, largest=50)


def test_hosts_of_one_address_stay_together_in_parts() -> None:
    sample = draw(Web(hosts=5000, pages=50_000, hosts_per_address=3), 1000, seed=1)
    parts = parts_of(sample, 4)
    addresses = [{host.address for host in part.hosts} for part in parts]
    assert sum(map(len, addresses)) == len(set().union(*addresses))
    assert sum(len(part) for part in parts) == 1000
    assert sum(part.share for part in parts) == pytest.approx(sample.share)
    assert max(part.pages for part in parts) < 1.2 * min(part.pages for part in parts)


def test_listed_hosts_keep_what_is_known_of_them() -> None:
    rows = [
        HostRow(pages, latency_s=0.25, crawl_delay_s=7.0, body_bytes=1234.0, address="203.0.113.5")
        for pages in range(1, 101)
    ]
    sample = draw(Web(hosts=100, pages=5050), 100, seed=0, hosts=rows)
    assert sorted(host.pages for host in sample.hosts) == list(range(1, 101))
    assert {
        (host.latency_s, host.crawl_delay_s, host.page_bytes, host.address) for host in sample.hosts
    } == {(0.25, 7.0, 1234.0, "203.0.113.5")}
    assert draw(Web(hosts=100, pages=5050), 10, seed=0, hosts=rows).pages == pytest.approx(
        505, rel=0.15
    )


def test_a_sample_that_would_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="smaller --sample"):
        draw(Web(hosts=1000, pages=10**9), 1000, seed=0)
