"""The ``Addresses`` port on the machine's table.

The table answers at once from memory, so no method here suspends. A call costs a tenth of a
microsecond more than the table's method.
"""

from __future__ import annotations

from lycosa.politeness.addresses import OWN_SLOT, AddressTable
from lycosa.ports import SlotNote


class MachineAddresses:
    """One worker's slots in the table that all processes of the machine share.

    Closing it closes the table.
    """

    __slots__ = ("_table",)

    def __init__(self, table: AddressTable) -> None:
        self._table = table

    async def take_slot(self, address: str, now: float, holder: object = None) -> float:
        """0.0 when the request may start now, otherwise the seconds to wait."""
        return self._table.take_slot(address, now)

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
        self._table.close()

    def __repr__(self) -> str:
        return f"<MachineAddresses {self._table!r}>"
