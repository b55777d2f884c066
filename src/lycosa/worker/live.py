"""The settings that change while the crawl runs (``config.live``), as one worker follows them.

A worker that takes over a shard needs settings at least as new as the version that the shard's last
commit names. It starts no visit before it has received them. Each commit names the version that the
worker follows or waits for.
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
    """One per worker.

    ``config`` is the configuration of the start, ``committed`` the version that the shard's last
    commit names. The attribute ``config`` is the present configuration.
    """

    def __init__(
        self, config: Config, committed: int, worker: Worker, frontier: Frontier, pacing: Pacing
    ) -> None:
        self._config, self._committed = config, committed
        self._worker, self._frontier, self._pacing = worker, frontier, pacing
        self.config, self.version = config, 0
        worker.committer.settings = committed

    def __repr__(self) -> str:
        return f"<AppliedSettings version={self.version} committed={self._committed}>"

    def expect(self) -> None:
        """Start nothing before the settings are known, because a coordinator will send them."""
        self._worker.lacks_settings = self.version < self._committed

    def follow(self, version: int, values: Mapping[str, str]) -> None:
        """Follow the coordinator's settings: all live settings that differ from those of the start.

        A version that is not newer than the current one is ignored.
        """
        if version <= self.version:
            return
        config = with_live(self._config, values)
        self._pacing.section = config.politeness
        # Waits stored under earlier settings may be longer than these allow, and remain valid.
        self._frontier.longest_wait_s = max(
            self._frontier.longest_wait_s, longest_wait(config.politeness)
        )
        self._worker.use_slots(config.fetch.slots)
        self.config = config
        self.version = version
        self._worker.committer.settings = max(version, self._committed)
        self._worker.lacks_settings = version < self._committed
