"""A crawl that runs, as commands of operators call it: in a folder, or on a cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.cluster_parts import reachable_cluster
from lycosa.cli.crawl_reading import CrawlPlace

if TYPE_CHECKING:
    from lycosa.service.api.places import ReachedCrawl


def running_crawl(place: CrawlPlace) -> ReachedCrawl | None:
    """The crawl, if its owners can be called; ``None`` for a folder whose crawl does not run."""
    if place.cluster is not None:
        from lycosa.service.api.places import ClusterCrawl

        return ClusterCrawl(reachable_cluster(place.cluster))
    from lycosa.inspect.crawl_status import live_status
    from lycosa.inspect.running import is_running

    if not is_running(place.folder):
        return None
    from lycosa.service.api.places import FolderCrawl

    sockets = live_status(place.folder, time.time()).get("sockets", "")
    if not sockets:
        raise click.UsageError(
            f"{place.folder} is in use by a crawl that cannot be called; wait until it runs, or"
            " stop it first"
        )
    return FolderCrawl(place.folder, Path(sockets))
