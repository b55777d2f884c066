"""How a worker uses the address pool, as it reports it to its coordinator."""

from __future__ import annotations

from enum import Enum

import msgspec


class PoolState(Enum):
    """What a worker knows about the pool."""

    SHARED = "shared"  # the limits of the crawl hold for all machines together
    DIVIDED = "divided"  # the pool answers, but does not know all requests
    AWAY = "away"  # it gives no answer


class PoolUse(msgspec.Struct, frozen=True):
    """How the pool is used. ``since`` is seconds since 1970, ``why`` says why it is not shared."""

    state: PoolState
    since: float
    why: str = ""
