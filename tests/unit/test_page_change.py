"""A page has changed when what its reader sees is different, not when its bytes are."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.model.capture import Change
from lycosa.base.model.url_state import History
from lycosa.stages.parse.fingerprint import simhash
from lycosa.stages.schedule.fetch_outcome import Meaning
from lycosa.stages.schedule.page_change import change_of, is_changed, text_digest_of

FETCHED, FAILED, UNMODIFIED = Meaning.FETCHED, Meaning.FAILED, Meaning.NOT_MODIFIED


def payload(body: str) -> bytes:
    return hashlib.sha1(body.encode()).digest()


def kept(text: str, body: str, target: str = "", status: int = 200, fetches: int = 1) -> History:
    """What a record keeps of a capture with this text and body."""
    digest = payload(body)
    text_digest = text_digest_of(text, target, digest)
    return History(fetches, status=status, digest=digest, text_digest=text_digest)


def change(
    old: History, meaning: Meaning, text: str, body: str, target: str = "", status: int = 200
) -> Change:
    digest = payload(body)
    return change_of(old, meaning, status, digest, text_digest_of(text, target, digest))


def test_another_token_in_the_body_is_no_change_and_another_digit_in_the_text_is_one() -> None:
    words = "The fine green kettle of the house stands here for anybody who likes tea " * 4
    old = kept(f"{words} 19.90", "<b nonce=1>")
    assert change(old, FETCHED, f"{words} 19.90", "<b nonce=2>") is Change.SAME
    assert change(old, FETCHED, f"{words} 21.90", "<b nonce=3>") is Change.CHANGED
    # which is why the digest is exact: the fingerprint does not see it
    assert simhash(f"{words} 19.90") == simhash(f"{words} 21.90") != 0


def test_without_text_the_target_of_a_redirect_decides_and_else_the_payload() -> None:
    image = kept("", "pixels")
    assert change(image, FETCHED, "", "pixels") is Change.SAME
    assert change(image, FETCHED, "", "other pixels") is Change.CHANGED
    moved = kept("", "id 1", "http://a.example/b", 301)
    assert change(moved, FETCHED, "", "id 2", "http://a.example/b") is Change.SAME
    assert change(moved, FETCHED, "", "id 3", "http://a.example/c") is Change.CHANGED


@pytest.mark.parametrize("text", [b"", b"12345678"])
def test_a_record_without_a_text_digest_is_compared_by_the_payload(text: bytes) -> None:
    old = History(2, status=200, digest=payload("a"))
    assert change_of(old, FETCHED, 200, payload("a"), text) is Change.SAME
    assert change_of(old, FETCHED, 200, payload("b"), text) is Change.CHANGED


def test_a_page_is_new_then_gone_then_back() -> None:
    assert change(History(), FETCHED, "text", "body") is Change.NEW
    assert change(History(), FAILED, "not found", "body", status=404) is Change.NONE
    there = kept("text", "body", fetches=3)
    assert change(there, FAILED, "not found", "none", status=410) is Change.GONE
    assert change(there, FAILED, "an error", "none", status=403) is Change.NONE
    # the digest of the last content stays, that of the payload is of the error page
    gone = msgspec.structs.replace(there, status=404, digest=payload("none"), fetches=4)
    assert change(gone, FAILED, "not found", "none", status=404) is Change.NONE
    assert change(gone, FETCHED, "text", "body") is Change.BACK
    broken = msgspec.structs.replace(gone, status=403)
    assert change(broken, FETCHED, "text", "body") is Change.SAME
    never = History(2, status=404, digest=payload("none"))
    assert change(never, FETCHED, "text", "body") is Change.NEW


def test_an_equal_body_is_the_same_also_when_one_of_them_could_not_be_parsed() -> None:
    assert change(kept("text", "body"), FETCHED, "", "body") is Change.SAME
    assert change(kept("", "body"), FETCHED, "text", "body") is Change.SAME


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=9), st.text(max_size=9))
def test_texts_decide_alone_and_304_is_never_a_change(
    before: str, after: str, one: str, other: str
) -> None:
    old = kept(before, one)
    assert not is_changed(old, UNMODIFIED, b"", b"")
    digest = payload(other)
    changed = is_changed(old, FETCHED, digest, text_digest_of(after, "", digest))
    if before or after:
        assert changed == (before != after and one != other)
    else:
        assert changed == (one != other)
