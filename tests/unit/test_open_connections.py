"""Which connection is closed when there are too many, and what one client may hold."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from lycosa.service.api.open_connections import OpenConnection, OpenConnections, client_at
from lycosa.service.api.problems import Problem
from lycosa.service.api.quotas import Places


class Opened:
    """Connections with names; ``closed`` are those that were closed for others."""

    def __init__(self, most: int) -> None:
        self.all = OpenConnections(most)
        self.closed: list[str] = []

    def open(self, client: str, name: str) -> OpenConnection | None:
        one = OpenConnection(client, lambda: self.closed.append(name))
        return one if self.all.admit(one) else None


def test_the_oldest_without_a_request_of_the_client_with_most_is_closed() -> None:
    opened = Opened(4)
    opened.open("b", "b1")
    busy = opened.open("a", "a1")
    assert busy is not None
    opened.open("a", "a2")
    opened.open("a", "a3")
    opened.all.note_request(busy)
    opened.open("c", "c1")
    assert opened.closed == ["a2"] and len(opened.all) == 4
    opened.all.note_idle(busy)  # its request was answered, so it is the newest of its client
    opened.open("c", "c2")
    opened.open("c", "c3")
    assert opened.closed == ["a2", "a3", "c1"]


def test_a_new_connection_is_refused_while_all_others_have_requests() -> None:
    opened = Opened(2)
    for name in ("a1", "a2"):
        one = opened.open("a", name)
        assert one is not None
        opened.all.note_request(one)
    assert opened.open("b", "b1") is None and opened.closed == [] and len(opened.all) == 2


def test_what_is_counted_fits_what_is_open_after_any_steps() -> None:
    chance = random.Random(7)
    opened, known = Opened(20), dict[OpenConnection, bool]()
    for step in range(5000):
        if chance.random() < 0.5 or not known:
            one = opened.open(f"client {chance.randrange(6)}", str(step))
            if one is not None:
                known[one] = True
        else:
            one = chance.choice(list(known))
            act = chance.choice(["note_idle", "note_request", "remove"])
            getattr(opened.all, act)(one)
            known[one] = act == "note_idle"
        known = {one: idle for one, idle in known.items() if one in opened.all}
        idle = Counter(one.client for one, is_idle in known.items() if is_idle)
        assert len(opened.all) == len(known) <= 20
        assert {client: len(them) for client, them in opened.all._idle.items()} == idle
        assert opened.all._highest == max(idle.values(), default=0)


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        ("no: address", "no: address"),
    ],
)
def test_a_client_of_ipv6_is_a_network(address: str, client: str) -> None:
    assert client_at(address) == client


def test_one_client_takes_half_of_the_places_and_two_take_all() -> None:
    places = Places(4, "listeners of events")
    with places.hold("a"), places.hold("a"):
        with pytest.raises(Problem, match="this client has too many"), places.hold("a"):
            pass
        with places.hold("b") as held:
            held.add(1)
            with pytest.raises(Problem, match="there are too many"), places.hold("c"):
                pass
    assert places.taken == 0
    with places.hold("a", 2):
        assert places.taken == 2
