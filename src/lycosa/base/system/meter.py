"""The meter: the numbers of a crawl, which display, ``status``, API and ``/metrics`` read.

A worker has one ``Meter``. The hot path only adds to objects that it was given once (``histogram``,
``counter``), which costs a fraction of a microsecond. Numbers that a part counts anyway are not
counted a second time: a reader that the part registers (``watch``) sets them when a snapshot is
taken. A ``MeterSnapshot`` is a value. Snapshots of several workers are merged by addition; the few
numbers whose sum makes no sense have the greatest or the smallest (``metric_catalogue``).

A counter of a process begins at zero with each process. ``carried`` keeps what ended processes
counted, so that the sum of a crawl never falls.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable

import msgspec

from lycosa.base.system.metric_catalogue import METRICS, Merge, Metric, MetricKind

Number = int | float
_MERGES: dict[Merge, Callable[[Number, Number], Number]] = {
    Merge.SUM: operator.add,
    Merge.GREATEST: max,
    Merge.SMALLEST: min,
}


class Distribution(msgspec.Struct):
    """The values of a histogram: how many fell into each bucket, and their sum.

    ``counts`` has one element for each bound of the metric, values up to that bound, and a last
    one for greater values.
    """

    counts: list[int]
    sum: float = 0.0

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self.counts)


class MeterSnapshot(msgspec.Struct, frozen=True):
    """Numbers by metric and label value; the label value of a metric without label is empty."""

    numbers: dict[str, dict[str, Number]] = {}
    distributions: dict[str, dict[str, Distribution]] = {}

    def number(self, name: str, value: str = "") -> Number:
        """One number; 0 when it was never set."""
        return self.numbers.get(name, {}).get(value, 0)

    def whole(self, name: str, value: str = "") -> int:
        """One number that is a count."""
        return int(self.number(name, value))

    def table(self, name: str) -> dict[str, int]:
        """The counts of a metric by label value."""
        return {value: int(number) for value, number in self.numbers.get(name, {}).items()}


class Counter:
    """A counter or gauge of one label value, for the hot path."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number: Number = 0

    def add(self, by: Number = 1) -> None:
        self.number += by


class Histogram:
    """The histogram of one label value, for the hot path."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


class Meter:
    """The numbers of one process. Names and label values are those of ``METRICS``.

    Raises ``ValueError`` for others, which is an error of the program.
    """

    def __init__(self) -> None:
        self._counters: dict[str, dict[str, Counter]] = {}
        self._histograms: dict[str, dict[str, Histogram]] = {}
        self._readers: list[Callable[[], None]] = []

    def counter(self, name: str, value: str = "") -> Counter:
        """The counter or gauge of a label value; the same object for the same arguments."""
        _check(name, value, is_histogram=False)
        return self._counters.setdefault(name, {}).setdefault(value, Counter())

    def histogram(self, name: str, value: str = "") -> Histogram:
        """The histogram of a label value; the same object for the same arguments."""
        metric = _check(name, value, is_histogram=True)
        found = self._histograms.setdefault(name, {})
        return found.get(value) or found.setdefault(value, Histogram(metric.bounds))

    def adopt(self, name: str, histogram: Histogram, value: str = "") -> None:
        """Show a histogram that another part has."""
        _check(name, value, is_histogram=True)
        self._histograms.setdefault(name, {})[value] = histogram

    def set(self, name: str, number: Number, value: str = "") -> None:
        """Set a gauge, or a counter that another part counts."""
        self.counter(name, value).number = number

    def set_table(self, name: str, table: dict[str, int]) -> None:
        """Set the numbers of all label values; those that are absent become 0."""
        for value, counter in self._counters.get(name, {}).items():
            if value not in table:
                counter.number = 0
        for value, number in table.items():
            self.set(name, number, value)

    def watch(self, read: Callable[[], None]) -> None:
        """Call ``read`` before each snapshot; it sets what another part counts."""
        self._readers.append(read)

    def stop_watching(self) -> None:
        """Keep the present numbers, because the parts that the readers read are closed."""
        self._readers.clear()

    def snapshot(self) -> MeterSnapshot:
        for read in self._readers:
            read()
        return MeterSnapshot(
            {
                name: {value: counter.number for value, counter in found.items()}
                for name, found in self._counters.items()
            },
            {
                name: {
                    value: Distribution(list(each.counts), each.sum)
                    for value, each in found.items()
                }
                for name, found in self._histograms.items()
            },
        )


def merged_snapshot(snapshots: Iterable[MeterSnapshot]) -> MeterSnapshot:
    """The snapshot of several workers or processes together."""
    numbers: dict[str, dict[str, Number]] = {}
    distributions: dict[str, dict[str, Distribution]] = {}
    for snapshot in snapshots:
        for name, table in snapshot.numbers.items():
            metric, sums = METRICS.get(name), numbers.setdefault(name, {})
            merge = _MERGES[metric.merge if metric is not None else Merge.SUM]
            for value, number in table.items():
                sums[value] = merge(sums[value], number) if value in sums else number
        for name, found in snapshot.distributions.items():
            whole = distributions.setdefault(name, {})
            for value, each in found.items():
                known = whole.get(value)
                whole[value] = _added(known, each) if known is not None else each
    return MeterSnapshot(numbers, distributions)


def carried(snapshot: MeterSnapshot) -> MeterSnapshot:
    """What a process that has ended leaves for the sum: its own counters and histograms."""

    def is_kept(name: str) -> bool:
        metric = METRICS.get(name)
        return metric is not None and metric.kind is MetricKind.COUNTER and not metric.is_stored

    numbers = {name: table for name, table in snapshot.numbers.items() if is_kept(name)}
    return MeterSnapshot(numbers, snapshot.distributions)


def _added(one: Distribution, other: Distribution) -> Distribution:
    counts = [a + b for a, b in zip(one.counts, other.counts, strict=True)]
    return Distribution(counts, one.sum + other.sum)


def _check(name: str, value: str, is_histogram: bool) -> Metric:
    metric = METRICS.get(name)
    if metric is None:
        raise ValueError(f"no metric {name!r}: add it to METRICS")
    if (metric.kind is MetricKind.HISTOGRAM) is not is_histogram:
        raise ValueError(f"{name} is a {metric.kind.value}")
    if bool(value) is not bool(metric.label) or (metric.values and value not in metric.values):
        raise ValueError(f"{name}: not a value of its label {metric.label!r}: {value!r}")
    return metric
