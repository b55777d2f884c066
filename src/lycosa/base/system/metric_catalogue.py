"""Every metric of a crawl: name, kind, help, label, and the label's possible values.

This list is the only place where a metric is defined. ``Meter`` refuses other names and other label
values, so the number of series is bounded and no label ever has the name of a host.
``metrics_text`` takes the help and the kind from here, and ``docs/metrics.md`` is made of it.

The names follow the conventions of Prometheus: base units in the name, ``_total`` for what only
grows. A metric has at most one label.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from lycosa.base.model.host_memory import VALIDATOR_LABELS
from lycosa.base.model.rendered_page import RenderEnd
from lycosa.base.preferences.preference_words import PREFERENCE_LABELS
from lycosa.base.reasons import Cause, Reason

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds of the buckets of a time that is measured: up to the longest fetch."""
ROUNDS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Bounds of the rounds of a page that is rendered."""
AGES = (60.0, 600.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86_400.0, 7 * 86_400.0)
"""Bounds of the buckets of an age."""

URL_STATES = (
    "queued", "parked", "fetched", "redirected", "failed", "refused", "retired", "gone",
)  # fmt: skip
"""The labels of ``UrlState``."""
WINDOWS = ("minute", "run", "peak")
"""The last minute, the run, and the highest minute of it."""
DUE_LABELS = ("fourfold", "twofold", "due", "probe")
"""The labels of ``DueBand``."""
BANDS = tuple(str(band) for band in range(64))
"""Bands of the frontier; ``frontier.bands`` says how many there are."""


class MetricKind(Enum):
    """The kind of a metric, as Prometheus names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Merge(Enum):
    """What becomes of a metric over several workers."""

    SUM = "sum"
    GREATEST = "greatest"
    SMALLEST = "smallest"


class Metric(msgspec.Struct, frozen=True):
    """One metric.

    ``label`` is the name of its label, empty if it has none, and ``values`` are the possible
    values of that label; an empty tuple stands for the processes or outputs of one machine, or
    extractors, which are few. ``bounds`` are the upper bounds of a histogram's buckets. ``merge``
    says what becomes of it over several workers. With ``is_stored`` a counter is part of the
    crawl's state and continues after a restart; others begin with their process.
    """

    name: str
    kind: MetricKind
    meaning: str
    label: str = ""
    values: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    merge: Merge = Merge.SUM
    is_stored: bool = False


_C, _G, _H = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
_REASONS = tuple(reason.label for reason in Reason)
_RESULTS = ("hit", "miss")
RENDER_ENDS = (
    *(end.value for end in RenderEnd),
    "lost",
    "too_old",
    "turned_off",
    "unreadable",
)
"""How renders end; the last three are no results of a renderer."""

