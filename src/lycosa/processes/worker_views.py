"""Views of a running worker's committed state, for the thread that answers questions about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from typing import cast

import msgspec

from lycosa.base.urls.identity import Sites
from lycosa.inspect.queries.question_thread import OpenView
from lycosa.state.folder.names import suffix_list
from lycosa.state.shard.live_view import LiveView
from lycosa.state.shard.opened_shard import Shard
from lycosa.state.shard.view import CrawlOrigin, rank_reader
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.state.store.segments_port import SegmentReader
from lycosa.worker.assemble import Assembled
from lycosa.worker.job import WorkerJob


def views_of_worker(job: WorkerJob, shard: Shard, assembled: Assembled) -> OpenView:
    """Opens views of ``shard``, whose tables can be frozen (``viewable_table``).

    A view shows the state after the last commit, with the live settings that apply now. Opening one
    waits for a write to the tables of the view.
    """
    is_cluster = job.cluster is not None
    # On one machine an earlier capture may be in a segment of another worker.
    segments = (
        cast(SegmentReader, shard.storage.segments) if is_cluster else SegmentFiles(job.folder)
    )
    origin = CrawlOrigin(
        f"shard {job.number}" if is_cluster else str(job.folder),
        job.manifest,
        cache(lambda: Sites(suffix_list(job.folder))),  # loaded when it is first needed
        lambda: assembled.live.config,
        folder=None if is_cluster else job.folder,
        # Reading the attempt logs takes too long during a crawl.
        find_attempts=lambda partition: None,
        is_cluster=is_cluster,
        # The worker has the files of its partitions.
        ranks=rank_reader(job.folder, None, job.manifest.identity.partitions),
    )

    @contextmanager
    def open_view(partition: int | None) -> Iterator[LiveView]:
        part = shard
        if partition is not None:
            part = msgspec.structs.replace(shard, data={partition: shard.data[partition]})
        last = assembled.worker.committer.last
        with closing(LiveView(origin, part, segments, last)) as view:
            yield view

    return open_view
