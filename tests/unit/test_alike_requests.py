"""What pages of one template request, learned from where parts of their URLs return."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.model.capture import Want
from lycosa.stages.frontier.alike_requests import MAX_SHAPES_KNOWN, AlikeRequests

SITE = "https://a.example"


def learned(*pages: tuple[str, list[str]]) -> AlikeRequests:
    alike = AlikeRequests()
    for path, requests in pages:
        alike.learn(SITE + path, [SITE + path, *(SITE + each for each in requests)])
    return alike


def guessed(alike: AlikeRequests, path: str) -> list[str]:
    return [each.url.removeprefix(SITE) for each in alike.guess(SITE + path)]


@pytest.mark.parametrize(
    ("page", "request_", "guess"),
    [
        ("/item/{}", "/api/item-{}.json", "/api/item-99.json"),
        ("/item/{}", "/img/i{}.png", "/img/i99.png"),
        ("/item/{}.html", "/v1/items?id={}&full=1", "/v1/items?id=99&full=1"),
        ("/show?id={}", "/data/{}", "/data/99"),
        ("/shop/rope-{}-new", "/api/shop/rope-{}-new/price", "/api/shop/rope-99-new/price"),
        ("/a/{}/b", "/x/{}.json?_=1763942400000", "/x/99.json"),  # without what passes caches
    ],
)
def test_three_pages_show_what_the_next_one_requests(page: str, request_: str, guess: str) -> None:
    alike = AlikeRequests()
    for number in (14, 25, 36):
        assert guessed(alike, page.format(99)) == []
        alike.learn(
            SITE + page.format(number),
            [SITE + request_.format(number), f"{SITE}/assets/app.js", "https://b.example/14"],
        )
    assert guessed(alike, page.format(99)) == [guess]


def test_a_destination_is_known_by_the_suffix() -> None:
    pages = [(f"/p/{number}", [f"/i/{number}.png", f"/d/{number}"]) for number in (4, 5, 6)]
    assert set(learned(*pages).guess(f"{SITE}/p/7")) == {
        Want(f"{SITE}/i/7.png", "image"),
        Want(f"{SITE}/d/7", ""),
    }


def test_chance_is_not_believed_and_what_changed_is_forgotten() -> None:
    alike = learned(
        ("/p/1", ["/d/1", "/e/1"]), ("/p/2", ["/d/2", "/e/3"]), ("/p/3", ["/d/3", "/e/3"])
    )
    assert guessed(alike, "/p/4") == ["/d/4"]
    for number in range(10, 14):
        alike.learn(f"{SITE}/p/{number}", [f"{SITE}/new/{number}"])
    assert guessed(alike, "/p/4") == ["/new/4"]


def test_pages_of_another_shape_or_host_are_not_alike() -> None:
    alike = learned(*((f"/p/{number}", [f"/d/{number}"]) for number in (4, 5, 6)))
    assert guessed(alike, "/p/7") == ["/d/7"]
    assert guessed(alike, "/q/7") == guessed(alike, "/p/7/8") == guessed(alike, "/") == []
    assert alike.guess("https://b.example/p/7") == []


def test_memory_is_bounded() -> None:
    alike = AlikeRequests()
    for number in range(MAX_SHAPES_KNOWN + 5):
        for page in (1, 2, 3):
            alike.learn(
                f"https://h{number}.example/p/{page}", [f"https://h{number}.example/d/{page}"]
            )
    assert alike.guess("https://h0.example/p/9") == []
    assert len(alike.guess(f"https://h{MAX_SHAPES_KNOWN}.example/p/9")) == 1
    assert repr(alike) == f"<AlikeRequests shapes={MAX_SHAPES_KNOWN}>"


_PATH = st.text(st.sampled_from("/a1-._?=&%\0(["), max_size=12)


@given(st.lists(st.tuples(_PATH, st.lists(_PATH, max_size=3)), max_size=8), _PATH)
def test_any_paths_give_urls_of_the_pages_own_origin(
    pages: list[tuple[str, list[str]]], path: str
) -> None:
    alike = learned(*((f"/{page}", [f"/{each}" for each in found]) for page, found in pages))
    assert all(url.startswith("/") for url in guessed(alike, f"/{path}"))
