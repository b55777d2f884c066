"""The crawl that a command of an operator changes: in a folder or on a cluster, running or stopped.

All are called in the same way (``CallableCrawl``); the folder of a stopped crawl is opened for it.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.cluster_parts import reachable_cluster, tell_line
from lycosa.cli.cluster_status import SEARCH_S, ask_coordinator
from lycosa.cli.crawl_reading import CrawlPlace
from lycosa.cli.option_sets import option_set

if TYPE_CHECKING:
    from lycosa.base.messages.coordinator_messages import CallerMessage, ClusterStatus
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.inspect.saved_settings import SavedSettings
    from lycosa.service.api.decision_calls import OperatorDecisions
    from lycosa.service.api.places import CallableCrawl, CoordinatedCrawl

_LOOK_S = 0.2  # between looks at a crawl that starts


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
    """A crawl that runs; one that is starting is waited for.

    Raises ``click.UsageError`` for a folder that cannot be called.
    """
    from lycosa.inspect.crawl_status import is_starting, live_status
    from lycosa.inspect.running import lock_holder
    from lycosa.service.api.places import ClusterCrawl, FolderCrawl

    if place.cluster is not None:
        return ClusterCrawl(reachable_cluster(place.cluster))
    while not (live := live_status(place.folder, now := time.time())) and crawl_runs(place):
        # It can be called from its first status on, and `serve` prints its address before that.
        if not is_starting(lock_holder(place.folder), now):
            break
        time.sleep(_LOOK_S)
    sockets = live.get("sockets", "")
    if not sockets:
        raise click.UsageError(
            f"{place.folder} is in use by a crawl that cannot be called; wait until it runs, or"
            " stop it first"
        )
    return FolderCrawl(place.folder, Path(sockets))


def _decider(context: click.Context, parameter: click.Parameter, value: str) -> str:
    return _bounded(context, parameter, value) or f"{acting_user()}@{socket.gethostname()}"


def acting_user() -> str:
    """The user's name, or the number of one that has none, as in a container with ``--user``."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return str(os.getuid())


def _bounded(context: click.Context, parameter: click.Parameter, value: str) -> str:
    from lycosa.base.calls import read_remark

    try:
        return read_remark(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


remark_options = option_set(
    click.option(
        "--why",
        default="",
        metavar="TEXT",
        callback=_bounded,
        help="A remark for the log of actions.",
    ),
    click.option(
        "--by",
        default="",
        metavar="NAME",
        callback=_decider,
        help="Who decides [USER@MACHINE].",
    ),
)
"""Add ``--why`` and ``--by``; the function gets both, ``by`` never empty."""


def ask_crawl(place: CrawlPlace, *messages: CallerMessage) -> ClusterStatus:
    """Make requests of the coordinator of a crawl that runs; returns the state after them.

    Raises ``NoCoordinator``, ``RequestRefused``, and ``click.UsageError`` as ``coordinated_crawl``.
    """
    if place.cluster is not None:
        return ask_coordinator(reachable_cluster(place.cluster), *messages)
    from lycosa.cluster.serve.caller import call_coordinator
    from lycosa.service.api.awake_crawl import COMMAND_PATIENCE_S

    crawl, patience_s = coordinated_crawl(place), COMMAND_PATIENCE_S if messages else SEARCH_S
    return asyncio.run(
        call_coordinator(crawl.coordinator, crawl.credentials, messages, tell_line, patience_s)
    )


def settings_in_force(place: CrawlPlace, reader: CrawlReader) -> SavedSettings:
    """The settings of a crawl, with the live ones of a cluster."""
    from lycosa.base.config.live_settings import with_live
    from lycosa.inspect.saved_settings import load_saved_settings

    saved = load_saved_settings(reader)
    if place.cluster is None:  # a running crawl saves each change in its folder
        return saved
    import msgspec

    return msgspec.structs.replace(saved, config=with_live(saved.config, ask_crawl(place).settings))


def change_live_settings(place: CrawlPlace, values: dict[str, str], by: str, why: str) -> None:
    """Change live settings of a crawl, which may be running or stopped, or of a cluster.

    ``by`` and ``why`` are for the log of actions. Raises ``SettingsError`` for a bad value.
    """
    from lycosa.base.config.live_settings import check_live
    from lycosa.base.messages.coordinator_messages import ChangeSettings

    check_live(values)
    if crawl_runs(place):
        ask_crawl(place, ChangeSettings(values, by, why))
    else:
        from lycosa.processes.callable_folder import change_stopped_settings

        change_stopped_settings(place.folder, values, by, why)
