"""Image candidates: commas inside URLs and parentheses, and descriptors that contradict each
other.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.stages.parse.markup_values import srcset_urls


@pytest.mark.parametrize(
    ("value", "urls"),
    [
        ("", []),
        ("a.png", ["a.png"]),
        ("a.png 1x, b.png 2x", ["a.png", "b.png"]),
        ("a.png, b.png", ["a.png", "b.png"]),
        (
            "/w_100,h_200/a.png 100w, /w_200,h_400/b.png 200w",
            ["/w_100,h_200/a.png", "/w_200,h_400/b.png"],
        ),
        ("a.png 1x (, b.png 2x), c.png", ["a.png", "c.png"]),
        ("a.png 1x 2x, b.png", ["b.png"]),
        (",,, a.png ,", ["a.png"]),
        ("a.png 100h, b.png 100w 100h", ["b.png"]),
    ],
)
def test_candidates(value: str, urls: list[str]) -> None:
    assert srcset_urls(value) == urls


@settings(deadline=None)
@given(st.text("ab ,()1wxh\t", max_size=200))
def test_any_value_gives_substrings_without_blanks(value: str) -> None:
    for url in srcset_urls(value):
        assert url and url in value and not url.endswith(",") and " " not in url


def test_a_long_value_costs_time_in_proportion() -> None:
    assert len(srcset_urls("a.png 1x (" * 20_000)) <= 20_000
    assert srcset_urls("(" * 200_000) == ["(" * 200_000]
