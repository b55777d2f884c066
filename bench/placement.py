"""What a coordinator's work costs, by shards and nodes: ``python -m bench.placement
[--sizes 16x4 1024x1024]``.

The real ``Coordinator``, without a network and without processes: nodes report every shard as
running, each on the node that has it. The coordinator ticks four times a second and handles one
report a second of each node, two statuses and two progress reports a second of each worker. Printed
are the processor times of one tick (the median of several, and the longest, which sums the reports
of all workers), of one message of each kind, and of the tick at which half of the nodes are lost and
their shards go to the others; and the part of a core that a second without losses takes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from bench.interpreter import described

from lycosa.base.config.sections import Config
from lycosa.base.messages.coordinator_messages import NodeReport, Said, ShardReport, ShardState
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.base.messages.worker_messages import WorkerStatus
from lycosa.base.system.metric_catalogue import METRICS, MetricKind
from lycosa.cluster.coordinator.coordinator import Coordinator

_SIZES = ("16x4", "128x16", "256x32", "512x64", "1024x64", "1024x1024")
_TICK_S = 0.25
_LONG_TICK_S = 8.0  # less than half of the time after which a node is lost
_ROUNDS = 8
_PLENTY = 1 << 40
_TERM = 1
_STATUS = WorkerStatus(_TERM, 0, 0, 0)
_PROGRESS = Progress().with_numbers(
    {},
    {
        name: dict.fromkeys(metric.values or ("",), 1)
        for name, metric in METRICS.items()
        if metric.kind is not MetricKind.HISTOGRAM
    },
)
"""A report with every metric, except histograms."""


class Load:
    """A coordinator whose shards are all placed, round robin, and what its nodes tell it."""

    def __init__(self, shards: int, nodes: int) -> None:
        self.shards, self.nodes = shards, nodes
        self.now = self._serial = 0.0
        self.coordinator = Coordinator(1, shards, Config().limits, ClusterRules(), 0.0)
        while self.now < 30.0:  # longer than a node may be silent: nothing is assigned before
            self.coordinator.tick(self.now, self.now)
            self.report_all()
            self.now += 1.0
        for shard in range(shards):
            self.tell(shard, _STATUS)
            self.tell(shard, _PROGRESS)
        assert all(self.coordinator.owner_of(shard) for shard in range(shards))

    def report_all(self, nodes: int = 0) -> None:
        self._serial += 1
        for node in range(nodes or self.nodes):
            self.report(node)

    def report(self, node: int) -> None:
        runs = [
            ShardReport(shard, _assignment(shard), _TERM, ShardState.RUNNING)
            for shard in range(node, self.shards, self.nodes)
        ]
        report = NodeReport(1.0, int(self._serial), 1, 0, self.now, _PLENTY, _PLENTY, runs)
        self.coordinator.handle_message(f"n{node}", report, self.now)

    def tell(self, shard: int, message: WorkerStatus | Progress) -> None:
        said = Said(shard, _assignment(shard), _TERM, message)
        self.coordinator.handle_message(f"n{shard % self.nodes}", said, self.now)

    def tick(self, seconds: float = _TICK_S) -> None:
        self.now += seconds
        self.coordinator.tick(self.now, self.now)

    def lose_half(self) -> float:
        """The milliseconds of the tick at which half of the nodes are lost."""
        for _ in range(4):
            self.report_all(self.nodes // 2)
            took = _cpu_ms(lambda: self.tick(_LONG_TICK_S))
            if any(not self.coordinator.owner_of(shard) for shard in range(self.shards)):
                return took
        raise AssertionError("no node was lost")


def _assignment(shard: int) -> int:
    return (1 << 32) + shard + 1


def _cpu_ms(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e3


def measure(shards: int, nodes: int) -> None:
    load = Load(shards, nodes)
    ticks = [_cpu_ms(load.tick) for _ in range(_ROUNDS)]
    tick = statistics.median(ticks)
    report = _cpu_ms(load.report_all) / nodes
    told = [
        _cpu_ms(lambda message=message: [load.tell(shard, message) for shard in range(shards)])  # type: ignore[misc]
        / shards
        for message in (_STATUS, _PROGRESS)
    ]
    core = (tick / _TICK_S + report * nodes + 2 * sum(told) * shards) / 10
    print(
        f"{shards:5} x {nodes:<5}: tick {tick:9.2f} ms (most {max(ticks):.2f}), report"
        f" {report:6.3f} ms, status {told[0]:6.3f} ms, progress {told[1]:6.3f} ms, half lost"
        f" {load.lose_half():7.2f} ms; {core:6.1f} % of a core",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Processor time of a coordinator.")
    parser.add_argument("--sizes", nargs="+", default=_SIZES, metavar="SHARDSxNODES")
    print(described().strip())
    for size in parser.parse_args().sizes:
        shards, _, nodes = size.partition("x")
        measure(int(shards), int(nodes))


if __name__ == "__main__":
    main()
