"""The operator changes refetch policies while machines die.

Whoever owns a shard, and however often it changes hands, the last rules are applied to all of its
records in the end: each fetched page has the interval of its rule, and the class of its policy.
"""

from __future__ import annotations

import asyncio

from judging import hosts_of
from lycosa.base.config.refetch_policies import class_of, policies_version
from lycosa.base.config.sections import RefetchSection
from lycosa.base.messages.coordinator_messages import CALLER, ChangeSettings
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import join_url
from lycosa.stages.frontier.policy_walk import walk_row
from lycosa.stages.schedule.refetch import kept_interval
from lycosa.state.kv.table_records import decode_url, prefix_end
from nodes.history import NodesHistory
from nodes.plugin import Plugin

RULES: tuple[tuple[str, ...], ...] = (
    ("* every 400d",),
    ("/0* never", "* every 300d"),
    ("re:[13579]$ never", "/2* every 200d", "* adaptive min=50d max=60d"),
)
_AGAIN_S = 5.0


class Policies(Plugin):
    """Three changes, some of them while a coordinator is replaced."""

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        self.moved = 0

    async def operate(self) -> None:
        for version, rules in enumerate(RULES, 1):
            await asyncio.sleep(self.history.chance.uniform(10.0, 80.0))
            self.history.tell(f"policies {rules}")
            change = ChangeSettings({"refetch.policies": str(list(rules)).replace("'", '"')})
            # a coordinator that is over, or has a successor, changes nothing: the operator repeats it
            while self.world.newest.coordinator.settings.version < version:
                self.world.newest.receive(CALLER, change)
                await asyncio.sleep(_AGAIN_S)

    def judge(self) -> None:
        assert self.world.newest.coordinator.settings.version == len(RULES)
        section = RefetchSection(policies=RULES[-1])
        for shard, table in self.history.final_tables().items():
            row = walk_row(table.get)
            assert (row.is_done, row.version) == (True, policies_version(section)), (shard, row)
            self.moved += row.moved
            names = {host8: each.host for host8, each in hosts_of(table).items()}
            for key, value in table.scan(b"U", prefix_end(b"U")):
                record = decode_url(value)
                history = record.history
                if record.state not in (UrlState.FETCHED, UrlState.REDIRECTED) or not history:
                    continue
                scheme = "https" if record.secure else "http"
                url = join_url(scheme, names[key[1:9]], record.target)
                wanted = int(kept_interval(section, url, float(history.interval_s)))
                assert history.interval_s == wanted, (url, history.interval_s, wanted)
                assert history.policy == class_of(section, url), url
                assert bool(record.due_at) == bool(wanted), url
