"""What limits the crawl at the moment, in sentences, the most important first.

What is not as it should be with coordinator, nodes and shards comes before what the hosts of the
crawl ask for. The page is the place where an operator looks when something is wrong, so a node that
is silent is named before anything moves because of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lycosa.base.messages.coordinator_messages import ClusterStatus, NodeStatus, ShardStatus
from lycosa.base.system.durations import short_duration
from lycosa.cluster.coordinator.crawl_metrics import unreported_shards
from lycosa.cluster.coordinator.forecast import Forecast, forecast_of
from lycosa.service.page.number_text import count_text

SILENT_S = 5.0
"""A node that has not reported for so long is shown; nodes report about once a second."""


def crawl_limits(status: ClusterStatus, slots: int) -> list[str]:
    """Why the crawl is not faster; each worker may have ``slots`` requests in flight."""
    return list(_limits(status, slots))


def _limits(status: ClusterStatus, slots: int) -> Iterator[str]:
    progress = status.progress
    if status.end:
        yield "The crawl is ending." if not status.is_over else "The crawl has ended."
        return
    yield from _by_parts(status)
    yield from _foreign(status)
    if status.is_paused:
        yield "An operator has paused the crawl."
        return
    yield from _waits(status)
    if progress.lacks_room:
        yield "The disk has less free space than store.min_free_bytes: no request is started."
    if progress.relief:
        yield f"Memory is short: a worker {progress.relief}."
    if progress.parser.away_why:
        yield f"No parser can be started: {progress.parser.away_why}."
    if progress.undelivered:
        yield f"URLs cannot be delivered: {progress.undelivered}."
    workers = sum(shard.state == "running" for shard in status.shards)
    if slots and workers and progress.running >= slots * workers:
        yield f"All {count_text(slots * workers)} request slots (fetch.slots) are in use."
    if progress.discovered:
        yield from _by_hosts(status)
    elif status.expects_asks and not unreported_shards(status):
        yield "It waits for seeds."


def _by_parts(status: ClusterStatus) -> Iterator[str]:
    """What is missing of coordinator, nodes and shards."""
    if status.is_quiet:
        yield "The coordinator has just started. It assigns shards when the nodes have reported."
    elif unreported := unreported_shards(status):
        yield (
            f"{count_text(unreported)} of {count_text(len(status.shards))} shards have not reported"
            " yet: the numbers are without theirs."
        )
    if alarm := status.clock_alarm:
        yield f"{alarm[0].upper()}{alarm[1:]}."
    if not status.nodes:
        yield "No node runs: start some with `lycosa node --cluster FILE`."
    for node in status.nodes:
        if node.silent_s > SILENT_S and node.shards:
            yield _silent_text(node)
    kinds: dict[str, Callable[[ShardStatus], bool]] = {
        "have no node": lambda shard: not shard.node,
        "failed": lambda shard: shard.state == "failed",
        "cannot run on their nodes": lambda shard: shard.is_unable and shard.state != "failed",
    }
    for meaning, is_so in kinds.items():
        found = [str(shard.shard) for shard in status.shards if is_so(shard)]
        if found and status.nodes and not status.is_quiet:
            yield f"These shards {meaning}: {', '.join(found)}. The page Workers says why."


def _foreign(status: ClusterStatus) -> Iterator[str]:
    """What other programs wrote into the topics."""
    counts = status.progress.meter.table("lycosa_foreign_records_total")
    if number := sum(counts.values()):
        records = "One record was" if number == 1 else f"{count_text(number)} records were"
        yield (
            f"{records} stepped over in the topics ({', '.join(sorted(counts))}): another program"
            " wrote there. Nothing is missing, but find out which program it is."
        )


def _silent_text(node: NodeStatus) -> str:
    shards = ", ".join(map(str, node.shards))
    return (
        f"Node {node.name} has not reported for {short_duration(node.silent_s)}. If it stays"
        f" silent, its shards ({shards}) move to other nodes."
    )


def _waits(status: ClusterStatus) -> Iterator[str]:
    """What coordinator and workers wait for outside themselves."""
    if status.waits_for:
        who = "The coordinator" if len(status.shards) > 1 else "It"
        yield f"{who} waits for {status.waits_for}."
    waiting = [shard for shard in status.shards if shard.waits_for]
    if waiting and len(status.shards) > 1:
        yield (
            f"{count_text(len(waiting))} of {count_text(len(status.shards))} workers wait; worker"
            f" {waiting[0].shard} for {waiting[0].waits_for}."
        )
    elif waiting:
        yield f"It waits for {waiting[0].waits_for}."


def _by_hosts(status: ClusterStatus) -> Iterator[str]:
    progress = status.progress
    queued = progress.states.get("queued", 0)
    if not queued:
        yield "No URL waits."
        return
    waiting = progress.hosts_snoozed + progress.hosts_front
    if not progress.hosts_ready:
        snoozed = progress.hosts_snoozed
        hosts = "One host was" if snoozed == 1 else f"{count_text(snoozed)} hosts were"
        yield (
            f"No host may be requested at this moment: {count_text(queued)} URLs wait for the"
            f" delays of their hosts.{f' {hosts} made to wait longer.' if snoozed else ''}"
        )
    elif waiting:
        ready = progress.hosts_ready
        hosts = "One host" if ready == 1 else f"{count_text(ready)} hosts"
        yield f"{hosts} may be requested now."
    if forecast := forecast_of(progress):
        yield _forecast_text(forecast)


def _forecast_text(forecast: Forecast) -> str:
    """How long the crawl will still take, and what decides it."""
    about = "at least" if forecast.is_least else "about"
    text = f"It will take {about} {short_duration(forecast.seconds)}"
    if forecast.is_limited_by_captures:
        return f"{text}, until the limit on captures."
    if forecast.host is None:
        return f"{text}, limited by the rate of {forecast.rate:.3g} URLs a second."
    hosts = "one host" if forecast.hosts == 1 else f"{count_text(forecast.hosts)} hosts"
    note = forecast.host
    return (
        f"{text}, limited by the delay of {hosts}: {note.host} has {count_text(note.waiting)} URLs"
        f" at {note.delay_s:.3g} s each."
    )
