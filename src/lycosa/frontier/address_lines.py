"""Hosts that wait outside of the workbench because their address has enough hosts on it: a line for
each such address.

Thousands of shops or blogs can stand behind one address, which is asked a few times a second
whatever their number. So the workbench takes only as many hosts of an address as that can use
(``Workbench.is_full``); the others wait here. A line is a front queue of its own, with the bands,
the order, the bound and the rows of one (``front_queues``), in the table of the partition that owns
its hosts.

``AddressLines`` are the lines of a partition, ``LineTurns`` those of a worker, where the partitions
of an address take turns.

**Memory.** Of a line the first hosts of each band are in memory, as of a front queue; a line
without waiting hosts is forgotten when it is saved, unless hosts that came from it are on the
workbench.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from lycosa.frontier.front_queues import FrontQueues
from lycosa.kv.overlay import Overlay
from lycosa.kv.records import LINE_PREFIX, prefix_end

_LOOKED_AT = 16  # lines that are looked at for room when a fetch slot finds nothing ready


class AddressLines:
    """The lines of one partition, by address. They last from run to run."""

    def __init__(self, table: Overlay, bands: int) -> None:
        self._table = table
        self._bands = bands
        self._lines = {
            address: FrontQueues(table, bands, address)
            for key, _ in table.scan(LINE_PREFIX, prefix_end(LINE_PREFIX))
            if (address := key[len(LINE_PREFIX) :].decode())
        }

    def __len__(self) -> int:
        """Hosts that wait in lines."""
        return sum(map(len, self._lines.values()))

    def __repr__(self) -> str:
        return f"<AddressLines {len(self._lines)} lines waiting={len(self)}>"

    @property
    def addresses(self) -> Iterable[str]:
        return self._lines.keys()

    def line_of(self, address: str) -> FrontQueues:
        """The line of an address, made when there is none."""
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = FrontQueues(self._table, self._bands, address)
        return line

    def waiting_hosts(self, address: str) -> int:
        """Hosts that wait for room at an address."""
        line = self._lines.get(address)
        return len(line) if line is not None else 0

    def save(self) -> None:
        """Puts what a start needs into the open batch."""
        for line in self._lines.values():
            line.save()
        for address in [address for address, line in self._lines.items() if not line.rows]:
            del self._lines[address]


class LineTurns:
    """The lines of all partitions of a worker. ``pull_host`` takes from the partitions of an
    address in turn.
    """

    def __init__(self, lines: Iterable[tuple[int, AddressLines]]) -> None:
        self._lines = deque(lines)
        self._addresses: deque[str] = deque()
        self._known: set[str] = set()
        for _, each in self._lines:
            for address in each.addresses:
                self.note_line_up(address)

    def __repr__(self) -> str:
        return f"<LineTurns addresses={len(self._addresses)}>"

    def note_line_up(self, address: str) -> None:
        """A host lined up there."""
        if address not in self._known:
            self._known.add(address)
            self._addresses.append(address)

    def is_waited_for(self, address: str) -> bool:
        """Whether hosts wait for room at an address."""
        return address in self._known and any(
            each.waiting_hosts(address) for _, each in self._lines
        )

    def first_address(self, has_room: Callable[[str], bool]) -> str | None:
        """The next address, in turn, at which hosts wait and that has room on the workbench."""
        for _ in range(min(len(self._addresses), _LOOKED_AT)):
            address = self._addresses.popleft()
            if not self.is_waited_for(address):
                self._known.discard(address)
                continue
            self._addresses.append(address)
            if has_room(address):
                return address
        return None

    def pull_host(self, address: str) -> tuple[int, bytes] | None:
        """The number of the partition whose turn it is, and its next host."""
        for _ in range(len(self._lines)):
            number, lines = self._lines[0]
            self._lines.rotate(-1)
            if lines.waiting_hosts(address):
                for host8 in lines.line_of(address).pull_hosts(1):
                    return number, host8
        return None
