"""Lines of hosts that wait outside the workbench because their address has enough hosts on it.

Thousands of shops or blogs may share one address, which gets a few requests a second whatever their
number. So the workbench takes only as many hosts of an address as it can use
(``Workbench.is_full``), and the others wait here. A line is a separate front queue for one address,
with the same bands, order, bound and rows (``front_queues``). It is in the table of the partition
that owns its hosts. ``AddressLines`` are the lines of a partition. ``LineTurns`` are those of a
worker, where the partitions of an address take turns.

**Memory.** The first hosts of each band of a line are in memory, as of a front queue. A line
without waiting hosts is forgotten when it is saved, unless hosts that came from it are on the
workbench.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from lycosa.stages.frontier.front_queues import FrontQueues
from lycosa.stages.frontier.turn_shares import SharedTurns
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import LINE_PREFIX, prefix_end

_LOOKED_AT = 16  # lines that are checked for room when a fetch slot finds no ready host


class AddressLines:
    """The lines of one partition, by address. They persist across runs."""

    def __init__(self, table: Overlay, bands: int, share: SharedTurns) -> None:
        """``bands`` and ``share`` are those of each line (``FrontQueues``)."""
        self._table = table
        self._bands, self._share = bands, share
        self._lines = {
            address: FrontQueues(table, bands, address, share)
            for key, _ in table.scan(LINE_PREFIX, prefix_end(LINE_PREFIX))
            if (address := key[len(LINE_PREFIX) :].decode())
        }

    def __len__(self) -> int:
        """Number of hosts that wait in lines."""
        return sum(map(len, self._lines.values()))

    def __repr__(self) -> str:
        return f"<AddressLines {len(self._lines)} lines waiting={len(self)}>"

    @property
    def addresses(self) -> Iterable[str]:
        return self._lines.keys()

    def line_of(self, address: str) -> FrontQueues:
        """The line of an address; a new one if there is none."""
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = FrontQueues(
                self._table, self._bands, address, self._share
            )
        return line

    def waiting_hosts(self, address: str) -> int:
        """Number of hosts that wait for room at an address."""
        line = self._lines.get(address)
        return len(line) if line is not None else 0

    def save(self) -> None:
        """Put what a start needs into the open batch."""
        for line in self._lines.values():
            line.save()
        for address in [address for address, line in self._lines.items() if not line.rows]:
            del self._lines[address]


def longest_line(lines: Iterable[AddressLines]) -> int:
    """The number of hosts that wait for the address that most wait for."""
    waiting: dict[str, int] = {}
    for each in lines:
        for address in each.addresses:
            waiting[address] = waiting.get(address, 0) + each.waiting_hosts(address)
    return max(waiting.values(), default=0)


class LineTurns:
    """The lines of all partitions of a worker. Partitions of an address take turns."""

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
        """Note that a host joined the line of an address."""
        if address not in self._known:
            self._known.add(address)
            self._addresses.append(address)

    def is_waited_for(self, address: str) -> bool:
        """Whether hosts wait for room at an address."""
        return address in self._known and any(
            each.waiting_hosts(address) for _, each in self._lines
        )

    def first_address(self, has_room: Callable[[str], bool]) -> str | None:
        """The next address in turn that has waiting hosts, and room on the workbench."""
        # Not all of them, of which there may be very many: this is asked when a fetch slot is free.
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
        """Take the next host of an address; return the number of its partition and the host."""
        for _ in range(len(self._lines)):
            number, lines = self._lines[0]
            self._lines.rotate(-1)
            if lines.waiting_hosts(address):
                for host8 in lines.line_of(address).pull_hosts(1):
                    return number, host8
        return None
