"""A run over a gathered state that fetches nothing: it takes all parcels and counts crashes.

One worker owns all partitions, so every parcel is between two of them and is taken exactly as
its receiver would take it (``IncomingParcels.take_own_parcels``). URLs that were in flight at a
crash become suspects, as at a start. Afterwards no outbox has a parcel.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lycosa.base.model.end import PreviousEnd
from lycosa.base.system.clock import SystemClock
from lycosa.base.system.memory_plan import fitted, memory_plan
from lycosa.base.urls.identity import hash8
from lycosa.moves.gathered import GatheredState
from lycosa.moves.idle_worker import idle_job, open_idle_worker
from lycosa.stages.frontier.crawl_clock import CrawlClock, time_after_takeover, time_at_start
from lycosa.state.commit import CommitLog, FileLog
from lycosa.state.folder.names import log_folder, stamp_of
from lycosa.state.folder.url_seen import known_hashes
from lycosa.state.kv.kv_port import Opener
from lycosa.state.kv.rocks import opener_within
from lycosa.state.shard.folder_snapshots import FolderSnapshots
from lycosa.state.shard.opened_shard import Shard, ShardStorage
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.worker.job import WorkerJob
from lycosa.worker.owned_shard import operator_delay_s, recent_hosts
from lycosa.worker.real_ports import cache_of, real_ports


async def drain_parcels(state: GatheredState) -> Mapping[bytes, float]:
    """Take all parcels of a gathered state.

    Returns the hosts (``host8``) that were requested so recently that their visit states may not
    tell it, with the crawl time before which they may not be requested again. Raises
    ``SettingsError`` when the memory is too little, the errors of the tables, and ``OSError``.
    """
    # the attempt logs of a cluster are not on this machine
    lost = PreviousEnd.ORDERLY if state.is_orderly else PreviousEnd.LOST
    end = PreviousEnd.CRASH if state.was_on_machine else lost
    config = msgspec.structs.replace(state.config, workers=1)
    plan = memory_plan(config)
    owned = range(state.manifest.identity.partitions)
    job = msgspec.structs.replace(
        idle_job(state.folder, fitted(config, plan), state.manifest, owned, end),
        last_commit=state.wall,
        plan=plan,
        time_base=_time_base(state),
    )
    clock = CrawlClock(SystemClock(), job.time_base)
    ahead = clock.time() - clock.monotonic()
    opener = opener_within(cache_of(plan))
    async with open_idle_worker(
        job, real_ports(job, opener, fetches=False), _shard(state, job, opener)
    ) as assembled:
        partitions = assembled.worker.frontier.partitions
        owner_of = assembled.intake.partition_of_host
        recent = recent_hosts(
            job, clock, lambda host: operator_delay_s(partitions.get(owner_of(host)), host)
        )
        await assembled.worker.committer.finish()
    return {hash8(host): until + ahead for host, until in recent.items()}


def _shard(state: GatheredState, job: WorkerJob, open_table: Opener) -> Shard:
    """All partitions as one shard, with a log that begins here."""
    term = state.term + 1
    snapshots = FolderSnapshots(state.folder, job.config, open_table, job.owned)
    data = {number: snapshots.restore_partition(number) for number in job.owned}
    for each in data.values():
        each.seen.rebuild(known_hashes(each.table), stamp_of(state.newest))
    log = FileLog(CommitLog(log_folder(state.folder), 0), term)
    return Shard(0, term, ShardStorage(log, SegmentFiles(state.folder, 0), snapshots), data)


def _time_base(state: GatheredState) -> float:
    clock = SystemClock()
    time_now = time_at_start if state.was_on_machine else time_after_takeover
    return time_now(clock.wall(), state.wall, state.time) - clock.monotonic()
