"""The ``Addresses`` port on the machine's table.

The table answers at once from memory, so nothing here suspends: a call costs a tenth of a
microsecond more than the table's own.
"""

from __future__ import annotations

from lycosa.politeness.addresses import AddressTable


class MachineAddresses:
    """One worker's slots in the table that all processes of the machine share. Closing it closes
    the table.
    """

    __slots__ = ("_table",)

    def __init__(self, table: AddressTable) -> None:
        self._table = table

    async def take(self, address: str, now: float) -> float:
        """0.0 when the request may start now, else the seconds to wait."""
        return self._table.take(address, now)

    async def started(self, address: str, at: float, answered: float = 0.0) -> None:
        """The request left at ``at``, its answer began at ``answered``."""
        self._table.started(address, at, answered)

    async def release(self, address: str, now: float) -> None:
        """The request has ended."""
        self._table.release(address, now)

    def close(self) -> None:
        """Gives back all slots and forgets the file."""
        self._table.close()

    def __repr__(self) -> str:
        return f"<MachineAddresses {self._table!r}>"
