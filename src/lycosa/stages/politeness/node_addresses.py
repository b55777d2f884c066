"""The ``Addresses`` port in plain memory, for several workers in one process.

The workers count as one machine, and the rules are those of the machine's table: a delay between
the starts of two requests to an address, and a number of requests that may be open, where each
worker applies its own settings to the requests of all. A worker that dies does not close its slots.
The node closes them for it, as the kernel releases the locks of a dead process. Addresses are never
forgotten.
"""

from __future__ import annotations

from math import inf

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.ports import SlotNote
from lycosa.stages.politeness.address_table import OWN_SLOT

_NO_SLOT_S = 0.05
_SEEN_SHARE = 0.5


class _Address:
    """One address: when its last request started, and how many are open."""

    __slots__ = ("last", "open")

    def __init__(self) -> None:
        self.last, self.open = -inf, 0


class NodeAddresses:
    """The addresses of one node. ``join`` returns a worker's slots."""

    def __init__(self) -> None:
        self._known: dict[str, _Address] = {}

    def join(self, section: PolitenessSection) -> WorkerAddresses:
        """A view with these settings for one worker."""
        return WorkerAddresses(self._known, section)

    def __repr__(self) -> str:
        return (
            f"<NodeAddresses {len(self._known)} addresses,"
            f" {sum(each.open for each in self._known.values())} requests open>"
        )


class WorkerAddresses:
    """The slots of one worker of a node."""

    def __init__(self, known: dict[str, _Address], section: PolitenessSection) -> None:
        self._known, self._delay_s, self._slots = (
            known,
            section.address_delay_s,
            section.address_slots,
        )
        self._held: dict[str, int] = {}

    async def take_slot(self, address: str, now: float, holder: object = None) -> float:
        """0.0 when the request may start now, otherwise the seconds to wait."""
        if (wait_s := self.wait_s(address, now)) > 0:
            return wait_s
        known = self._known[address]
        known.last, known.open = now, known.open + 1
        self._held[address] = self._held.get(address, 0) + 1
        return 0.0

    async def record_start(
        self, address: str, at: float, answered: float = 0.0, holder: object = None
    ) -> None:
        """Record that the request left at ``at`` and its response began at ``answered``.

        Up to half a delay is added for a server that read it late.
        """
        if not self._held.get(address):
            raise KeyError(address)
        known = self._known[address]
        known.last = max(known.last, at, min(answered, at + self._delay_s * _SEEN_SHARE))

    async def release_slot(self, address: str, now: float, holder: object = None) -> None:
        """Free the slot of a request that has ended."""
        self._give_back(address, 1)

    def describe_slot(self, address: str, at: float, holder: object = None) -> SlotNote:
        """A slot of a node is for a request that starts at once."""
        return OWN_SLOT

    def wait_s(self, address: str, now: float) -> float:
        """The seconds that ``take_slot`` would return; takes nothing."""
        known = self._known.setdefault(address, _Address())
        wait_s = known.last + self._delay_s - now
        if wait_s <= 0 and known.open >= self._slots:
            return max(_NO_SLOT_S, min(self._delay_s, 1.0))
        return max(wait_s, 0.0)

    def set_limits(self, delay_s: float, slots: int) -> None:
        """Change the limits that this worker applies from now on."""
        self._delay_s, self._slots = delay_s, slots

    def close(self) -> None:
        """Free all slots. May be called again."""
        for address, held in list(self._held.items()):
            self._give_back(address, held)

    def _give_back(self, address: str, count: int) -> None:
        left = self._held.pop(address) - count
        if left:
            self._held[address] = left
        self._known[address].open -= count

    def __repr__(self) -> str:
        return (
            f"<WorkerAddresses {sum(self._held.values())} slots held of {len(self._held)}"
            " addresses>"
        )
