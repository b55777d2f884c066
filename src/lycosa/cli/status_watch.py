"""``lycosa status --watch``: the progress of a running crawl, again and again until it ends.

On a terminal it is the live table of ``lycosa crawl``, elsewhere a line each time, or with --json
one JSON document a line. A crawl on this machine is read from its status file, one on a cluster is
asked of its coordinator, so watching costs the crawl nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from lycosa.base.messages.progress import Progress
from lycosa.cli.crawl_display import Display
from lycosa.cli.crawl_reading import CrawlPlace, reading_crawl
from lycosa.cli.output import ExitCode
from lycosa.cli.progress_rows import estimate_of
from lycosa.inspect.crawl_status import live_status, shown_status
from lycosa.processes.status_file import waiting_for


class WatchedState(NamedTuple):
    """One look at a crawl: its state in one line, its progress, and further rows of the table."""

    state: str
    progress: Progress
    rows: list[tuple[str, str]]


def watch_crawl(place: CrawlPlace, every_s: float, as_json: bool) -> ExitCode:
    """Watch a crawl until it ends, or until Ctrl-C. Raises the errors of reading it."""
    if place.cluster is not None:
        return _watch_cluster(place.cluster, every_s, as_json)
    from lycosa.inspect.running import is_running

    with reading_crawl(place):  # says what is wrong with a folder without a crawl
        if not is_running(place.folder):
            raise click.UsageError(
                f"the crawl does not run: {place.folder}; `lycosa status` without --watch shows"
                " what is on disk"
            )
        return _watch_folder(place.folder, every_s, as_json)


def print_metrics(place: CrawlPlace) -> ExitCode:
    """Print the metrics of a running crawl, for example for a textfile collector.

    Raises ``click.ClickException`` when it does not run.
    """
    from lycosa.base.system.metrics_text import metrics_text
    from lycosa.cluster.coordinator.crawl_metrics import crawl_metrics, progress_metrics

    if place.cluster is not None:
        from lycosa.cli.cluster_parts import reachable_cluster
        from lycosa.cli.cluster_status import ask_coordinator

        snapshot = crawl_metrics(ask_coordinator(reachable_cluster(place.cluster)))
    else:
        with reading_crawl(place):
            live = shown_status(live_status(place.folder, time.time()))
        if live is None:
            raise click.ClickException(
                f"the crawl in {place.folder} does not run, so it has no metrics;"
                " `lycosa status` without --metrics shows what is on disk"
            )
        snapshot = progress_metrics(live.progress, live.deaths)
    click.echo(metrics_text(snapshot), nl=False)
    return ExitCode.FINISHED


def _watch_folder(folder: Path, every_s: float, as_json: bool) -> ExitCode:
    from lycosa.inspect.running import is_running

    def look() -> WatchedState | None:
        live = shown_status(live_status(folder, time.time()))
        return WatchedState(live.state, live.progress, []) if live is not None else None

    return _watch(_looks(look, lambda: is_running(folder), every_s), str(folder), as_json, every_s)


def _watch_cluster(file: Path, every_s: float, as_json: bool) -> ExitCode:
    from lycosa.cli.cluster_parts import reachable_cluster
    from lycosa.cli.cluster_status import ask_coordinator, shards_line, state_line

    given = reachable_cluster(file)
    is_over = False

    def look() -> WatchedState:
        nonlocal is_over
        status = ask_coordinator(given)
        is_over = status.is_over
        return WatchedState(state_line(status), status.progress, [("shards", shards_line(status))])

    return _watch(_looks(look, lambda: not is_over, every_s), given.name, as_json, every_s)


def _looks(
    look: Callable[[], WatchedState | None], may_continue: Callable[[], bool], every_s: float
) -> Iterator[WatchedState | None]:
    """The crawl's state every ``every_s`` seconds; ``None`` while it writes none."""
    while may_continue():
        yield look()
        time.sleep(every_s)


def _watch(
    looks: Iterator[WatchedState | None], where: str, as_json: bool, every_s: float
) -> ExitCode:
    try:
        if as_json:
            for found in looks:
                print(json.dumps(_values(found)), flush=True)
        else:
            _show(looks, where, every_s)
    except KeyboardInterrupt:
        pass  # the operator has seen enough
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has ended
    return ExitCode.FINISHED


def _show(looks: Iterator[WatchedState | None], where: str, every_s: float) -> None:
    has_shown = False
    with Display(where, [f"watching {where}; Ctrl-C ends this, not the crawl"], every_s=0) as shown:
        for found in looks:
            if found is None:
                if not has_shown:
                    shown.show_line("the crawl has written no status yet; it may be starting")
            else:
                shown.state, shown.more = found.state, found.rows
                shown.show_progress(found.progress)
            has_shown = True
        shown.show_line("the crawl runs no more" if has_shown else "the crawl does not run")


def _values(found: WatchedState | None) -> dict[str, Any]:
    import msgspec

    if found is None:
        return {"state": "", "time": time.time()}
    progress = found.progress
    return {
        "state": found.state,
        "time": time.time(),
        "waiting_for": waiting_for(progress),
        "estimate": estimate_of(progress),
        **dict(found.rows),
        "progress": msgspec.to_builtins(progress),
    }
