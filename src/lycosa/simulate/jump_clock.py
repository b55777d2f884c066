"""The clock of a simulation: a number that the driver sets."""

from __future__ import annotations

SIMULATION_EPOCH = 1_750_000_000
"""Wall time at virtual time 0."""


class JumpClock:
    """The ``Clock`` port."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return SIMULATION_EPOCH + self.now

    async def sleep(self, delay_s: float) -> None:
        self.now += delay_s
