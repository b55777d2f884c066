"""``lycosa cluster drain``, ``move``, ``stop``, ``resume`` and ``set``: requests of an operator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.callable_crawl import remark_options
from lycosa.cli.cluster_parts import CLUSTER_FILE, reachable_cluster
from lycosa.cli.cluster_status import ask_coordinator, state_line
from lycosa.cli.output import ExitCode, emit

if TYPE_CHECKING:
    from lycosa.base.messages.coordinator_messages import ClusterStatus


@click.command("drain", short_help="Move all shards away from a node.")
@click.argument("file", type=CLUSTER_FILE)
@click.argument("node")
@click.option("--over", is_flag=True, help="The node may have shards again.")
@click.option("--force", is_flag=True, help="Also when no other node can have its shards.")
def drain(file: Path, node: str, over: bool, force: bool) -> int:
    """Give NODE no more shards, and move those that it runs to other nodes.

    Refused when no other node can have them; with --force the node keeps them until one can. A
    drained node may be switched off when `lycosa cluster status` shows no shard on it.
    """
    from lycosa.base.messages.coordinator_messages import Drain

    found = ask_coordinator(reachable_cluster(file), Drain(node, over, force))
    left = sum(shard.node == node for shard in found.shards)
    emit(
        f"{node} may have shards again"
        if over
        else f"{node} gets no more shards; it runs {left} now (`lycosa cluster status` shows them)"
    )
    return ExitCode.FINISHED


@click.command("move", short_help="Move a shard to a node.")
@click.argument("file", type=CLUSTER_FILE)
@click.argument("shard", type=click.IntRange(min=0))
@click.argument("node")
def move(file: Path, shard: int, node: str) -> int:
    """Move SHARD (a number) to NODE, which takes 10 to 20 seconds."""
    from lycosa.base.messages.coordinator_messages import Move

    ask_coordinator(reachable_cluster(file), Move(shard, node))
    emit(f"shard {shard} moves to {node}; `lycosa cluster status` shows when it runs there")
    return ExitCode.FINISHED


@click.command("stop", short_help="End the crawl; it can be resumed.")
@click.argument("file", type=CLUSTER_FILE)
@click.option("--now", is_flag=True, help="Abort requests in flight; their URLs stay queued.")
@remark_options
def stop(file: Path, now: bool, why: str, by: str) -> int:
    """End the crawl on all nodes: workers finish what is in flight, commit, and end."""
    from lycosa.base.messages.coordinator_messages import StopCrawl
    from lycosa.base.model.end import End

    found = ask_coordinator(reachable_cluster(file), StopCrawl(End.STOPPED.value, now, by, why))
    emit(f"{found.crawl}: {state_line(found)}; `lycosa cluster resume {file}` continues it")
    return ExitCode.FINISHED


@click.command("resume", short_help="Continue a crawl that ended.")
@click.argument("file", type=CLUSTER_FILE)
@remark_options
def resume(file: Path, why: str, by: str) -> int:
    """Continue a crawl that was stopped, reached a limit, or finished.

    It continues under the limits that are stored now. `lycosa crawl URL --cluster FILE` continues
    it as well.
    """
    from lycosa.base.messages.coordinator_messages import MoreAsks, NoMoreAsks, PauseCrawl

    given = reachable_cluster(file)
    found = ask_coordinator(given)
    if not found.end and not found.progress.discovered:
        raise click.UsageError(
            f"{found.crawl} has not ended ({state_line(found)}); `lycosa crawl URL --cluster"
            f" {file}` gives it seeds"
        )
    found = ask_coordinator(given, MoreAsks(), PauseCrawl(False, by, why), NoMoreAsks())
    emit(f"{found.crawl}: {state_line(found)}")
    return ExitCode.FINISHED


@click.command("set", short_help="Change settings while the crawl runs.")
@click.argument("file", type=CLUSTER_FILE)
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
@remark_options
def change(file: Path, pairs: tuple[str, ...], why: str, by: str) -> int:
    """Change settings of all workers at once, for example politeness.delay_s=5s.

    Only some settings can change while a crawl runs, those that `lycosa docs settings`
    marks "Live": the delays of hosts, the refetch of pages, fetch.slots and fetch.own_pages.
    """
    from lycosa.base.config.live_settings import check_live
    from lycosa.base.messages.coordinator_messages import ChangeSettings

    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"{pair}: write KEY=VALUE, for instance politeness.delay_s=2s")
        values[key.strip()] = value
    check_live(values)
    found = ask_coordinator(reachable_cluster(file), ChangeSettings(values, by, why))
    emit(f"settings, version {found.settings_version}: {_pairs(found)}")
    return ExitCode.FINISHED


COMMANDS = (drain, move, stop, resume, change)


def _pairs(found: ClusterStatus) -> str:
    return ", ".join(f"{key}={value}" for key, value in found.settings.items())
