"""How long a connection of an origin may be idle, and when HTTP/2 is not offered."""

from __future__ import annotations

import select
import socket

import pytest

from lycosa.base.reasons import Reason
from lycosa.stages.fetch.origin_connections import (
    FRESH_S,
    MAX_IDLE_S,
    ORDINARY,
    Connections,
    Manner,
    connection_origin,
    is_closed_by_peer,
)
from lycosa.stages.fetch.repeats import Sign, reason_of_repeat, sign_in

A, B = "https://a.example", "http://b.example:81"


@pytest.mark.parametrize(
    ("value", "idle_s"),
    [
        ("timeout=5, max=100", 4),
        ("max=100,timeout=5", 4),
        ('Timeout = "20"', 19),
        ("timeout=1", 0),
        ("timeout=0", 0),
        ("timeout=600", MAX_IDLE_S),
        ("max=5", MAX_IDLE_S),
        ("timeout=x", MAX_IDLE_S),
        ("", MAX_IDLE_S),
    ],
)
def test_the_announced_time_bounds_how_long_a_connection_may_be_idle(
    value: str, idle_s: int
) -> None:
    connections = Connections()
    connections.note_announced(A, value)
    assert connections.manner(A, 0.0) == Manner(idle_s)
    assert connections.manner(B, 0.0) == ORDINARY


def test_an_announcement_holds_until_the_next_answer() -> None:
    connections = Connections()
    connections.note_announced(A, "timeout=5")
    connections.note_announced(A, "")
    assert connections.manner(A, 0.0) == ORDINARY


def test_an_origin_that_closed_without_an_answer_gets_new_connections_for_a_while() -> None:
    connections = Connections()
    connections.note_closed(A, 10.0)
    connections.note_announced(A, "timeout=60")
    assert [connections.manner(A, at).idle_s for at in (10.0, 9.0 + FRESH_S, 10.0 + FRESH_S)] == [
        0,
        0,
        59,
    ]
    assert connections.manner(B, 10.0) == ORDINARY


def test_an_origin_that_wants_http1_gets_it_for_a_while() -> None:
    connections = Connections()
    connections.note_http1(A, 10.0)
    assert [connections.manner(A, at).http2 for at in (10.0, 10.0 + FRESH_S)] == [False, True]


def test_where_no_connections_are_kept_none_is() -> None:
    connections = Connections(keeps=False)
    connections.note_announced(A, "timeout=60")
    assert connections.manner(A, 0.0).idle_s == connections.manner(B, 0.0).idle_s == 0


def test_the_origins_that_are_remembered_are_bounded() -> None:
    connections = Connections(size=3)
    for number in range(10):
        connections.note_closed(f"http://h{number}.example", 0.0)
    connections.note_announced(A, "")  # nothing to remember
    assert len(connections) == 3 and "3 of 3" in repr(connections)
    assert connections.manner("http://h9.example", 1.0).idle_s == 0


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="this system cannot tell")
def test_a_connection_that_the_other_side_closed_is_not_used() -> None:
    connections = Connections()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connections.note_opened(A, ours.fileno())
        assert connections.manner(A, 0.0) == ORDINARY
        theirs.send(b"bytes that nobody has read are no end")
        assert connections.manner(A, 0.0) == ORDINARY
        theirs.shutdown(socket.SHUT_WR)
        assert connections.manner(A, 0.0) == Manner(is_new=True)
        number = ours.fileno()
    assert not is_closed_by_peer(number)  # nothing is there any more
    assert not is_closed_by_peer(-1)


@pytest.mark.parametrize(("url", "origin"), [("https://a.example/x/y?z", A), (f"{B}/", B)])
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert connection_origin(url) == origin


@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        ([], Reason.REQUEST_UNANSWERED),
        (["Reusing existing http: connection with host a"], Reason.REQUEST_UNANSWERED),
        (
            ["HTTP/2 stream 1 refused by server, try again on a new connection"],
            Reason.REQUEST_REFUSED,
        ),
        (
            ["Reusing existing https: connection with host a", "HTTP/2 stream 3 refused by server"],
            Reason.REQUEST_REFUSED,
        ),
        (
            ["received GOAWAY, error=0, last_stream=0", "HTTP/2 stream 1 refused by server"],
            Reason.REQUEST_REFUSED,
        ),
        (
            [
                "Reusing existing https:",
                "received GOAWAY, error=0, last_stream=1",
                "HTTP/2 stream 3 refused by server",
            ],
            Reason.REQUEST_UNANSWERED,
        ),
        (
            [
                "Reusing existing https:",
                "received GOAWAY, error=11, last_stream=1",
                "HTTP/2 stream 3 refused by server",
            ],
            Reason.REQUEST_REFUSED,
        ),
        (["HTTP/2 stream 1 reset by server (error 0xb ENHANCE_YOUR_CALM)"], Reason.REQUEST_REFUSED),
        (
            [
                "HTTP/2 stream 1 reset by server (error 0xd HTTP_1_1_REQUIRED)",
                "Downgrades to HTTP/1.1",
            ],
            Reason.REQUEST_UNANSWERED,
        ),
    ],
)
def test_what_a_repeat_means_is_read_from_the_trace(trace: list[str], reason: Reason) -> None:
    signs = Sign.NONE
    for line in trace:
        signs |= sign_in(line.encode() + b"\n")
    assert reason_of_repeat(signs)[0] is reason
