"""Header fields of a stored response, as a browser without a network gets them."""

from __future__ import annotations

from collections import Counter

from lycosa.stages.render.stored_headers import as_answered, preflight_answer


def test_fields_of_the_transfer_frames_and_connections_are_left_out() -> None:
    changed: Counter[str] = Counter()
    stored = [
        ("content-type", "text/html"),
        ("content-encoding", "br"),
        ("Content-Length", "3"),
        ("x-frame-options", "DENY"),
        ("strict-transport-security", "max-age=1"),
        ("link", "</a.css>; rel=preload"),
        ("refresh", "0"),
        ("content-security-policy", "default-src 'self'; frame-ancestors 'none'; report-uri /r"),
        ("x-broken", "a\r\nset-cookie: b"),
    ]
    assert as_answered(stored, "", changed) == [
        ("content-type", "text/html"),
        ("content-security-policy", "default-src 'self'"),
    ]
    assert changed == {"framing": 2, "header": 3}


def test_a_request_across_origins_is_allowed_whatever_was_stored() -> None:
    changed: Counter[str] = Counter()
    stored = [("Access-Control-Allow-Origin", "https://other.test"), ("etag", '"1"')]
    fields = as_answered(stored, "https://a.test", changed)
    assert fields[0] == ("etag", '"1"')
    assert dict(fields)["access-control-allow-origin"] == "https://a.test"
    assert changed == {"cors": 1}


def test_a_preflight_is_answered_with_what_it_asks_for() -> None:
    fields = dict(preflight_answer("https://a.test", "x-key"))
    assert fields["access-control-allow-headers"] == "x-key"
    assert fields["access-control-allow-origin"] == "https://a.test"
    assert "POST" not in fields["access-control-allow-methods"]
