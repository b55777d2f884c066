"""Changes live settings of a crawl for commands."""

from __future__ import annotations

import asyncio
from typing import Any

from lycosa.cli.callable_crawl import coordinated_crawl, crawl_runs
from lycosa.cli.cluster_parts import reachable_cluster, tell_line
from lycosa.cli.cluster_status import ask_coordinator
from lycosa.cli.crawl_reading import CrawlPlace

_PATIENCE_S = 60.0


def change_live_settings(place: CrawlPlace, values: dict[str, str], by: str, why: str) -> None:
    """Change live settings of a crawl, which may be running or stopped, or of a cluster.

    ``by`` and ``why`` are for the log of actions. Raises ``SettingsError`` for a bad value.
    """
    from lycosa.base.config.live_settings import check_live
    from lycosa.base.messages.coordinator_messages import ChangeSettings

    check_live(values)
    if place.cluster is not None:
        ask_coordinator(reachable_cluster(place.cluster), ChangeSettings(values, by, why))
    elif crawl_runs(place):
        asyncio.run(_change_running(place, ChangeSettings(values, by, why)))
    else:
        from lycosa.processes.callable_folder import change_stopped_settings

        change_stopped_settings(place.folder, values, by, why)


async def _change_running(place: CrawlPlace, change: Any) -> None:
    from lycosa.cluster.serve.caller import CoordinatorFinder

    crawl = coordinated_crawl(place)
    finder = CoordinatorFinder(crawl.coordinator, crawl.credentials, tell_line)
    async with await finder.connect(_PATIENCE_S) as connection:
        await connection.request(change)
