"""The start of a request on the clock of the address pool, as the attempt log has it.

Machines have different clocks, and the pool's is the one by which all of them may be compared.
"""

from __future__ import annotations

from typing import NamedTuple

_SHARED, _DIVIDED = "shared", "divided"


class PoolTime(NamedTuple):
    """When a request started, by the pool that gave or recorded its slot.

    ``is_shared``: the pool gave the slot by the limits of the crawl; otherwise the machine's table
    gave it by divided ones. ``server`` names the server's life. The start was at ``latest_us``
    (microseconds of the server's clock) or up to ``width_us`` before.
    """

    is_shared: bool
    server: str
    latest_us: int
    width_us: int

    def text(self) -> str:
        """One field of the attempt log."""
        how = _SHARED if self.is_shared else _DIVIDED
        return f"{how}:{self.server}:{self.latest_us}:{self.width_us}"


def parse_pool_time(text: str) -> PoolTime | None:
    """The value of a field; ``None`` when it is empty. Raises ``ValueError``."""
    if not text:
        return None
    how, server, latest_us, width_us = text.split(":")
    if how not in (_SHARED, _DIVIDED):
        raise ValueError(f"{how!r} is no way to give a slot")
    return PoolTime(how == _SHARED, server, int(latest_us), int(width_us))
