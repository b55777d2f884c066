"""The price of a refetch as a host has it."""

from __future__ import annotations

from typing import NamedTuple


class HostPrice(NamedTuple):
    """The price of a fetch at a host in days, and the shortest interval of its probes in seconds.

    A probe is a page that no fetch is worth within its maximum interval. ``probe_s`` is 0 where
    probes may have that interval.
    """

    price: float
    probe_s: float = 0.0
