"""Pages that answer as paths do that do not exist."""

from __future__ import annotations

import pytest

from lycosa.base.model.host_memory import MissingPage
from lycosa.base.model.url_state import History
from lycosa.stages.schedule.soft_gone import (
    ASK_EVERY_S,
    PageAnswer,
    is_missing,
    is_soft_gone,
    may_be_gone,
    missing_path,
    with_wish,
)

NOW = 1_000_000.0
HOST = "http://a.example/"
SORRY = 0xFFFF0000FFFF0000
CONTENT = 0x0F0F0F0F0F0F0F0F
SOFT = MissingPage(NOW - 60, status=200, digest=b"sorry", simhash=SORRY)
HOME = MissingPage(NOW - 60, status=302, target=HOST)
OLD = History(fetches=3, status=200, digest=b"old", simhash=CONTENT, text_digest=b"text")


def page(
    simhash: int = SORRY, digest: bytes = b"new", target: str = "", path: str = "page"
) -> PageAnswer:
    return PageAnswer(f"{HOST}{path}", 302 if target else 200, digest, simhash, target)


@pytest.mark.parametrize(
    ("missing", "answer", "is_gone"),
    [
        (SOFT, page(), True),
        (SOFT, page(SORRY ^ 0b111), True),  # three bits
        (SOFT, page(SORRY ^ 0b1111), False),
        (SOFT, page(0, b"sorry"), True),  # the same body without a text
        (SOFT, page(0), False),
        (SOFT, page(path=""), False),  # the front page
        (SOFT, page(target=HOST), False),
        (HOME, page(target=HOST), True),
        (HOME, page(target=f"{HOST}other"), False),
        (HOME, page(), False),
        (HOME, PageAnswer(HOST, 302, b"", 0, HOST), False),
        (MissingPage(NOW - 60, status=404, digest=b"sorry", simhash=SORRY), page(), False),
        (MissingPage(NOW - 60, status=410, digest=b"sorry", simhash=SORRY), page(), False),
        (MissingPage(NOW - 60, status=503, digest=b"sorry", simhash=SORRY), page(), False),
        (MissingPage(NOW - 60), page(), False),
        (MissingPage(is_wanted=True), page(), False),
        (MissingPage(NOW - 40 * 86_400, status=200, simhash=SORRY), page(), False),  # too old
        (MissingPage(NOW + 60, status=200, simhash=SORRY), page(), False),  # the clock was set back
        (None, page(), False),
    ],
)
def test_a_page_is_gone_when_it_answers_like_a_missing_path(
    missing: MissingPage | None, answer: PageAnswer, is_gone: bool
) -> None:
    assert is_missing(missing, answer, NOW) is is_gone
    assert is_soft_gone(missing, OLD, answer, False, NOW) is is_gone


def test_a_page_that_was_always_like_that_has_lost_nothing() -> None:
    always = History(fetches=3, status=200, digest=b"x", simhash=SORRY, text_digest=b"text")
    assert is_missing(SOFT, page(), NOW) and not is_soft_gone(SOFT, always, page(), False, NOW)
    assert not is_soft_gone(SOFT, History(), page(), False, NOW)
    moved = History(fetches=3, status=302, redirect_to=HOST, text_digest=b"target")
    assert not is_soft_gone(HOME, moved, page(target=HOST), False, NOW)


def test_a_page_that_is_gone_stays_gone_while_it_answers_so() -> None:
    gone = History(fetches=4, status=200, digest=b"sorry", simhash=CONTENT, text_digest=b"text")
    assert is_soft_gone(SOFT, gone, page(digest=b"sorry"), True, NOW)
    assert not is_soft_gone(SOFT, gone, page(CONTENT), True, NOW)


def test_only_what_a_missing_page_may_answer_is_a_reason_to_ask() -> None:
    assert may_be_gone(OLD, page(), True) and may_be_gone(OLD, page(target=HOST), True)
    assert not may_be_gone(OLD, page(), False)
    assert not may_be_gone(OLD, page(CONTENT ^ 1), True)
    assert not may_be_gone(OLD, page(path=""), True)
    assert not may_be_gone(History(fetches=1, status=301), page(), True)
    sitemap = History(fetches=1, status=200, digest=b"old", text_digest=b"text")
    assert not may_be_gone(sitemap, page(0), True)


def test_a_host_is_asked_once_a_week_at_most_and_seldom_after_a_404() -> None:
    wanted = with_wish(None, NOW)
    assert wanted is not None and wanted.is_wanted and with_wish(wanted, NOW) is None
    assert with_wish(SOFT, NOW) is None
    again = with_wish(SOFT, SOFT.asked_at + ASK_EVERY_S)
    assert again is not None and again.is_wanted and again.simhash == SORRY  # until it is answered
    plain = MissingPage(NOW, status=404)
    assert with_wish(plain, NOW + 89 * 86_400) is None
    assert with_wish(plain, NOW + 91 * 86_400) is not None


def test_copies_among_the_pages_of_a_host_are_counted() -> None:
    missing: MissingPage | None = None
    for number in range(1, 6):
        missing = with_wish(missing, NOW, is_copy=True)
        assert missing is not None and missing.is_wanted is (number == 5)


def test_the_path_is_another_one_each_week_and_says_what_it_is() -> None:
    paths = {missing_path("a.example", week * ASK_EVERY_S) for week in range(50)}
    assert len(paths) == 50 and all(each.startswith("/no-such-page-") for each in paths)
    assert missing_path("a.example", 5.0) == missing_path("a.example", 6.0)
    assert missing_path("a.example", 5.0) != missing_path("b.example", 5.0)
