"""What a coordinator reports to callers about the crawl, and why it refuses requests."""

from __future__ import annotations

import msgspec

from lycosa.base.config.live_settings import changed_meanwhile, check_live
from lycosa.base.config.sources import SettingsError
from lycosa.base.messages import coordinator_messages as messages
from lycosa.base.messages.control_records import EndSaved, SettingsSaved
from lycosa.base.messages.progress import Progress, total
from lycosa.base.model.code_version import objection_to, shown_digest
from lycosa.base.model.end import End
from lycosa.cluster.coordinator.placement import Placement
from lycosa.cluster.coordinator.shard_owners import ShardOwners


class Decisions(msgspec.Struct, frozen=True):
    """The decisions of the coordinator of that number, and the number of open requests."""

    number: int
    end: EndSaved
    settings: SettingsSaved
    expects_asks: bool
    open_requests: int


def cluster_status(
    crawl: str, decided: Decisions, placement: Placement, shard_owners: ShardOwners, now: float
) -> messages.ClusterStatus:
    """Everything that is known at the time ``now``."""
    return messages.ClusterStatus(
        crawl=crawl,
        coordinator=decided.number,
        nodes=_nodes(placement, now),
        most_nodes=placement.most_nodes,
        shards=_shards(placement, shard_owners),
        progress=_progress(shard_owners, decided.settings.is_paused and not decided.end.end),
        end=decided.end.end,
        at_once=decided.end.at_once,
        is_over=placement.are_over,
        is_quiet=placement.is_quiet(now),
        expects_asks=decided.expects_asks,
        open_requests=decided.open_requests,
        settings_version=decided.settings.version,
        settings=decided.settings.values,
        is_paused=decided.settings.is_paused,
        protocol=placement.rules.protocol,
        formats=placement.rules.formats,
        worker_deaths=placement.worker_deaths,
        clock_alarm=placement.clock_alarm,
        clock=placement.clock.value,
        code=decided.settings.code,
    )


def refusal_of(message: messages.CallerMessage, status: messages.ClusterStatus) -> str:
    """The reason to refuse a caller's request; empty if it is accepted."""
    names = [node.name for node in status.nodes]
    if isinstance(message, messages.Drain | messages.Move) and message.node not in names:
        known = f"; there are {', '.join(names)}" if names else "; no node has reported"
        return f"there is no node {message.node!r}{known}"
    # Its shards stay until another node can have them, and one that stops meanwhile has none.
    if isinstance(message, messages.Drain) and not (message.is_over or message.is_forced):
        return _drain_refusal(message.node, status)
    if isinstance(message, messages.Ask) and (
        unknown := [shard for shard in message.shards if not 0 <= shard < len(status.shards)]
    ):
        return f"there is no shard {unknown[0]}; they are 0 to {len(status.shards) - 1}"
    if isinstance(message, messages.Move):
        if not 0 <= message.shard < len(status.shards):
            return f"there is no shard {message.shard}; they are 0 to {len(status.shards) - 1}"
        node = next(node for node in status.nodes if node.name == message.node)
        if node.is_lost:
            return f"node {node.name} has not reported for {node.silent_s:.0f} s"
        if node.refusal:
            return f"node {node.name} gets no shards: {node.refusal}"
    if isinstance(message, messages.StopCrawl) and message.end not in [end.value for end in End]:
        return f"there is no end {message.end!r}"
    # A crawl that has ended requests nothing anyway; the operator meant another one, or comes late.
    if isinstance(message, messages.PauseCrawl) and status.end:
        then = "resume it first" if message.is_paused else "call again"
        return f"the crawl has ended ({status.end}); {then}"
    if isinstance(message, messages.UpgradeFormats):
        return _upgrade_refusal(message.number, status)
    if isinstance(message, messages.ChangeCode):
        return _code_refusal(message.digests, status)
    if isinstance(message, messages.ChangeSettings):
        try:
            check_live(message.values)
        except SettingsError as error:
            return "; ".join(error.problems)
        # Two operators at two pages: the second would undo the first without having seen it.
        if changed := changed_meanwhile(message.shown, status.settings):
            return "changed by another operator meanwhile: " + ", ".join(
                f"{key} is {value}, not {message.shown[key]}" for key, value in changed.items()
            )
    return ""


