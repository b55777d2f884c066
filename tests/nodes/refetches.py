"""Pages are fetched again by their value, at a price that is found, while machines die.

Intervals are some tens of seconds, so a history has as many refetches as a crawl of a month has.
The operator changes policies and the budget meanwhile, and ends it in the end: nothing is due any
more. Until then each page is fetched again and again, whoever owns its shard; the price that commits
name has a number that never falls, and the audit recounts the cells of all pages (as of any
history).
"""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec

from judging import asked
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.messages.coordinator_messages import CALLER, ChangeSettings
from nodes.history import TROUBLE_S, NodesHistory
from nodes.plugin import Plugin

_AGAIN_S = 5.0
_QUIET_S = 240.0  # after the trouble, in which everything that is due gets its turn
_LONGEST_S = 60.0
_CHANGES = (
    {"refetch.policies": '["/0* every 40s"]'},
    {"refetch.budget": "2/s"},
    {"refetch.policies": '["re:[13]$ value min=30s", "* adaptive max=60s"]'},
    {"refetch.policies": "[]", "refetch.budget": "6/s"},
    {"refetch.policies": '["* every 40s"]'},
)
_END = {"refetch.policies": '["* never"]'}


class Refetches(Plugin):
    """``refetched`` is the number of refetches, ``price_number`` the greatest one of a commit."""

    FETCHES_ONCE = False

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        section = RefetchSection(
            rule=RefetchRule.VALUE, first_s=20.0, min_s=10.0, max_s=_LONGEST_S, budget="4/s"
        )
        history.config = msgspec.structs.replace(history.config, refetch=section)
        self.refetched = self.price_number = 0
        self._again: set[str] = set()

    async def operate(self) -> None:
        version = 0
        for version, change in enumerate(_CHANGES, 1):
            await asyncio.sleep(self.history.chance.uniform(20.0, 60.0))
            await self._change(version, change)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(TROUBLE_S + 60.0 - loop.time(), 0.0))
        before = len(asked(self.world.log))
        await asyncio.sleep(_QUIET_S)
        self._again = set(asked(self.world.log)[before:])
        await self._change(version + 1, _END)

    async def _change(self, version: int, values: dict[str, str]) -> None:
        self.history.tell(f"refetches {values}")
        # A coordinator that is over changes nothing, so the operator repeats it.
        while self.world.newest.coordinator.settings.version < version:
            self.world.newest.receive(CALLER, ChangeSettings(values))
            await asyncio.sleep(_AGAIN_S)

    def judge(self) -> None:
        times = Counter(asked(self.world.log))
        self.refetched = sum(times.values()) - len(times)
        pages = self.history.web.survey(self.history.seeds).pages
        forgotten = [url for url in pages if url not in self._again]
        assert not forgotten, (
            f"{len(forgotten)} of {len(pages)} pages were not fetched again in {_QUIET_S:.0f} s",
            forgotten[:3],
        )
        for shard in range(self.world.shards):
            numbers = [commit.price_number for commit in self.world.logs.commits(shard)]
            assert numbers == sorted(numbers), (shard, numbers)
            self.price_number = max(self.price_number, *numbers)
