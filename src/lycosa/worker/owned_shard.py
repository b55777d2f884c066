"""What a worker owns, opened over its shard: partitions, frontier, crash counts, attempt log.

After a crash the order matters. Crashes are counted before a new attempt log is opened, because the
unfinished requests of the old one show what was in flight. Hosts are held back when the new log is
open.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from lycosa.base.config.sections import SeenUrlsKind as SeenChoice
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.due_band import DueJudgement
from lycosa.base.ports import Clock
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Sites, hash8, host_of, partition_of
from lycosa.stages.admit.budgets import over_discovery
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.frontier.change_signals import ChangeSignals, SignalJudgement
from lycosa.stages.frontier.crawl_clock import CrawlClock, ahead_s
from lycosa.stages.frontier.frontier import LONGEST_DUE_S, Frontier
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.visit_state import HostState, decode_visit
from lycosa.stages.frontier.workbench import Workbench
from lycosa.stages.politeness.delay import hosts_of_address, longest_delay, longest_wait
from lycosa.stages.schedule.due_judgement import judge_due
from lycosa.stages.schedule.price_in_force import PriceInForce
from lycosa.stages.schedule.priority import prioritizer
from lycosa.stages.schedule.refetch import kept_interval, longest_interval
from lycosa.stages.schedule.refetch_value import mean_weight, weighed_pages
from lycosa.stages.schedule.signal_belief import doubt_of, judge_signals, right_share
from lycosa.state.attempts import AttemptLog, CrashCounts, Since, boot_id, last_contacts, suspects
from lycosa.state.attempts.attempt_log import DEFAULT_KEEPING, LogOwner
from lycosa.state.attempts.shipping import SHIPPED_KEEPING
from lycosa.state.folder.names import addresses_path, attempts_folder, suffix_list
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import UrlRecord, encode_record, meta_key, prefix_end
from lycosa.state.shard.opened_shard import PartitionData, Shard
from lycosa.worker.job import WorkerJob
from lycosa.worker.machine_table import table_place

_COMMIT_MARGIN_S = 60.0


class OwnedShard(msgspec.Struct, frozen=True):
    """What one worker owns for one run, over its open shard.

    ``on_workbench`` has the names of the hosts that entered the workbench since they were last
    read.
    """

    job: WorkerJob
    opened: Shard
    clock: CrawlClock
    chance: random.Random
    sites: Sites
    partitions: Mapping[int, Partition]
    frontier: Frontier
    on_workbench: list[str]
    crashes: CrashCounts
    attempts: AttemptLog
    prices: PriceInForce


def open_owned_shard(job: WorkerJob, clock: CrawlClock, shard: Shard) -> OwnedShard:
    """Open what the worker owns, over an open shard. Blocks."""
    config, attempts = job.config, attempts_folder(job.folder)
    # The term is in it, so that a new owner does not repeat the choices of the one before.
    chance = random.Random(f"{config.seed}:{job.number}:{shard.term}")
    last = shard.last
    found = (last.price, last.price_number) if last is not None else (0.0, 0)
    prices = PriceInForce(config.refetch, *found)
    partitions = {
        number: _partition(job, number, data, clock, prices) for number, data in shard.data.items()
    }
    # The coordinator says that of the whole crawl within the first minute.
    cells = [weighed_pages(config.refetch, each.counters.cells) for each in partitions.values()]
    prices.follow_mean(mean_weight(sum(n for n, _ in cells), sum(w for _, w in cells)))
    sites = Sites(suffix_list(job.folder))

    def owner_of(host: str) -> int:
        return partition_of(sites.site_of(host), config.frontier.partitions)

    crashes = CrashCounts({n: p.table for n, p in partitions.items()}, owner_of, attempts)
    blamed = suspects(attempts, lambda host: owner_of(host) in partitions)
    crashes.after_restart(blamed, job.previous_end)
    reopen_allowed(partitions.values(), config.fetch.allow_addresses, clock.time())
    on_workbench: list[str] = []
    frontier = _frontier(job, partitions, on_workbench)
    log = AttemptLog(
        attempts,
        job.number,
        clock.wall(),
        clock.monotonic(),
        owner=LogOwner(shard.term, _place(job) if job.cluster is not None else ""),
        keeping=SHIPPED_KEEPING if job.cluster is not None else DEFAULT_KEEPING,
    )
    # After the log is open, because a request without an end counts as one that lasted until then.
    recent = recent_hosts(
        job, clock, lambda host: operator_delay_s(partitions.get(owner_of(host)), host)
    )
    # Outside fetchers may still request the URLs that an earlier owner lent them.
    lent = _lent_hosts(partitions, clock)
    frontier.hold_back(recent | {host: max(at, recent.get(host, at)) for host, at in lent.items()})
    return OwnedShard(
        job, shard, clock, chance, sites, partitions, frontier, on_workbench, crashes, log, prices
    )


def _partition(
    job: WorkerJob, number: int, data: PartitionData, clock: CrawlClock, prices: PriceInForce
) -> Partition:
    config = job.config

    def address_of(host8: bytes) -> str:
        # Hosts of an address that has enough turns need no look at their record.
        known = partition.visits.peek_record(host8) if prices.addresses else None
        return known.address if known is not None else ""

    def price_of(host8: bytes) -> float:
        return prices.of_host(host8, address_of(host8))

    def judge(host8: bytes, url: str, record: UrlRecord, now_wall: float) -> DueJudgement:
        return judge_due(prices.section, url, record, price_of(host8), now_wall)

    partition = Partition(
        number,
        Overlay(data.table),
        data.seen,
        config.frontier,
        FrontierRules(
            over_discovery=lambda usage: over_discovery(config.budgets, usage) is not None,
            prioritize=prioritizer(config.priority),
            forward=ChangeSignals(
                config.refetch,
                lambda: ahead_s(clock.time(), clock.wall()),
                SignalJudgement(judge_signals, right_share, doubt_of),
                config.sitemaps.min_s,
                price_of,
            ),
            kept_interval=kept_interval,
            look_at=lambda host8: prices.look_at(host8, address_of(host8)),
            host_prices=prices.hosts,
            has_host_prices=lambda: prices.uses_value,
            judge=judge if job.formats >= LATE_FIELDS else None,
            copies=config.copies,
            cold=config.cold,
            speculative_share=config.budgets.speculative_share,
            render=config.render,
        ),
        lists_known=config.seen.urls is SeenChoice.BLOOM,
        most_bounds=job.plan.note_hosts // job.plan.owned if job.plan else sys.maxsize,
    )
    prices.addresses.update(partition.address_survey.saved_prices)
    return partition


def _frontier(
    job: WorkerJob, partitions: Mapping[int, Partition], on_workbench: list[str]
) -> Frontier:
    config = job.config
    workbench = Workbench(config.politeness.address_slots)
    return Frontier(
        partitions.values(),
        workbench,
        config.frontier.workbench,
        hosts_of_address(config.politeness),
        longest_wait_s=max(longest_wait(config.politeness), config.retry.max_s),
        longest_due_s=max(LONGEST_DUE_S, longest_interval(config.refetch), config.retry.max_s),
        on_workbench=on_workbench,
    )


def _place(job: WorkerJob) -> str:
    """The machine and the address table on it: requests of one place wait for each other."""
    path = job.machine_table or addresses_path(job.folder.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    return table_place(path, job.config.politeness)


def _lent_hosts(partitions: Mapping[int, Partition], clock: Clock) -> dict[str, float]:
    """The earliest next fetch (monotonic) of hosts that outside fetchers may be requesting.

    The end of a lease is crawl time, and the wall clock may have been set forward since the last
    run. So the hosts wait as long as if they had just been lent.
    """
    now = clock.monotonic()
    return {
        host_of(row.url): now + row.busy_until - row.begun
        for partition in partitions.values()
        for row in partition.outside.rows()
    }


def operator_delay_s(partition: Partition | None, host: str) -> float:
    """The minimum pause that an operator decided for a host; 0 without a decision."""
    known = partition.visits.find_host(hash8(host)) if partition is not None else None
    return max(known.record.pace.operator_delay_s, 0.0) if known is not None else 0.0


def recent_hosts(
    job: WorkerJob, clock: Clock, own_delay_s: Callable[[str], float]
) -> dict[str, float]:
    """The earliest next fetch (monotonic) of hosts contacted since shortly before the last commit.

    Earlier contacts are in the committed visit states. A host whose request never ended waits the
    longest ordinary delay from now, or ``own_delay_s``, which an operator decided for it. So does
    every host after a reboot of the machine.
    """
    now, wall, longest = clock.monotonic(), clock.wall(), longest_delay(job.config.politeness)
    since = min(job.last_commit or wall, wall - longest) - _COMMIT_MARGIN_S
    # The times of the state are of the wall clock, which may have been set forward since. So hosts
    # that are recent by the monotonic clock are held as well.
    recent = Since(since, now - longest - _COMMIT_MARGIN_S, boot_id())
    held: dict[str, float] = {}
    for host, contact in last_contacts(attempts_folder(job.folder), recent).items():
        if contact.is_unfinished or contact.boot != boot_id():
            held[host] = now + max(longest, contact.delay_s, own_delay_s(host))
        else:
            held[host] = min(contact.monotonic, now) + contact.delay_s
    return held


# Reopens hosts that were retired for a forbidden address, when the settings change.
#
# A forbidden address is no outage. Its host is retired at once, and only a change of settings can
# help. So each partition stores the ranges that were allowed, and a run that allows other ranges
# scans its hosts once.


_ALLOWED_KEY = meta_key("allowed")


def reopen_allowed(partitions: Iterable[Partition], allowed: Sequence[str], now: float) -> int:
    """Reopen hosts that were retired for an address that is now in ``allowed`` (CIDRs); count them.

    ``now`` is crawl time.
    """
    wanted, guard = sorted(allowed), Guard(allowed)
    reopened = 0
    for partition in partitions:
        before = partition.table.get(_ALLOWED_KEY)
        if (msgspec.msgpack.decode(before) if before is not None else []) == wanted:
            continue
        # All are found before anything is written, because a scan of a table with open writes is
        # merged with them in memory as a whole.
        for host8 in list(_forbidden(partition, guard)):
            host = partition.visits.find_host(host8)
            if host is not None:
                partition.set_aside_hosts.reopen(host, now)
                reopened += 1
        partition.table.put(_ALLOWED_KEY, encode_record(wanted))
    return reopened


def _forbidden(partition: Partition, guard: Guard) -> Iterator[bytes]:
    """The hosts that were retired for an address that ``guard`` allows."""
    for key, value in partition.table.scan(b"H", prefix_end(b"H")):
        record = decode_visit(value)
        is_ours = record.state is HostState.RETIRED and record.reason is Reason.ADDRESS_FORBIDDEN
        if is_ours and guard.refusal(record.address) is None:
            yield key[1:]