def _drain_refusal(name: str, status: messages.ClusterStatus) -> str:
    """Why a node is not drained unless the operator insists: no other one can have its shards."""
    others = [node for node in status.nodes if node.name != name]
    if any(not node.is_lost and (not node.refusal or node.is_spare) for node in others):
        return ""
    reasons = "; ".join(
        f"{node.name}: {'it does not report' if node.is_lost else node.refusal}" for node in others
    )
    return (
        f"no other node can have the shards of {name}{f' ({reasons})' if reasons else ''}: they"
        " stay there until one can, and a shard that stops meanwhile has no node. Start another"
        " node first, or add --force"
    )


def _upgrade_refusal(number: int, status: messages.ClusterStatus) -> str:
    if number > status.protocol:
        return (
            f"the coordinator reads formats up to number {status.protocol}, not {number}: install a"
            " newer version of lycosa and start it again"
        )
    behind = [
        node
        for node in status.nodes
        if node.protocol < number and not node.is_lost and not node.is_leaving
    ]
    if behind:
        names = ", ".join(f"{node.name} (up to {node.protocol})" for node in behind)
        return (
            f"these nodes cannot read formats of number {number}: {names}; install the version of"
            " the coordinator there, and start them again one after the other"
        )
    return ""


def _code_refusal(digests: dict[str, str], status: messages.ClusterStatus) -> str:
    """Why the crawl does not run that code: a connected node does not allow it."""
    if objection := objection_to(digests, status.code):
        return objection
    there = [node for node in status.nodes if not (node.is_lost or node.is_leaving)]
    for name, digest in digests.items():
        if digest and (lack := [node.name for node in there if digest not in node.code]):
            return (
                f"these nodes have not reported {name} (SHA-256 {shown_digest(digest)}):"
                f" {', '.join(lack)}; allow it there first: `lycosa node --allow {digest}`, or"
                " allow of [extensions] in their cluster.toml, which is read again while they run"
            )
    return ""


def _progress(shard_owners: ShardOwners, is_paused: bool) -> Progress:
    """The sum over all shards, with the rates and the processes of all."""
    reports = shard_owners.progress()
    memory = [
        msgspec.structs.replace(each, part=f"{each.part} {shard}")
        for shard, report in enumerate(reports)
        for each in report.memory
    ]
    progress = msgspec.structs.replace(total(reports), memory=memory, is_paused=is_paused)
    return progress.with_numbers({}, shard_owners.rates())


def _nodes(placement: Placement, now: float) -> list[messages.NodeStatus]:
    return [
        messages.NodeStatus(
            name=node.name,
            silent_s=max(now - node.heard, 0.0),
            is_lost=node.is_lost,
            is_draining=node.is_draining,
            refusal=placement.refusal(node),
            ahead_s=node.ahead_s,
            free_disk=node.report.free_disk,
            free_memory=node.report.free_memory,
            shards=[] if node.is_lost else sorted(node.shards),
            protocol=node.report.protocol,
            is_leaving=node.is_leaving,
            memory=node.report.memory,
            clock=node.clock.value,
            trouble=node.trouble if node.is_troubled(now) else "",
            is_spare=node.is_spare(placement.rules),
            code=node.report.code,
        )
        for node in placement.nodes.values()
        if node.report is not None
    ]


def _shards(placement: Placement, shard_owners: ShardOwners) -> list[messages.ShardStatus]:
    found = []
    for shard, place in enumerate(placement.places):
        entry, report = shard_owners[shard], place.report
        found.append(
            messages.ShardStatus(
                shard=shard,
                node=place.node,
                assignment=place.assignment,
                term=report.term if report is not None else -1,
                state=report.state.value if report is not None else "",
                why=report.why if report is not None else "",
                wanted=place.wanted,
                is_leaving=bool(place.leaving),
                address=entry.status.address if entry.status is not None else "",
                captures=entry.progress.captures,
                commits=entry.progress.commits,
                queued=entry.progress.states.get("queued", 0),
                is_idle=entry.progress.is_idle,
                waits_for=entry.progress.waits_for if shard_owners.owner(shard) is not None else "",
                is_unable=place.is_unable,
            )
        )
    return found
