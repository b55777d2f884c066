"""URLs without what scripts add to get past caches."""

from __future__ import annotations

import pytest

from lycosa.base.urls.cache_busters import with_callback, without_busters

_AT = "https://a.test/d"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"{_AT}?_=1700000000000", _AT),
        (f"{_AT}?a=1&_=1700000000000&b=2", f"{_AT}?a=1&b=2"),
        (f"{_AT}?cb=0.123456789", _AT),
        (f"{_AT}?nocache=deadbeef01", _AT),
        (f"{_AT}?1700000000000", _AT),
        (f"{_AT}?callback=jQuery36101234567_1700000000000&x=1", f"{_AT}?callback=jQuery&x=1"),
        (f"{_AT}?jsonp=cb_1700000000001", f"{_AT}?jsonp=cb"),
        (f"{_AT}?callback=show", ""),
        (f"{_AT}?ts=article", ""),
        (f"{_AT}?page=2000&id=123456", ""),
        (_AT, ""),
        (f"{_AT}?{'&' * 5000}_=1700000000000", ""),
    ],
)
def test_only_what_changes_is_left_out(url: str, expected: str) -> None:
    assert without_busters(url) == expected
    assert without_busters(expected) == ""


def test_a_callback_gets_the_name_that_the_page_expects() -> None:
    url = f"{_AT}?callback=cb_1700000000001"
    assert with_callback(url, b"cb({})") == b"cb_1700000000001({})"
    assert with_callback(url, b"/**/ cb({})") == b"/**/ cb_1700000000001({})"
    assert with_callback(url, b'{"a": 1}') == b'{"a": 1}'
    assert with_callback(f"{_AT}?callback=show", b"cb({})") == b"cb({})"
