"""``lycosa crawl --cluster``: give seeds to a crawl on many machines, and show its progress."""

from __future__ import annotations

import asyncio
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.cli.cluster_parts import reachable_cluster, tell_line
from lycosa.cli.crawl_seeds import CrawlSeeds, refusal_lines
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json

if TYPE_CHECKING:
    from lycosa.base.config.cluster_file import ClusterFile
    from lycosa.base.messages.coordinator_messages import ClusterStatus
    from lycosa.cli.crawl_display import Display
    from lycosa.cluster.serve.seed_caller import SeedsOutcome
    from lycosa.processes.supervisor import CrawlOutcome


def check_options(folder: Path | None, options: dict[str, Any]) -> None:
    """Refuse options that concern a crawl on one machine. Raises ``click.UsageError``."""
    if folder is not None:
        raise click.UsageError(
            "--dir and --cluster: a crawl is in a folder of this machine, or on a cluster"
        )
    if options.pop("feeds", ()):
        raise click.UsageError(
            "--feed: the nodes of a cluster write the topics NAME.pages and NAME.dlq instead"
        )
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if given:
        names = {"--config-file": "--config", "--pairs": "--set"}
        raise click.UsageError(
            f"{', '.join(names.get(name, name) for name in given)}: settings of a crawl on a"
            " cluster are given with `lycosa cluster init FILE --set KEY=VALUE`"
        )


def run(file: Path, seeds: CrawlSeeds, as_json: bool) -> ExitCode:
    """Give the seeds and follow the crawl; returns the exit code."""
    given = reachable_cluster(file)
    outcome = asyncio.run(_submit(given, seeds))
    return _report(given, outcome, seeds, as_json)


async def _submit(given: ClusterFile, seeds: CrawlSeeds) -> SeedsOutcome:
    from lycosa.cli.crawl_display import Display
    from lycosa.cluster.network.credentials import credentials_of
    from lycosa.cluster.serve.caller import CoordinatorFinder
    from lycosa.cluster.serve.seed_caller import SeedCaller

    display = Display(given.name, [f"crawl {given.name}, by {given.path}"])
    finder = CoordinatorFinder(given, credentials_of(given, display.show_line), display.show_line)
    seeds.tell = display.show_line
    submission = SeedCaller(finder, seeds, lambda status: _show(display, status), display.show_line)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # nohup has SIGHUP ignored
        if signal.getsignal(number) is not signal.SIG_IGN or number is signal.SIGINT:
            loop.add_signal_handler(number, submission.leave)
    with display:
        return await submission.run()


def _show(display: Display, status: ClusterStatus) -> None:
    from lycosa.cli.cluster_status import shards_line, state_line

    living = sum(not node.is_lost for node in status.nodes)
    display.more = [
        ("cluster", f"{counted(living, 'node')}, {shards_line(status)}"),
        ("state", state_line(status)),
    ]
    display.show_progress(status.progress)


def _report(
    given: ClusterFile, outcome: SeedsOutcome, seeds: CrawlSeeds, as_json: bool
) -> ExitCode:
    from lycosa.cli.crawl_summary import exit_code

    crawl = _crawl_outcome(outcome, [*seeds.refused, *outcome.refused])
    code = ExitCode.INTERRUPTED if outcome.is_running else exit_code(crawl)
    if as_json:
        emit_json(_values(given, outcome, crawl, code))
    else:
        for line in _lines(given, outcome, crawl, code):
            emit(clean(line))
    for line in refusal_lines(outcome.refused):
        tell_line(line)
    return code


def _crawl_outcome(outcome: SeedsOutcome, refused: list[tuple[str, str]]) -> CrawlOutcome:
    """The outcome in the form of a crawl on one machine."""
    from lycosa.base.messages.progress import Progress
    from lycosa.processes.supervisor import CrawlOutcome

    status = outcome.status
    return CrawlOutcome(
        end=status.end if status is not None else "",
        progress=status.progress if status is not None else Progress(),
        captured=outcome.captured,
        refused_seeds=refused,
        deaths=0,
        duration_s=outcome.duration_s,
    )


def _values(
    given: ClusterFile, outcome: SeedsOutcome, crawl: CrawlOutcome, code: ExitCode
) -> dict[str, Any]:
    """The summary as values for JSON."""
    from lycosa.cli.cluster_status import status_values
    from lycosa.cli.crawl_summary import end_of

    return {
        "crawl": given.name,
        "end": "" if outcome.is_running else end_of(crawl),
        "is_running": outcome.is_running,
        "exit_code": int(code),
        "duration_s": round(outcome.duration_s, 3),
        "seeds_given": outcome.given,
        "are_all_seeds_given": outcome.are_all_given,
        "refused_seeds": [{"seed": seed, "reason": reason} for seed, reason in crawl.refused_seeds],
        "captures_this_run": outcome.captured,
        "status": status_values(outcome.status) if outcome.status is not None else None,
    }


def _lines(
    given: ClusterFile, outcome: SeedsOutcome, crawl: CrawlOutcome, code: ExitCode
) -> list[str]:
    """The summary as text."""
    from lycosa.cli.cluster_status import damage_line
    from lycosa.cli.crawl_summary import count_lines, nothing_line, reason_lines, unread_seed_lines
    from lycosa.processes.status_file import held_up_by

    seeds = [f"{counted(outcome.given, 'seed')} given"] if outcome.given else []
    if not outcome.are_all_given:
        seeds.append("not all seeds were given: the same command gives the rest")
    if outcome.status is None:
        return [*seeds, f"no coordinator of {given.name} was found; the crawl was not changed"]
    if outcome.is_running:
        return [
            *seeds,
            f"the crawl {given.name} continues on its nodes",
            f"  lycosa crawl --cluster {given.path}   shows its progress again",
            f"  lycosa cluster stop {given.path}   ends it",
        ]
    progress, place = crawl.progress, f"--cluster {shlex.quote(str(given.path))}"
    lines = [*seeds, *count_lines(crawl), *reason_lines(progress.reasons)]
    if damaged := damage_line(progress):
        lines.append(damaged)
    if held_up := held_up_by(progress):
        lines.append(f"at the end it waited for {held_up}")
    if code is ExitCode.NOTHING_FETCHED:
        return [*lines, nothing_line(progress)]
    lines += unread_seed_lines(progress.unread_seeds, place)
    if crawl.end != "finished":
        lines.append(f"to continue: lycosa cluster resume {given.path}")
    return [*lines, f"  lycosa cluster status {given.path}"]
