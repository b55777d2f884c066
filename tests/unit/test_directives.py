"""Meta robots and X-Robots-Tag: whom they address, and that the strictest wins."""

from __future__ import annotations

import pytest

from lycosa.base.model.parsed import Directives
from lycosa.stages.parse.directives import read_directives

NONE = Directives(noindex=True, nofollow=True)


def of_metas(*metas: tuple[str, str]) -> Directives:
    return read_directives(metas, (), "Lycosa")


def of_headers(*values: str) -> Directives:
    return read_directives((), values, "Lycosa")


@pytest.mark.parametrize(
    "content",
    [
        "none",
        "NONE",
        "noindex, nofollow",
        "noindex nofollow",
        "noindex,nofollow",
        " NoIndex ;nofollow",
        "index, none",
    ],
)
def test_words_are_separated_and_compared_loosely(content: str) -> None:
    assert of_metas(("robots", content)) == NONE


def test_nothing_said_permits_everything() -> None:
    assert of_metas(("robots", "all, index, follow"), ("description", "noindex")) == Directives()


def test_the_strictest_of_several_wins() -> None:
    assert (
        of_metas(("robots", "index, follow"), ("robots", "noindex"), ("ROBOTS", "nofollow")) == NONE
    )


def test_a_meta_for_our_product_counts_and_for_others_does_not() -> None:
    assert of_metas(("LYCOSA", "noindex")) == Directives(noindex=True)
    assert of_metas(("googlebot", "noindex"), ("lycosa-news", "noindex")) == Directives()


def test_nocache_is_noarchive() -> None:
    assert of_metas(("robots", "nocache")) == of_headers("noarchive") == Directives(noarchive=True)


def test_header_values_add_up() -> None:
    assert (
        of_headers("noindex", "nofollow")
        == of_headers("noindex, nofollow")
        == of_headers("none")
        == NONE
    )


def test_a_header_name_holds_until_the_next_one() -> None:
    assert of_headers("otherbot: noindex, nofollow, lycosa: noarchive") == Directives(
        noarchive=True
    )
    assert of_headers("lycosa: noindex, otherbot: nofollow") == Directives(noindex=True)
    assert of_headers("otherbot: noindex", "nofollow") == Directives(nofollow=True)


def test_dates_and_previews_are_no_names_and_no_rules() -> None:
    assert of_headers("unavailable_after: 25 Jun 2010 15:00:00 PST, noindex") == Directives(
        noindex=True
    )
    assert of_headers("max-snippet: 20, max-image-preview: none, nofollow") == Directives(
        nofollow=True
    )
    assert of_metas(
        ("robots", "max-snippet:20, unavailable_after: 2010-06-25, noindex")
    ) == Directives(noindex=True)
