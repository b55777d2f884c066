"""The settings that change while the crawl runs (``config.live``), as one worker follows them.

A worker that takes over a shard starts with settings at least as new as those that the shard's last
commit names: until it is told them it starts no visit. Each commit names the version that the
worker follows, or waits for.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.config.live import with_live
from lycosa.config.sections import Config
from lycosa.frontier.frontier import Frontier
from lycosa.politeness.delay import longest_wait
from lycosa.worker.pacing import Pacing
from lycosa.worker.worker import Worker


class AppliedSettings:
    """One per worker. ``config`` is that of the start, ``committed`` the version that the shard's
    last commit names.
    """

    def __init__(
        self, config: Config, committed: int, worker: Worker, frontier: Frontier, pacing: Pacing
    ) -> None:
        self._config, self._committed = config, committed
        self._worker, self._frontier, self._pacing = worker, frontier, pacing
        self.version = 0
        worker.committer.settings = committed

    def __repr__(self) -> str:
        return f"<AppliedSettings version={self.version} committed={self._committed}>"

    def expect(self) -> None:
        """A coordinator will tell the settings: nothing is started before they are known."""
        self._worker.lacks_settings = self.version < self._committed

    def follow(self, version: int, values: Mapping[str, str]) -> None:
        """The coordinator's word: all live settings that differ from those of the start. An older
        version than the one that is followed changes nothing.
        """
        if version <= self.version:
            return
        config = with_live(self._config, values)
        self._pacing.section = config.politeness
        # What was stored under other settings may be longer than these allow, and stays.
        self._frontier.longest_wait_s = max(
            self._frontier.longest_wait_s, longest_wait(config.politeness)
        )
        self._worker.use_slots(config.fetch.slots)
        self.version = version
        self._worker.committer.settings = max(version, self._committed)
        self._worker.lacks_settings = version < self._committed
