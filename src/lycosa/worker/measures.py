"""Connects the parts of a worker with its meter.

The parts count what they do in plain attributes. Here each of them gets a reader, which copies the
numbers into the meter when a snapshot is taken, so nothing is counted twice and the hot path knows
no metric. Numbers that are costly to find (URL-seen may look through its filters) are read in a
bounded share of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lycosa.base.model.due_band import DueBand
from lycosa.base.model.url_state import UrlState
from lycosa.base.ports import Clock
from lycosa.base.reasons import Reason
from lycosa.base.system.meter import Meter
from lycosa.stages.fetch.dns import CachingResolver
from lycosa.stages.fetch.http_client import CurlFetcher
from lycosa.stages.frontier.address_lines import longest_line
from lycosa.stages.frontier.frontier import Frontier
from lycosa.state.shard.counters import Counters
from lycosa.worker.commit.reparser import Reparser
from lycosa.worker.extension_failures import ExtensionFailures
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.intake_parts import IntakeParts
from lycosa.worker.intake.render_queue import RenderQueue
from lycosa.worker.refetch_grids import RefetchReports
from lycosa.worker.render.desk import RenderDesk
from lycosa.worker.visit.pipeline import Pipeline
from lycosa.worker.visit.request_sender import RequestSender
from lycosa.worker.visit.visit_parts import VisitParts
from lycosa.worker.worker import Worker

_SHARE = 0.005  # of the loop's time, for numbers that are costly to find
_OFTEN_S = 5.0


def measured_worker(
    worker: Worker,
    intake: IntakeParts,
    visit: VisitParts,
    clock: Clock,
    failures: ExtensionFailures,
) -> Meter:
    """A meter that reads all parts of a worker."""
    meter = Meter()
    meter.set("lycosa_worker_starts_total", 1)
    partitions = list(worker.frontier.partitions.values())
    measure_sender(meter, visit.stages.sender)
    _measure_parser(meter, visit.pipeline, worker.reparsing)
    meter.adopt("lycosa_commit_seconds", worker.committer.commit_times)
    meter.adopt("lycosa_robots_age_seconds", visit.robots.ages)

    def read() -> None:
        _set_counts(meter, worker.committer.counted)
        _set_hosts(meter, [each.counters for each in partitions])
        _set_frontier(meter, worker.frontier, clock.monotonic())
        if worker.free_bytes:
            meter.set("lycosa_disk_free_bytes", worker.free_bytes)
        meter.set("lycosa_commits_total", worker.committer.commits)
        meter.set("lycosa_damaged_segments", len(worker.committer.damaged))
        meter.set("lycosa_fetches_in_progress", worker.running)
        is_idle = worker.is_idle or worker.is_drained
        meter.set_table("lycosa_workers", {"busy": int(not is_idle), "idle": int(is_idle)})
        robots = visit.robots
        meter.set_table(
            "lycosa_robots_lookups_total", {"hit": robots.ages.count, "miss": robots.misses}
        )
        meter.set_table("lycosa_robots_answers_total", robots.answers)
        meter.set("lycosa_robots_rules", robots.rules)
        if visit.tdm_files is not None:
            meter.set_table("lycosa_tdm_answers_total", visit.tdm_files.answers)
        meter.set_table("lycosa_contents_total", visit.capturing.contents)
        meter.set_table("lycosa_extension_failures_total", failures.counts)
        called = visit.code.caller.counts
        meter.set("lycosa_extension_pages_total", called.pages)
        meter.set("lycosa_extension_seconds_total", called.elapsed_s)
        meter.set("lycosa_extension_ends_total", called.overruns)
        waiting, lag_s = intake.outgoing.lag()
        meter.set("lycosa_parcels_waiting", waiting)
        meter.set("lycosa_parcel_lag_seconds", lag_s)

    meter.watch(read)
    meter.watch(_in_a_share(lambda: _set_seen(meter, worker, intake.intake), clock))
    pacing = visit.stages.pacing

    def read_lines() -> None:
        hosts = longest_line(each.lines for each in partitions)
        meter.set("lycosa_address_wait_seconds", hosts * pacing.section.address_delay_s)

    meter.watch(_in_a_share(read_lines, clock))
    return meter


def measure_sender(meter: Meter, sender: RequestSender) -> None:
    """Let the meter read the requests of a worker."""
    for phase, times in sender.times.items():
        meter.adopt("lycosa_fetch_seconds", times, phase)

    def read() -> None:
        meter.set("lycosa_requests_in_flight", sender.in_flight)
        meter.set("lycosa_address_slots", sender.slots.held)
        meter.set("lycosa_address_waits_total", sender.slots.waits)
        meter.set_table("lycosa_responses_total", sender.responses)
        meter.set_table("lycosa_request_errors_total", sender.errors)

    meter.watch(read)


def measure_refetches(meter: Meter, grids: RefetchReports) -> None:
    """Let the meter read the price of a refetch, and what it leads to."""

    def read() -> None:
        if not grids.prices.uses_value:
            return
        prices = grids.prices
        meter.set("lycosa_refetch_price", prices.price / prices.mean_weight)
        meter.set("lycosa_refetch_budget", grids.budget_a_day)
        meter.set("lycosa_refetch_bound_hosts", grids.bound)
        meter.set("lycosa_refetch_bound_addresses", len(prices.addresses))
        demand = grids.demand
        planned = {
            "value": demand.due,
            "promised": demand.promised,
            "adaptive": demand.adaptive,
            "probe": demand.total(grids.prices.section.probes) - demand.planned,
            "bound": grids.bound_a_day,
        }
        for kind, number in planned.items():
            meter.set("lycosa_refetches_planned", round(number, 1), kind)

    meter.watch(read)


def measure_renders(meter: Meter, desk: RenderDesk, queue: RenderQueue) -> None:
    """Let the meter read the pages that are rendered."""
    counts = desk.counts
    meter.adopt("lycosa_render_seconds", counts.round_times)
    meter.adopt("lycosa_render_rounds", counts.rounds)

    def read() -> None:
        waiting = queue.waiting
        if not (queue.is_on or waiting or counts.rounds.count):
            return
        due, lent = desk.due, desk.lent
        depths = {"due": due, "lent": lent, "waiting": waiting - due - lent}
        meter.set_table("lycosa_render_queue_depth", depths)
        meter.set("lycosa_renders_awaited", waiting if queue.is_busy else 0)
        meter.set("lycosa_render_processor_seconds_total", counts.processor_s)
        meter.set("lycosa_render_wants_total", counts.wants)
        meter.set("lycosa_renders_crowded_out_total", queue.crowded_out)

    meter.watch(read)


def measure_network(meter: Meter, resolver: CachingResolver, fetcher: CurlFetcher) -> None:
    """Let the meter read the resolver and the fetcher of a real crawl."""
    meter.adopt("lycosa_fetch_seconds", resolver.query_times, "dns")

    def read() -> None:
        names = resolver.snapshot()
        meter.set_table("lycosa_dns_lookups_total", {"hit": names.hits, "miss": names.questions})
        meter.set("lycosa_dns_failures_total", names.failures)
        meter.set("lycosa_dns_cache_entries", names.entries)
        meter.set("lycosa_connections_total", fetcher.snapshot().connections_made)
        if (signer := fetcher.signer) is not None:
            meter.set_table("lycosa_request_signatures_total", signer.counts)
            meter.set("lycosa_clock_error_seconds", abs(signer.skew_s()))

    meter.watch(read)


def _measure_parser(meter: Meter, pipeline: Pipeline, reparser: Reparser) -> None:
    parsing = pipeline.parsing
    meter.adopt("lycosa_parse_seconds", parsing.times)

    def read() -> None:
        health = parsing.health
        meter.set_table("lycosa_parse_failures_total", parsing.failures)
        meter.set("lycosa_parse_waiting", health.waiting)
        meter.set("lycosa_parser_away_seconds", health.away_s)
        meter.set("lycosa_parser_deaths_total", health.deaths)
        meter.set("lycosa_unparsed_bodies", reparser.waiting())
        meter.set("lycosa_reparsed_total", reparser.done.parsed)

    meter.watch(read)


def _set_counts(meter: Meter, committed: Iterable[Counters]) -> None:
    """Set what the partitions count in their tables, as of the last commit.

    A crash undoes what is not committed. If these numbers had it, a counter would fall at the next
    start, and a program that computes rates would take the whole crawl for new.
    """
    states: dict[str, int] = {}
    reasons: dict[str, int] = {}
    refusals: dict[str, int] = {}
    stated: dict[str, int] = {}
    refetched: dict[str, int] = {}
    validators: dict[str, int] = {}
    items: dict[str, int] = {}
    rendered: dict[str, int] = {}
    discovered = captures = wanted = pages = requests = size = 0
    for each in committed:
        discovered += each.discovered
        captures += each.captures
        wanted += each.wanted
        pages += each.pages
        requests += each.requests
        size += each.body_bytes
        for state, number in each.states.items():
            label = UrlState(state).label
            states[label] = states.get(label, 0) + number
        for table, found in ((reasons, each.reasons), (refusals, each.rule_refusals)):
            for reason, number in found.items():
                label = Reason(reason).label
                table[label] = table.get(label, 0) + number
        for label, number in each.stated.items():
            stated[label] = stated.get(label, 0) + number
        for band, number in each.refetched.items():
            label = DueBand(band).label if band else "other"
            refetched[label] = refetched.get(label, 0) + number
        for label, number in each.validators.items():
            validators[label] = validators.get(label, 0) + number
        for name, number in each.items.items():
            items[name] = items.get(name, 0) + number
        for end, number in each.rendered.items():
            rendered[end] = rendered.get(end, 0) + number
    meter.set_table("lycosa_urls", states)
    meter.set_table("lycosa_refetches_total", refetched)
    meter.set_table("lycosa_captures_stating_total", stated)
    meter.set_table("lycosa_validator_answers_total", validators)
    meter.set_table("lycosa_items_total", items)
    meter.set_table("lycosa_renders_total", rendered)
    meter.set_table("lycosa_url_outcomes", reasons)
    meter.set_table("lycosa_links_refused_total", refusals)
    meter.set("lycosa_urls_discovered_total", discovered)
    meter.set("lycosa_captures_total", captures)
    meter.set("lycosa_captures_wanted_total", wanted)
    meter.set("lycosa_pages_total", pages)
    meter.set("lycosa_requests_total", requests)
    meter.set("lycosa_received_bytes_total", size)


def _set_hosts(meter: Meter, present: list[Counters]) -> None:
    """Set the hosts that do not wait in the frontier, which change with those that do."""
    meter.set("lycosa_hosts_known", sum(each.hosts for each in present))
    meter.set("lycosa_hosts", sum(each.hosts_parked for each in present), "parked")
    meter.set("lycosa_hosts", sum(each.hosts_retired for each in present), "retired")
    meter.set("lycosa_hosts", sum(each.hosts_paused for each in present), "paused")
    meter.set("lycosa_leases_outside", sum(each.leased for each in present))
    due: dict[str, int] = dict.fromkeys((band.label for band in DueBand), 0)
    for each in present:
        for number, waiting in each.due.items():
            due[DueBand(number).label] += waiting
    meter.set_table("lycosa_due_pages", due)
    meter.set("lycosa_urls_set_back", sum(each.set_back for each in present))
    meter.set("lycosa_cold_urls", sum(sum(each.cold.values()) for each in present))


def _set_frontier(meter: Meter, frontier: Frontier, now: float) -> None:
    """Set the number of hosts in each state."""
    found = frontier.snapshot(now)
    meter.set("lycosa_hosts", found.in_process, "fetching")
    meter.set("lycosa_hosts", found.ready, "ready")
    meter.set("lycosa_hosts", found.front, "front")
    meter.set("lycosa_hosts", found.snoozed, "snoozed")
    meter.set("lycosa_hosts_benched", found.on_workbench)
    meter.set("lycosa_policy_records_left", frontier.policy_records_left())
    bands: dict[str, int] = {}
    for partition in frontier.partitions.values():
        for band, number in partition.front.waiting_by_band().items():
            bands[str(band)] = bands.get(str(band), 0) + number
    meter.set_table("lycosa_frontier_hosts", bands)
    cold = [partition.cold for partition in frontier.partitions.values()]
    meter.set("lycosa_cold_files", sum(len(each.files) for each in cold))
    meter.set("lycosa_cold_bytes", sum(each.bytes for each in cold))


def _set_seen(meter: Meter, worker: Worker, intake: Intake) -> None:
    """Set the state of URL-seen."""
    found = [each.seen.snapshot() for each in worker.frontier.partitions.values()]
    meter.set("lycosa_url_seen_keys", sum(each.count for each in found))
    meter.set("lycosa_url_seen_bytes", sum(each.memory_bytes for each in found))
    meter.set("lycosa_url_seen_lookups_total", sum(each.asked for each in found))
    positives = sum(each.false_positives for each in found)
    meter.set("lycosa_url_seen_false_positives_total", positives)
    rates = [each.error_rate for each in found]
    meter.set("lycosa_url_seen_error_ratio", max(rates, default=0.0))
    meter.set("lycosa_recent_hashes", len(intake.recent))


def _in_a_share(read: Callable[[], None], clock: Clock) -> Callable[[], None]:
    """``read``, called in a bounded share of the time, and at most every few seconds."""
    due = -1.0

    def read_when_due() -> None:
        nonlocal due
        now = clock.monotonic()
        if now >= due:
            read()
            due = now + max((clock.monotonic() - now) / _SHARE, _OFTEN_S)

    return read_when_due
