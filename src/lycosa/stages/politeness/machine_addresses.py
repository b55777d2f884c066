"""The ``Addresses`` port on the machine's table.

The table answers at once from memory, so no method here suspends. A call costs a tenth of a
microsecond more than the table's method. While slots are held, the loop's timer tells the others
that their process is alive.
"""

from __future__ import annotations

import asyncio

from lycosa.base.ports import Clock, SlotNote
from lycosa.stages.politeness.address_table import OWN_SLOT, AddressTable


class MachineAddresses:
    """One worker's slots in the table that all processes of the machine share.

    Closing it closes the table.
    """

    __slots__ = ("_clock", "_table", "_timer")

    def __init__(self, table: AddressTable, clock: Clock) -> None:
        self._table, self._clock = table, clock
        self._timer: asyncio.TimerHandle | None = None

    async def take_slot(self, address: str, now: float, holder: object = None) -> float:
        """0.0 when the request may start now, otherwise the seconds to wait."""
        wait_s = self._table.take_slot(address, now)
        if wait_s <= 0 and self._timer is None:
            self._renew_later()
        return wait_s

    async def record_start(
        self, address: str, at: float, answered: float = 0.0, holder: object = None
    ) -> None:
        """Record that the request left at ``at`` and its response began at ``answered``."""
        self._table.record_start(address, at, answered)

    async def release_slot(self, address: str, now: float, holder: object = None) -> None:
        """Free the slot of a request that has ended."""
        self._table.release_slot(address, now)

    def describe_slot(self, address: str, at: float, holder: object = None) -> SlotNote:
        """A slot of this table is for a request that starts at once."""
        return OWN_SLOT

    def wait_s(self, address: str, now: float) -> float:
        """The seconds that ``take_slot`` would return; takes nothing, and may be outdated."""
        return self._table.wait_s(address, now)

    def set_limits(self, delay_s: float, slots: int) -> None:
        """Change the limits that this worker applies from now on."""
        self._table.set_limits(delay_s, slots)

    def close(self) -> None:
        """Free all slots and release the file."""
        if self._timer is not None:
            self._timer.cancel()
        self._table.close()

    def _renew_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._table.renew_s, self._renew)

    def _renew(self) -> None:
        self._timer = None
        if self._table.renew(self._clock.monotonic()):
            self._renew_later()
