"""The state of the whole crawl as one JSON object, from what the coordinator knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from lycosa.base.messages.coordinator_messages import ClusterStatus, ShardStatus
from lycosa.base.messages.progress import Progress
from lycosa.base.reasons import Reason
from lycosa.cluster.coordinator.crawl_metrics import crawl_state, unreported_shards
from lycosa.service.api.answers import Rates

_HOST_COUNTS = ("ready", "snoozed", "benched", "front", "parked", "paused", "retired")


def counted_status(status: ClusterStatus, rates: Rates) -> dict[str, Any]:
    """The counters of ``GET /stats``."""
    progress = status.progress
    return {
        "crawl": status.crawl,
        "state": crawl_state(status),
        "end": status.end,
        "waits_for": status.waits_for or progress.waits_for,
        "urls": {"discovered": progress.discovered, **progress.states},
        "due_pages": progress.meter.table("lycosa_due_pages"),
        "renders": {
            "waiting": progress.meter.table("lycosa_render_queue_depth"),
            "ended": progress.meter.table("lycosa_renders_total"),
            "crowded_out": progress.meter.whole("lycosa_renders_crowded_out_total"),
            "renderers": [msgspec.to_builtins(each) for each in progress.renderers],
        },
        "leased": progress.leased,
        "captures": progress.captures,
        "pages": progress.pages,
        "requests": progress.requests,
        "body_bytes": progress.body_bytes,
        "failures": _reasons_that(progress, lambda reason: reason.is_failure),
        "refusals": _reasons_that(progress, lambda reason: reason.is_refusal),
        "refused_links": progress.rule_refusals,
        "remarks": _reasons_that(progress, lambda reason: reason.is_remark),
        "preferences": progress.stated,
        "rates": msgspec.to_builtins(rates),
        "hosts": {
            "known": progress.hosts,
            **{name: getattr(progress, f"hosts_{name}") for name in _HOST_COUNTS},
        },
        "fetching": progress.running,
        "next_in_s": progress.next_in_s if progress.next_in_s >= 0 else None,
        "slowest_hosts": [msgspec.to_builtins(note) for note in progress.slowest],
        "storage": {
            "commits": progress.commits,
            "unparsed": progress.unparsed,
            "free_bytes": progress.meter.number("lycosa_disk_free_bytes"),
        },
        "memory": {"held_bytes": progress.memory_bytes, "bound_bytes": progress.memory_bound},
        "workers": [_worker(shard) for shard in status.shards],
        "nodes": [
            {"name": node.name, "is_lost": node.is_lost, "shards": node.shards}
            for node in status.nodes
        ],
        "unreported_shards": unreported_shards(status),
        "settings_version": status.settings_version,
    }


def _worker(shard: ShardStatus) -> dict[str, Any]:
    return {
        "shard": shard.shard,
        "node": shard.node,
        "state": shard.state,
        "why": shard.why,
        "captures": shard.captures,
        "commits": shard.commits,
        "queued": shard.queued,
        "is_idle": shard.is_idle,
    }


def _reasons_that(progress: Progress, is_meant: Callable[[Reason], bool]) -> dict[str, int]:
    """The numbers of URLs by reason, for some of the reasons."""
    return {
        label: number
        for label, number in progress.reasons.items()
        if number and label.upper() in Reason.__members__ and is_meant(Reason[label.upper()])
    }


def frontier_counts(status: ClusterStatus) -> dict[str, Any]:
    """The counters of ``GET /frontier/stats``."""
    states = status.progress.states
    return {
        "discovered": status.progress.discovered,
        "size": states.get("queued", 0),
        "states": states,
        "queued": states.get("queued", 0),
        "due_pages": status.progress.meter.table("lycosa_due_pages"),
        "leased": status.progress.leased,
        "failed": states.get("failed", 0),
        "hosts": status.progress.hosts,
        "hosts_ready": status.progress.hosts_ready,
        "next_in_s": status.progress.next_in_s if status.progress.next_in_s >= 0 else None,
    }
