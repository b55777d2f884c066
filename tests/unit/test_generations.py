"""Which names of topics are those of a generation of a crawl."""

from __future__ import annotations

import pytest

from lycosa.cluster.kafka.generations import generation_number


@pytest.mark.parametrize(("name", "number"), [("", 1), ("g2-0a1b2c", 2), ("g12-abcdef", 12)])
def test_the_number_of_a_generation_is_in_its_name(name: str, number: int) -> None:
    assert generation_number(name) == number


@pytest.mark.parametrize("name", ["g1-eu", "g2-", "g2-0a1b2c.more", "x2-0a1b2c", "pages"])
def test_the_name_of_another_crawl_is_not_one_of_a_generation(name: str) -> None:
    assert generation_number(name) == -1  # "shop.g1-eu" is a crawl next to "shop"
