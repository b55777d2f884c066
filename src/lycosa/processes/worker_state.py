"""The committed state of a running worker, as ``StateReader`` needs it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

import msgspec

from lycosa.base.system.clock import SystemClock
from lycosa.base.urls.identity import Canonicalizer, Sites
from lycosa.stages.parse.parent import ChildParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.state.folder.names import suffix_list
from lycosa.state.shard.live_view import LiveView
from lycosa.state.shard.opened_shard import Shard
from lycosa.state.shard.view import CrawlOrigin
from lycosa.state.store import SegmentFiles, SegmentReader
from lycosa.worker.assembly import Assembled
from lycosa.worker.job import WorkerJob

if TYPE_CHECKING:
    from lycosa.inspect.saved_settings import SavedSettings


class WorkerState:
    """The state of one worker. The tables of ``shard`` can be frozen (``viewable``)."""

    def __init__(self, job: WorkerJob, shard: Shard, assembled: Assembled) -> None:
        self._job, self._shard, self._assembled = job, shard, assembled
        is_cluster = job.cluster is not None
        # On one machine an earlier capture may be in a segment of another worker.
        self._segments = (
            cast(SegmentReader, shard.ground.segments) if is_cluster else SegmentFiles(job.folder)
        )
        self._origin = CrawlOrigin(
            f"shard {job.number}" if is_cluster else str(job.folder),
            job.manifest,
            lambda: self._sites,
            lambda: assembled.live.config,
            folder=None if is_cluster else job.folder,
            # Reading the attempt logs takes too long while a crawl runs.
            find_attempts=lambda partition: None,
            is_cluster=is_cluster,
        )
        self._canonicalizer = Canonicalizer(job.config.canonical)

    def open_view(self, partition: int | None) -> LiveView:
        """The state after the last commit. Waits for a write to the tables of the view."""
        shard = self._shard
        if partition is not None:
            shard = msgspec.structs.replace(shard, data={partition: shard.data[partition]})
        last = self._assembled.worker.committer.last
        return LiveView(self._origin, shard, self._segments, last)

    def saved_settings(self) -> SavedSettings:
        """The settings of the start, with the live ones that apply now."""
        # Most workers are never asked, so they do not load what answers.
        from lycosa.inspect.saved_settings import SavedSettings

        return SavedSettings(self._assembled.live.config, True, self._canonicalizer)

    def make_parser(self) -> ChildParser:
        """A parser with the limits of the crawl's."""
        config = self._job.config
        parser = ParserConfig(config.parse, config.canonical, config.agent.product)
        return ChildParser(parser, SystemClock())

    @cached_property
    def _sites(self) -> Sites:
        return Sites(suffix_list(self._job.folder))

    def __repr__(self) -> str:
        return f"<WorkerState {self._origin.name}>"