_CRAWL = (
    Metric("lycosa_urls", _G, "Known URLs by state.", "state", URL_STATES),
    Metric("lycosa_urls_discovered_total", _C, "Distinct URLs found.", is_stored=True),
    Metric("lycosa_captures_total", _C, "Stored fetches of pages.", is_stored=True),
    Metric(
        "lycosa_captures_wanted_total",
        _C,
        "Stored fetches of what pages need to be rendered, which limits.max_pages does not count.",
        is_stored=True,
    ),
    Metric(
        "lycosa_renders_awaited",
        _G,
        "Pages that are to be rendered before the crawl ends.",
    ),
    Metric(
        "lycosa_render_queue_depth",
        _G,
        "Pages that are to be rendered: those that a renderer may take, those that wait for what"
        " they load, and those that renderers have.",
        "state",
        ("due", "waiting", "lent"),
    ),
    Metric(
        "lycosa_renders_total",
        _C,
        "Renders of pages that ended, by how: quiet and busy have a document.",
        "end",
        RENDER_ENDS,
        is_stored=True,
    ),
    Metric(
        "lycosa_render_seconds",
        _H,
        "Time of a round, in which a page is rendered once.",
        bounds=SECONDS,
    ),
    Metric("lycosa_render_rounds", _H, "Rounds of a page until its end.", bounds=ROUNDS),
    Metric("lycosa_render_processor_seconds_total", _C, "Processor time of browsers."),
    Metric(
        "lycosa_render_wants_total",
        _C,
        "URLs that pages asked for while they were rendered, and that were not stored yet.",
    ),
    Metric(
        "lycosa_renders_crowded_out_total",
        _C,
        "Pages that were not rendered because more than render.queue waited.",
    ),
    Metric("lycosa_pages_total", _C, "Captures with status 200 that are HTML.", is_stored=True),
    Metric("lycosa_requests_total", _C, "Requests for pages.", is_stored=True),
    Metric("lycosa_received_bytes_total", _C, "Bytes of bodies as received.", is_stored=True),
    Metric(
        "lycosa_url_outcomes",
        _G,
        "URLs that do not wait, by the reason with which their last fetch ended.",
        "reason",
        _REASONS,
    ),
    Metric(
        "lycosa_links_refused_total",
        _C,
        "Links refused by the rules of scope and traps.",
        "reason",
        _REASONS,
        is_stored=True,
    ),
    Metric(
        "lycosa_captures_stating_total",
        _C,
        "Captures by what their sites stated about the use of the page: each answer for a use, a "
        "licence, the price of an answer 402.",
        "preference",
        PREFERENCE_LABELS,
        is_stored=True,
    ),
    Metric(
        "lycosa_items_total",
        _C,
        "Items that extractors made of pages.",
        "extractor",
        is_stored=True,
    ),
    Metric(
        "lycosa_validator_answers_total",
        _C,
        "Answers to refetches by what they showed about validators: a 304; a change that they"
        " revealed; a check of a 304 that agreed; a change that they hid; an ETag that differs"
        " without a change; a 304 to another question.",
        "finding",
        VALIDATOR_LABELS,
        is_stored=True,
    ),
    Metric(
        "lycosa_captures_per_second",
        _G,
        "Captures a second: over the last minute, over this run, and the highest minute of it.",
        "window",
        WINDOWS,
    ),
    Metric("lycosa_received_bytes_per_second", _G, "Bytes of bodies a second.", "window", WINDOWS),
    Metric("lycosa_urls_discovered_per_second", _G, "URLs found a second.", "window", WINDOWS),
    Metric(
        "lycosa_urls_settled_per_second",
        _G,
        "URLs that left the queue a second, by a fetch or without one.",
        "window",
        WINDOWS,
    ),
    Metric(
        "lycosa_captures_limit",
        _G,
        "The limit on captures (--max-pages); 0 if there is none.",
        merge=Merge.GREATEST,
    ),
    Metric("lycosa_commits_total", _C, "Commits of all workers.", is_stored=True),
    Metric(
        "lycosa_commit_seconds", _H, "Time from the cut of a commit to its end.", bounds=SECONDS
    ),
    Metric(
        "lycosa_damaged_segments",
        _G,
        "Segments in object storage that were sealed although parts were missing or damaged, or"
        " derived files could not be built.",
    ),
    Metric("lycosa_workers", _G, "Workers by whether they have work.", "state", ("busy", "idle")),
    Metric(
        "lycosa_worker_starts_total",
        _C,
        "Worker processes that were started in this run, also after a move or an ordinary end.",
    ),
    Metric(
        "lycosa_worker_deaths_total",
        _C,
        "Worker processes that died, since this coordinator listens.",
    ),
    Metric(
        "lycosa_remaining_seconds",
        _G,
        "Forecast of the time that remains: at least, while many URLs are still found, or about.",
        "estimate",
        ("at_least", "about"),
    ),
)
_FRONTIER = (
    Metric(
        "lycosa_hosts",
        _G,
        "Hosts by what they do now, each counted once.",
        "state",
        ("fetching", "ready", "front", "snoozed", "parked", "retired", "paused", "resting"),
    ),
    Metric("lycosa_hosts_known", _G, "Hosts that have or had URLs in the crawl."),
    Metric("lycosa_hosts_benched", _G, "Hosts on the workbench, which is in memory."),
    Metric(
        "lycosa_frontier_hosts", _G, "Hosts in the front queues by priority band.", "band", BANDS
    ),
    Metric(
        "lycosa_urls_set_back",
        _G,
        "Waiting URLs that are set back, because pages like them were near copies of others.",
    ),
    Metric("lycosa_cold_urls", _G, "URLs whose records are in cold files."),
    Metric("lycosa_cold_files", _G, "Cold files that count, without those that were merged."),
    Metric("lycosa_cold_bytes", _G, "Size of the cold files that count."),
    Metric(
        "lycosa_due_pages",
        _G,
        "Pages that wait to be fetched again, by what a fetch is worth.",
        "band",
        DUE_LABELS,
    ),
    Metric(
        "lycosa_refetches_total",
        _C,
        "Captures of pages that had one before, by the band in which they waited.",
        "band",
        (*DUE_LABELS, "other"),
        is_stored=True,
    ),
    Metric("lycosa_next_ready_seconds", _G, "Seconds until a host or URL is due; -1 if none is."),
    Metric("lycosa_recent_hashes", _G, "URLs found a moment ago, held in memory."),
    Metric("lycosa_url_seen_keys", _G, "URLs that URL-seen holds."),
    Metric("lycosa_url_seen_bytes", _G, "Memory of URL-seen, mapped files not counted."),
    Metric("lycosa_url_seen_lookups_total", _C, "URLs that URL-seen was asked for."),
    Metric(
        "lycosa_url_seen_false_positives_total",
        _C,
        "Claims of URL-seen that the table refuted (Bloom filter).",
    ),
    Metric(
        "lycosa_url_seen_error_ratio",
        _G,
        "Share of new URLs that URL-seen takes for known, the greatest of all partitions.",
        merge=Merge.GREATEST,
    ),
    Metric(
        "lycosa_contents_total",
        _C,
        "Bodies with status 200 by what content-seen and earlier crawls know of them.",
        "result",
        ("new", "duplicate", "near_duplicate", "earlier"),
    ),
)
_FETCH = (
    Metric("lycosa_fetches_in_progress", _G, "Visits in progress: fetching, parsing, storing."),
    Metric("lycosa_requests_in_flight", _G, "Requests that wait for a server."),
    Metric(
        "lycosa_fetch_seconds",
        _H,
        "Time of a request: DNS lookup; then from its start until it was sent (connect), until the"
        " first byte, and until the last.",
        "phase",
        ("dns", "connect", "first_byte", "total"),
        SECONDS,
    ),
    Metric(
        "lycosa_responses_total",
        _C,
        "Attempts by the class of the HTTP status; none stands for no response.",
        "class",
        ("1xx", "2xx", "3xx", "4xx", "5xx", "other", "none"),
    ),
    Metric(
        "lycosa_request_errors_total",
        _C,
        "Attempts that failed, by the party that the reason points to.",
        "cause",
        tuple(cause.value for cause in Cause),
    ),
    Metric("lycosa_dns_lookups_total", _C, "DNS lookups by the cache.", "result", _RESULTS),
    Metric("lycosa_dns_failures_total", _C, "Queries to name servers that failed."),
    Metric("lycosa_dns_cache_entries", _G, "Names in the DNS cache."),
    Metric("lycosa_connections_total", _C, "Connections that were opened."),
    Metric("lycosa_address_slots", _G, "Slots of addresses that this crawl holds."),
    Metric("lycosa_address_waits_total", _C, "Times that an address had no free slot."),
    Metric(
        "lycosa_robots_lookups_total",
        _C,
        "Visits that needed the rules of a host: known, or to be fetched.",
        "result",
        _RESULTS,
    ),
    Metric("lycosa_robots_rules", _G, "Rules of robots.txt files in memory."),
    Metric("lycosa_robots_age_seconds", _H, "Age of robots.txt when it was used.", bounds=AGES),
    Metric(
        "lycosa_robots_answers_total",
        _C,
        "Requests for robots.txt: a file or none, or nothing that says which (unreachable).",
        "result",
        ("answered", "unreachable"),
    ),
    Metric(
        "lycosa_request_signatures_total",
        _C,
        "Requests of a crawl that has a key: signed, or unsigned because the clock is wrong by more"
        " than 30 s.",
        "result",
        ("signed", "clock"),
    ),
    Metric(
        "lycosa_clock_error_seconds",
        _G,
        "Difference between the clock of a machine that signs requests and the clocks of servers,"
        " the greatest of all workers; 0 if too few servers are known.",
        merge=Merge.GREATEST,
    ),
    Metric(
        "lycosa_tdm_answers_total",
        _C,
        "Requests for tdmrep.json: a file, none, or nothing that says which (failed).",
        "result",
        ("file", "none", "failed"),
    ),
    Metric("lycosa_leases_outside", _G, "URLs that are leased to outside fetchers."),
)
_PARSE = (
    Metric(
        "lycosa_parse_seconds",
        _H,
        "Time from giving a body to the parser to its result.",
        bounds=SECONDS,
    ),
    Metric(
        "lycosa_parse_failures_total",
        _C,
        "Bodies that were not parsed.",
        "reason",
        (
            "parse_killed",
            "parse_timeout",
            "parse_stalled",
            "decode_failed",
            "decode_limit",
            "internal",
        ),
    ),
    Metric("lycosa_parse_waiting", _G, "Bodies that wait for the parser."),
    Metric(
        "lycosa_parser_away_seconds",
        _G,
        "Seconds without a parse child; 0 with one.",
        merge=Merge.GREATEST,
    ),
    Metric("lycosa_questions_total", _C, "Questions about the state that workers answered."),
    Metric(
        "lycosa_questions_dropped_total",
        _C,
        "Questions that were not answered, because their callers waited no longer.",
    ),
    Metric("lycosa_question_seconds_total", _C, "Processor time of the workers for these answers."),
    Metric("lycosa_parser_deaths_total", _C, "Parse children that died or were killed."),
    Metric(
        "lycosa_extension_failures_total",
        _C,
        "Calls of users' code that raised an exception, took too long or ended their process.",
        "kind",
        ("rule", "sink", "extractor", "links", "score", "extension"),
    ),
    Metric("lycosa_extension_pages_total", _C, "Pages that were given to users' code."),
    Metric("lycosa_extension_seconds_total", _C, "Processor time of users' code."),
    Metric(
        "lycosa_extension_ends_total",
        _C,
        "Processes of users' code that a page ended: by its time, a crash, or what it left behind.",
    ),
    Metric("lycosa_unparsed_bodies", _G, "Stored bodies that wait to be parsed again."),
    Metric("lycosa_reparsed_total", _C, "Stored bodies that were parsed again."),
    Metric(
        "lycosa_address_wait_seconds",
        _G,
        "Seconds until all hosts have had a turn that wait for the address with the longest line"
        " of them, the greatest of all workers. Pages of such hosts are late by about that.",
        merge=Merge.GREATEST,
    ),
    Metric(
        "lycosa_refetch_price",
        _G,
        "The price of a refetch in days (refetch.price, or found from refetch.budget).",
        merge=Merge.GREATEST,
    ),
    Metric(
        "lycosa_refetch_budget",
        _G,
        "Refetches a day that refetch.budget allows; 0 without a budget.",
        merge=Merge.GREATEST,
    ),
    Metric(
        "lycosa_refetches_planned",
        _G,
        "Refetches a day that pages ask for at the price: by their value, promised, by halving and"
        " growing, probes, and the turns of hosts that have too few.",
        "kind",
        ("value", "promised", "adaptive", "probe", "bound"),
    ),
    Metric(
        "lycosa_refetch_bound_hosts",
        _G,
        "Hosts that have fewer turns than their pages ask for at the price of a refetch.",
    ),
    Metric(
        "lycosa_refetch_bound_addresses",
        _G,
        "Addresses whose hosts ask for more turns together than it has at the price of a refetch.",
        merge=Merge.GREATEST,
    ),
    Metric(
        "lycosa_policy_records_left",
        _G,
        "URLs to which changed refetch policies are not applied yet.",
    ),
)
_RESOURCES = (
    Metric(
        "lycosa_parcels_waiting",
        _G,
        "Pairs of partitions with parcels for another worker on their way.",
    ),
    Metric(
        "lycosa_parcel_lag_seconds",
        _G,
        "Time since the first try of the oldest parcel that is not taken.",
        merge=Merge.GREATEST,
    ),
    Metric(
        "lycosa_foreign_records_total",
        _C,
        "Records of other programs in the topics of the crawl, which were stepped over.",
        "topic",
        ("changelog", "inbox", "control"),
    ),
    Metric(
        "lycosa_wait_seconds_total",
        _C,
        "Time in which a worker waited for Kafka, object storage or a disk that took no write.",
    ),
    Metric(
        "lycosa_waiting",
        _G,
        "Workers that wait for a resource.",
        "resource",
        ("disk", "memory", "parser", "log_or_store"),
    ),
    Metric(
        "lycosa_loop_turn_seconds_max",
        _G,
        "Longest turn of an event loop, processor time.",
        merge=Merge.GREATEST,
    ),
    Metric("lycosa_memory_held_bytes", _G, "Memory of all processes that counts to the bound."),
    Metric("lycosa_memory_bound_bytes", _G, "The bound of memory; 0 if it is unknown."),
    Metric("lycosa_process_memory_bytes", _G, "Private memory of a process.", "process"),
    Metric("lycosa_process_cpu_seconds_total", _C, "Processor time of a process.", "process"),
    Metric(
        "lycosa_disk_free_bytes",
        _G,
        "Free space of the disk with the crawl, the smallest of all machines.",
        merge=Merge.SMALLEST,
    ),
    Metric(
        "lycosa_disk_needed_bytes",
        _G,
        "Free space below which no fetch starts (store.min_free_bytes).",
        merge=Merge.GREATEST,
    ),
    Metric("lycosa_upload_files_total", _C, "Files of segments that were uploaded."),
    Metric("lycosa_upload_bytes_total", _C, "Bytes that were uploaded."),
    Metric("lycosa_upload_waiting_files", _G, "Files that wait for their upload."),
    Metric("lycosa_upload_waiting_bytes", _G, "Bytes that wait for their upload."),
    Metric(
        "lycosa_upload_failing_seconds",
        _G,
        "Time since the store last took an upload; 0 if it does.",
        merge=Merge.GREATEST,
    ),
    Metric("lycosa_webhooks", _G, "Webhooks by state.", "state", ("working", "failing")),
    Metric("lycosa_webhook_changes_total", _C, "Changes that webhooks have accepted."),
    Metric(
        "lycosa_webhook_failing_seconds",
        _G,
        "Time since the webhook that fails longest began to fail; 0 if none does.",
        merge=Merge.GREATEST,
    ),
    Metric("lycosa_log_records_suppressed_total", _C, "Log records that were counted only."),
)
_CLUSTER = (
    Metric(
        "lycosa_shards",
        _G,
        "Shards by state.",
        "state",
        (
            "unowned",
            "starting",
            "running",
            "stopping",
            "waiting",
            "asking",
            "ended",
            "failed",
            "unable",
        ),
    ),
    Metric(
        "lycosa_nodes",
        _G,
        "Nodes by state.",
        "state",
        ("live", "draining", "refused", "lost", "troubled"),
    ),
    Metric(
        "lycosa_clocks",
        _G,
        "Clocks of the coordinator and of nodes, by what the majority says of them; doubted without"
        " a majority.",
        "state",
        ("unknown", "right", "wrong", "doubted"),
    ),
    Metric(
        "lycosa_crawl_state",
        _G,
        "1 for the state that the crawl is in, 0 for the others.",
        "state",
        ("running", "paused", "stopping", "stopped"),
    ),
    Metric("lycosa_open_requests", _G, "Requests to the coordinator that are not answered yet."),
    Metric("lycosa_coordinator_number", _G, "Number of the coordinator; it grows with each start."),
)

METRICS = {
    each.name: each for each in (*_CRAWL, *_FRONTIER, *_FETCH, *_PARSE, *_RESOURCES, *_CLUSTER)
}
"""All metrics by name, in the order in which they are shown."""
