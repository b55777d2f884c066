"""Ports for programs that cannot choose one themselves."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Sequence

_FIRST, _SHARE, _SHARES = 10_000, 2_000, 5
_worker = int("".join(filter(str.isdigit, os.environ.get("PYTEST_XDIST_WORKER", ""))) or 0)
_chance = random.Random()
_given = set[int]()


def free_port(addresses: Sequence[str] = ("127.0.0.1",)) -> int:
    """A port that is free on all addresses, until the program that gets it listens, and while it is
    down.

    So it is below the range of outgoing connections, apart from those of ``script/services``, and
    in a part of that range which belongs to this process of pytest; and none is given twice.
    """
    first = _FIRST + _worker % _SHARES * _SHARE
    while True:
        port = _chance.randrange(first, first + _SHARE)
        if port not in _given and all(_is_free(address, port) for address in addresses):
            _given.add(port)
            return port


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((address, port))
        except OSError:
            return False
        return True
