"""Parts of the status of a crawl: renders, late addresses, the cost of refetches, files by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lycosa.base.config.sections import RefetchSection
from lycosa.base.urls.identity import host_of
from lycosa.inspect.committed_state import TableView
from lycosa.stages.frontier.render_rows import waiting_rows
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.stages.schedule.refetch_demand import demand_at
from lycosa.stages.schedule.refetch_value import (
    at_mean_weight,
    first_price,
    mean_weight,
    weighed_pages,
)
from lycosa.state.store import layout
from lycosa.state.store.derived_files import folders_of_kinds
from lycosa.state.store.removed_files import removed_files
from lycosa.state.store.segments_port import StoredSegment

_HOSTS = 10  # that are listed


class WaitingRenders(msgspec.Struct, frozen=True):
    """Pages that are to be rendered, as of the last commit.

    ``due`` may be taken by a renderer or are with one, ``waiting`` wait for ``wants`` URLs that
    they load. ``hosts`` are the ten hosts with most of them, and their numbers.
    """

    due: int = 0
    waiting: int = 0
    wants: int = 0
    hosts: dict[str, int] = {}


class RenderTallies:
    """Adds up the partitions of a crawl."""

    def __init__(self) -> None:
        self._open: list[int] = []  # wants without an answer, of each page
        self._hosts: Counter[str] = Counter()

    def add_partition(self, view: TableView) -> None:
        for _, row in waiting_rows(view.scan):
            self._open.append(row.wants_left)
            self._hosts[host_of(row.page.url)] += 1

    def result(self) -> WaitingRenders:
        waiting = [number for number in self._open if number]
        hosts = dict(self._hosts.most_common(_HOSTS))
        return WaitingRenders(len(self._open) - len(waiting), len(waiting), sum(waiting), hosts)


MOST_LISTED = 10


class AddressWait(msgspec.Struct, frozen=True):
    """``hosts`` wait for a turn at the address, the last one for about ``wait_s`` seconds.

    ``price`` is that of a refetch at the address in days, 0 where it is the common one.
    """

    address: str
    hosts: int
    wait_s: float
    price: float = 0.0


class AddressWaits:
    """Hosts in the lines of addresses, of which there are as many as addresses have lines."""

    def __init__(self, address_delay_s: float) -> None:
        self._delay_s = address_delay_s
        self._waiting: dict[str, int] = {}
        self._prices: dict[str, float] = {}

    def add_host(self, record: VisitRecord) -> None:
        """Count a host if it waits for its address."""
        if record.line:
            self._waiting[record.line] = self._waiting.get(record.line, 0) + 1

    def add_prices(self, prices: Mapping[str, float]) -> None:
        """Take the prices of addresses that a partition goes by."""
        self._prices.update(prices)

    def worst(self, mean_weight: float) -> list[AddressWait]:
        """The addresses whose hosts wait longest, then those with the highest price."""
        named = self._waiting.keys() | self._prices.keys()
        waits = (
            AddressWait(
                address,
                hosts := self._waiting.get(address, 0),
                round(hosts * self._delay_s, 1),
                round(self._prices.get(address, 0.0) / mean_weight, 6),
            )
            for address in named
        )
        ordered = sorted(waits, key=lambda each: (-each.wait_s, -each.price, each.address))
        return ordered[:MOST_LISTED]


class RefetchCost(msgspec.Struct, frozen=True):
    """Expected refetches a day of ``pages`` at the ``price``, in days.

    It is ``refetch.price``, or the one that was found for the ``budget`` (``refetch.budget``, empty
    without one) as of the last commit. ``at_half`` and ``at_double`` are those at half and at
    double the price. Pages that are not refetched by their value are not among them, nor those that
    were last fetched by an older program. ``promised`` are refetches a day by ``every``, ``probes``
    the pages that no fetch is worth within four times their maximum interval.
    """

    pages: int
    price: float
    a_day: float
    at_half: float
    at_double: float
    budget: str = ""
    promised: float = 0.0
    probes: int = 0


def refetch_cost(
    section: RefetchSection, cells: Mapping[int, int], found: float = 0.0
) -> RefetchCost | None:
    """The cost, or ``None`` when no page is refetched by its value or promised.

    ``cells`` is that of ``Counters``, ``found`` the price that was found.
    """
    pages, weights = weighed_pages(section, cells)
    mean = mean_weight(pages, weights)
    section = at_mean_weight(section, mean)
    price = found if found and section.budget else first_price(section)
    here, half, double = (demand_at(section, cells, price * factor) for factor in (1.0, 0.5, 2.0))
    if not pages and not here.promised:
        return None
    at_price, at_half, at_double = (
        round(each.due + each.wished, 1) for each in (here, half, double)
    )
    promised = round(here.promised, 1)
    return RefetchCost(
        pages,
        round(price / mean, 9),
        at_price,
        at_half,
        at_double,
        section.budget,
        promised,
        here.probes,
    )


class Output(msgspec.Struct, frozen=True):
    """The files of one kind: their number, open ones among them, and bytes."""

    kind: str
    files: int
    open: int
    bytes: int


def outputs_of(folder: Path) -> list[Output]:
    """Files of a folder by kind, with open ones."""
    found = []
    for kind in (layout.WARC, layout.JOURNAL, *folders_of_kinds(folder)):
        sizes = [
            (path.name.endswith(layout.OPEN), _size(path)) for path in (folder / kind).glob("[!.]*")
        ]
        found.append(
            Output(
                kind,
                len(sizes),
                sum(is_open for is_open, _ in sizes),
                sum(size for _, size in sizes),
            )
        )
    for kind, names in (("state", "state"), ("log", "log")):
        sizes = [(False, _size(path)) for path in (folder / names).rglob("*") if path.is_file()]
        found.append(Output(kind, len(sizes), 0, sum(size for _, size in sizes)))
    return found


def removed_outputs(folder: Path) -> list[Output]:
    """Removed files by kind."""
    sizes: dict[str, list[int]] = {}
    for name, each in removed_files(folder).items():
        if not (folder / name).exists():
            sizes.setdefault(layout.file_kind(name), []).append(each.bytes)
    return [Output(kind, len(each), 0, sum(each)) for kind, each in sizes.items()]


def outputs_in(segments: list[StoredSegment]) -> list[Output]:
    """The same for a view without files."""
    opened = sum(not segment.is_closed for segment in segments)
    sizes = {
        layout.WARC: sum(each.length for each in segments),
        layout.JOURNAL: sum(each.journal_length or 0 for each in segments),
    }
    return [Output(kind, len(segments), opened, size) for kind, size in sizes.items()]


def _size(path: Path) -> int:
    """The size of a file; 0 when it was deleted meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        # A crawl that runs closes and deletes files between the listing and this line.
        return 0
