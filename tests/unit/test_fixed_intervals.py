"""Fixed intervals of refetches: which URL has which, and what is refused."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging import quick_config
from lycosa.base.config.fields import fields
from lycosa.base.config.policy_texts import read_interval, show_interval
from lycosa.base.config.refetch_policies import check_intervals
from lycosa.base.config.sections import RefetchSection
from lycosa.base.config.url_matchers import matches_stars
from lycosa.stages.schedule.refetch import next_interval
from scripted import page, scripted_crawl

SECTION = RefetchSection(
    intervals=(
        "news.example /archive/* 30d",
        "news.example 1h",
        "* /feed* 10m",
        "shop.example:8080 /a,b* 2h",
    )
)


@pytest.mark.parametrize(
    ("url", "seconds"),
    [
        ("https://news.example/", 3600),
        ("https://www.news.example/feed", 3600),  # the first that is for it counts
        ("http://news.example:8080/x", 3600),
        ("https://www.news.example/archive/2020?page=1", 30 * 86400),
        ("https://news.example/x/archive/1", 3600),
        ("https://badnews.example/", SECTION.first_s),
        ("https://other.example/feed.xml", 600),
        ("http://shop.example:8080/a,b/c", 7200),
        ("http://shop.example/a,b/c", SECTION.first_s),
    ],
)
def test_the_first_interval_that_is_for_a_url_counts(url: str, seconds: float) -> None:
    assert next_interval(SECTION, url, 0.0, changed=True, is_first=True) == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no interval"),
        ("news.example", "no interval"),
        ("news.example /a /b 1h", "no interval"),
        ("https://news.example/ 1h", "no domain"),
        ("*.news.example 1h", "no domain"),
        ("news.example a* 1h", "no path"),
        ("news.example /a soon", "not a duration"),
        ("news.example 0s", "too short"),
        (f"news.example /{'*' * 30} 1h", "asterisks"),
    ],
)
def test_a_text_that_is_no_interval_is_refused_with_what_to_write(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_interval(text)
    with pytest.raises(ValueError):
        check_intervals(("news.example 1h", text))


def test_an_interval_survives_being_shown_also_with_a_comma() -> None:
    for text in SECTION.intervals:
        assert show_interval(read_interval(text)) == text
    field = fields()["refetch.intervals"]
    assert field.read(field.show(SECTION.intervals)) == SECTION.intervals


@given(st.text("ab/*", max_size=12), st.text("ab/", max_size=12))
def test_a_pattern_matches_as_a_shell_would(pattern: str, target: str) -> None:
    expected = re.fullmatch(fnmatch.translate(pattern), target) is not None
    assert matches_stars(pattern, target) == expected


def test_a_pattern_costs_no_more_than_its_length_times_that_of_the_url() -> None:
    assert not matches_stars("/" + "a*" * 20 + "b", "/" + "a" * 8000)


def test_an_interval_of_years_is_no_impossible_time_for_the_next_start(tmp_path: Path) -> None:
    config = quick_config(refetch=RefetchSection(intervals=("a.example 800d",)))
    crawl, web = scripted_crawl(tmp_path / "c", {"http://a.example/": page()}, config)
    for _ in range(2):
        crawl.run(["http://a.example/"])
        assert web.asked["http://a.example/"] == 1


def test_an_interval_is_at_most_ten_years() -> None:
    assert read_interval("news.example 100000d").policy.seconds == 3650 * 86_400
