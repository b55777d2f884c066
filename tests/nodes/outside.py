"""An outside fetcher takes part, while shards move and owners die.

It leases URLs from whoever owns a shard, and returns the answers to the shard's owner at that time.
Its requests are in the web's own log with all others, so the judge of every history judges the
pauses between its requests and those of the owners.
"""

from __future__ import annotations

import random

from lycosa.base.calls import ResultVerdict
from lycosa.synthetic import SyntheticFetcher, VirtualClock
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH
from nodes.history import NodesHistory
from nodes.plugin import Plugin
from outside_fetching import OutsideFetcher

_LONGEST_REQUEST_S = 25.0
_LEAST_TAKEN = 10


class Outside(Plugin):
    """The fetcher works with all shards until the crawl is over."""

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        self._fetcher = OutsideFetcher(
            random.Random(f"outside {history.seed}"),
            lambda: VIRTUAL_EPOCH + self.world.now(),
            _LONGEST_REQUEST_S,
        )

    async def attend(self) -> None:
        world = self.world
        fetcher = SyntheticFetcher(
            world.answers, VirtualClock(), world.log, spool_dir=self.history.folder
        )
        for shard in range(world.shards):
            world.spawn(self._fetcher.work(shard, world.call_owner, fetcher))

    def judge(self) -> None:
        taken = self._fetcher.verdicts[ResultVerdict.TAKEN]
        assert taken >= _LEAST_TAKEN, f"only {taken} results were taken"
