"""The crawl that a command of an operator changes: in a folder or on a cluster, running or stopped.

All are called in the same way (``CallableCrawl``); the folder of a stopped crawl is opened for it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.cluster_parts import reachable_cluster, tell_line
from lycosa.cli.crawl_reading import CrawlPlace

if TYPE_CHECKING:
    from lycosa.service.api.decision_calls import OperatorDecisions
    from lycosa.service.api.places import CallableCrawl, CoordinatedCrawl


def crawl_runs(place: CrawlPlace) -> bool:
    """Whether the crawl has its own owners; a crawl of a cluster is given some."""
    from lycosa.inspect import running

    return place.cluster is not None or running.is_running(place.folder)


@asynccontextmanager
async def callable_crawl(place: CrawlPlace) -> AsyncIterator[CallableCrawl]:
    """The crawl, whose owners can be called while this context lasts.

    Raises ``click.UsageError`` for a folder in use that cannot be called, and the errors of
    ``keep_awake`` and ``open_stopped_folder``.
    """
    if crawl_runs(place):
        from lycosa.service.api.awake_crawl import keep_awake

        crawl = coordinated_crawl(place)
        async with keep_awake(crawl, tell_line):
            yield crawl
    else:
        from lycosa.processes.callable_folder import open_stopped_folder

        async with open_stopped_folder(place.folder) as stopped:
            yield stopped


def operator_decisions(crawl: CallableCrawl) -> OperatorDecisions:
    """Makes an operator's decisions; waits a while for owners that do not answer."""
    from lycosa.service.api.api_job import ApiLimits
    from lycosa.service.api.awake_crawl import COMMAND_PATIENCE_S
    from lycosa.service.api.decision_calls import OperatorDecisions
    from lycosa.service.api.owner_calls import OwnerCalls

    calls = OwnerCalls(crawl, ApiLimits(), COMMAND_PATIENCE_S, tell_line)
    return OperatorDecisions(crawl.addressing, calls)


def coordinated_crawl(place: CrawlPlace) -> CoordinatedCrawl:
    """A crawl that runs. Raises ``click.UsageError`` for a folder that cannot be called."""
    from lycosa.inspect.crawl_status import live_status
    from lycosa.service.api.places import ClusterCrawl, FolderCrawl

    if place.cluster is not None:
        return ClusterCrawl(reachable_cluster(place.cluster))
    sockets = live_status(place.folder, time.time()).get("sockets", "")
    if not sockets:
        raise click.UsageError(
            f"{place.folder} is in use by a crawl that cannot be called; wait until it runs, or"
            " stop it first"
        )
    return FolderCrawl(place.folder, Path(sockets))
