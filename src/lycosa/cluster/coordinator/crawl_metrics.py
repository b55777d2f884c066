"""The metrics of a whole crawl, from what its coordinator knows.

They are the snapshot of the meters of all workers, with numbers that no worker has: shards and
nodes, processes, uploads, the forecast. ``/metrics`` shows this snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from lycosa.base.messages.coordinator_messages import ClusterStatus, NodeStatus, ShardStatus
from lycosa.base.messages.progress import ProcessMemory, Progress
from lycosa.base.system.memory_relief import ReliefStep
from lycosa.base.system.meter import MeterSnapshot, Number
from lycosa.base.system.metric_catalogue import METRICS, MetricKind
from lycosa.cluster.coordinator.forecast import forecast_of

_DEATHS = "lycosa_worker_deaths_total"


def crawl_metrics(status: ClusterStatus, beside: Sequence[ProcessMemory] = ()) -> MeterSnapshot:
    """The metrics of a crawl, with processes ``beside`` it that its coordinator does not know.

    While a shard has not reported, for example after a start of the coordinator, a sum lacks its
    part. A counter would seem to be reset then, and a rate of it would be far too high. So counters
    and histograms are left out until all shards have reported.
    """
    nodes = [
        msgspec.structs.replace(node.memory, part=f"node {node.name}")
        for node in status.nodes
        if node.memory is not None and not node.is_lost
    ]
    memory = [*status.progress.memory, *nodes, *beside]
    progress = msgspec.structs.replace(status.progress, memory=memory)
    meter = progress_metrics(progress, status.worker_deaths)
    tables: dict[str, dict[str, Number]] = {
        "lycosa_shards": dict(Counter(map(_state_of_shard, status.shards))),
        "lycosa_nodes": dict(Counter(map(_state_of_node, status.nodes))),
        "lycosa_crawl_state": {crawl_state(status): 1},
        "lycosa_clocks": dict(
            Counter([status.clock, *(node.clock for node in status.nodes if not node.is_lost)])
        ),
        "lycosa_open_requests": {"": status.open_requests},
        "lycosa_coordinator_number": {"": status.coordinator},
    }
    for name in ("lycosa_shards", "lycosa_nodes", "lycosa_crawl_state", "lycosa_clocks"):
        tables[name] = {**dict.fromkeys(METRICS[name].values, 0), **tables[name]}
    numbers = {**meter.numbers, **tables}
    distributions = meter.distributions
    if unreported_shards(status):
        numbers = {name: table for name, table in numbers.items() if not _is_sum_of_counts(name)}
        distributions = {}
    return MeterSnapshot(numbers, distributions)


def crawl_state(status: ClusterStatus) -> str:
    """``running``, ``paused``, ``stopping`` or ``stopped``."""
    if status.end:
        return "stopped" if status.is_over else "stopping"
    return "paused" if status.is_paused else "running"


def unreported_shards(status: ClusterStatus) -> int:
    """How many shards no worker has reported the counts of, since the coordinator started."""
    return len(status.shards) - sum(status.progress.meter.table("lycosa_workers").values())


def progress_metrics(progress: Progress, worker_deaths: int = 0) -> MeterSnapshot:
    """The metrics of a crawl by its progress alone, and the number of workers that died."""
    numbers = dict(progress.meter.numbers)
    numbers[_DEATHS] = {"": worker_deaths}
    hosts = numbers.get("lycosa_hosts")
    if hosts is not None:
        resting = max(progress.hosts - sum(hosts.values()), 0)
        numbers["lycosa_hosts"] = {**hosts, "resting": resting}
    numbers["lycosa_next_ready_seconds"] = {"": progress.next_in_s}
    numbers["lycosa_waiting"] = {
        "disk": int(progress.lacks_room),
        "memory": int(progress.relief == ReliefStep.STOP.meaning),
        "parser": int(progress.parser.away_s > 0),
        "log_or_store": int(bool(progress.waits_for)),
    }
    numbers["lycosa_process_memory_bytes"] = {each.part: each.own_bytes for each in progress.memory}
    numbers["lycosa_process_cpu_seconds_total"] = {
        each.part: each.cpu_s for each in progress.memory
    }
    if (uploads := progress.uploads) is not None:
        numbers["lycosa_upload_files_total"] = {"": uploads.files}
        numbers["lycosa_upload_bytes_total"] = {"": uploads.bytes}
        numbers["lycosa_upload_waiting_files"] = {"": uploads.waiting_files}
        numbers["lycosa_upload_waiting_bytes"] = {"": uploads.waiting_bytes}
        numbers["lycosa_upload_failing_seconds"] = {"": uploads.failing_s}
    if webhooks := progress.webhooks:
        failing = [each for each in webhooks if each.failures]
        longest = max((each.failing_s for each in failing), default=0.0)
        delivered = sum(each.delivered for each in webhooks)
        numbers["lycosa_webhook_changes_total"] = {"": delivered}
        numbers["lycosa_webhooks"] = {
            "working": len(webhooks) - len(failing),
            "failing": len(failing),
        }
        numbers["lycosa_webhook_failing_seconds"] = {"": longest}
    if (forecast := forecast_of(progress)) is not None:
        kind = "at_least" if forecast.is_least else "about"
        numbers["lycosa_remaining_seconds"] = {kind: round(forecast.seconds, 1)}
    return MeterSnapshot(numbers, progress.meter.distributions)


def _state_of_shard(shard: ShardStatus) -> str:
    if not shard.node:
        return "unowned"
    return "unable" if shard.is_unable else shard.state or "starting"


def _state_of_node(node: NodeStatus) -> str:
    if node.is_lost:
        return "lost"
    if node.is_draining:
        return "draining"
    if node.refusal:
        return "refused"
    return "troubled" if node.trouble else "live"


def _is_sum_of_counts(name: str) -> bool:
    """Whether it is a sum of what workers count.

    Deaths are not: a worker that dies before its first report counts too.
    """
    metric = METRICS.get(name)
    return metric is not None and metric.kind is MetricKind.COUNTER and name != _DEATHS
