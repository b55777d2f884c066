"""Writes the Grafana dashboard beside it: ``python deploy/grafana/dashboard.py``.

Each panel is a row of the table below: title, unit, and the queries with their legends. A test
compares the file with what this script would write, checks that every metric of the dashboard
exists, and asks a real Prometheus each query.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("lycosa.json")

# title, unit, [(query, legend)]; $in stands for the selection of instances
Panel = tuple[str, str, list[tuple[str, str]]]
SECTIONS: dict[str, list[Panel]] = {
    "Overview": [
        (
            "Captures a second",
            "short",
            [
                ("sum(rate(lycosa_captures_total{$in}[$__rate_interval]))", "captures"),
                ('sum(lycosa_captures_per_second{window="peak",$in})', "best minute of the run"),
            ],
        ),
        ("URLs by state", "short", [("sum by (state) (lycosa_urls{$in})", "{{state}}")]),
        (
            "URLs found and done, a second",
            "short",
            [
                ('sum(lycosa_urls_discovered_per_second{window="minute",$in})', "found"),
                ('sum(lycosa_urls_settled_per_second{window="minute",$in})', "done"),
            ],
        ),
        (
            "Bytes received a second",
            "Bps",
            [
                ("sum(rate(lycosa_received_bytes_total{$in}[$__rate_interval]))", "bodies"),
            ],
        ),
        (
            "Time that remains",
            "s",
            [("max by (estimate) (lycosa_remaining_seconds{$in})", "{{estimate}}")],
        ),
        (
            "Workers",
            "short",
            [
                ("sum by (state) (lycosa_workers{$in})", "{{state}}"),
                ("sum(increase(lycosa_worker_starts_total{$in}[1h]))", "starts in an hour"),
                ("sum(increase(lycosa_worker_deaths_total{$in}[1h]))", "deaths in an hour"),
            ],
        ),
    ],
    "Frontier and hosts": [
        ("Hosts by state", "short", [("sum by (state) (lycosa_hosts{$in})", "{{state}}")]),
        (
            "Hosts in front queues by band",
            "short",
            [
                ("sum by (band) (lycosa_frontier_hosts{$in})", "band {{band}}"),
            ],
        ),
        (
            "Due pages that wait, by what a fetch is worth",
            "short",
            [("sum by (band) (lycosa_due_pages{$in})", "{{band}}")],
        ),
        (
            "URLs set back because of near copies",
            "short",
            [("sum(lycosa_urls_set_back{$in})", "URLs")],
        ),
        (
            "URLs whose records are cold",
            "short",
            [("sum(lycosa_cold_urls{$in})", "URLs")],
        ),
        (
            "Cold files",
            "short",
            [("sum(lycosa_cold_files{$in})", "files")],
        ),
        (
            "Size of cold files",
            "bytes",
            [("sum(lycosa_cold_bytes{$in})", "bytes")],
        ),
        (
            "Pages fetched again a second",
            "short",
            [
                (
                    "sum by (band) (rate(lycosa_refetches_total{$in}[$__rate_interval]))",
                    "{{band}}",
                )
            ],
        ),
        (
            "Hosts",
            "short",
            [
                ("sum(lycosa_hosts_known{$in})", "known"),
                ("sum(lycosa_hosts_benched{$in})", "on the workbench"),
            ],
        ),
        ("URL-seen", "short", [("sum(lycosa_url_seen_keys{$in})", "URLs")]),
        (
            "URL-seen, error rate",
            "percentunit",
            [
                ("max(lycosa_url_seen_error_ratio{$in})", "new URLs taken for known"),
            ],
        ),
        ("URL-seen, memory", "bytes", [("sum(lycosa_url_seen_bytes{$in})", "memory")]),
        (
            "Refused links a second",
            "short",
            [
                (
                    "sum by (reason) (rate(lycosa_links_refused_total{$in}[$__rate_interval]))",
                    "{{reason}}",
                ),
            ],
        ),
        (
            "Captures a second by what their sites state about use",
            "short",
            [
                (
                    "sum by (preference) (rate(lycosa_captures_stating_total{$in}"
                    "[$__rate_interval])) > 0",
                    "{{preference}}",
                ),
            ],
        ),
        (
            "Answers to refetches a second by what they show about validators",
            "short",
            [
                (
                    "sum by (finding) (rate(lycosa_validator_answers_total{$in}"
                    "[$__rate_interval])) > 0",
                    "{{finding}}",
                ),
            ],
        ),
        (
            "Contents a second",
            "short",
            [
                (
                    "sum by (result) (rate(lycosa_contents_total{$in}[$__rate_interval]))",
                    "{{result}}",
                ),
            ],
        ),
        ("Leases of outside fetchers", "short", [("sum(lycosa_leases_outside{$in})", "URLs")]),
        (
            "Refetches planned at the price",
            "short",
            [
                ("sum by (kind) (lycosa_refetches_planned{$in})", "{{kind}} a day"),
                ("max(lycosa_refetch_budget{$in})", "budget a day"),
            ],
        ),
        (
            "Price of a refetch, and hosts with too few turns",
            "short",
            [
                ("max(lycosa_refetch_price{$in})", "price in days"),
                ("sum(lycosa_refetch_bound_hosts{$in})", "hosts"),
                ("max(lycosa_refetch_bound_addresses{$in})", "addresses"),
            ],
        ),
        (
            "Wait for an address that many hosts share",
            "s",
            [("max(lycosa_address_wait_seconds{$in})", "longest")],
        ),
        (
            "Records under older refetch policies",
            "short",
            [("sum(lycosa_policy_records_left{$in})", "records")],
        ),
    ],
    "Rendering": [
        (
            "Pages that are to be rendered",
            "short",
            [
                ("sum by (state) (lycosa_render_queue_depth{$in})", "{{state}}"),
                ("sum(lycosa_renders_awaited{$in})", "before the crawl ends"),
            ],
        ),
        (
            "Renders that ended, a second",
            "short",
            [
                ("sum by (end) (rate(lycosa_renders_total{$in}[$__rate_interval]))", "{{end}}"),
                (
                    "sum(rate(lycosa_renders_crowded_out_total{$in}[$__rate_interval]))",
                    "not rendered: queue is full",
                ),
            ],
        ),
        (
            "Time of a round",
            "s",
            [
                (
                    "histogram_quantile(0.95, sum by (le)"
                    " (rate(lycosa_render_seconds_bucket{$in}[$__rate_interval])))",
                    "95 %",
                ),
                (
                    "histogram_quantile(0.5, sum by (le)"
                    " (rate(lycosa_render_seconds_bucket{$in}[$__rate_interval])))",
                    "50 %",
                ),
            ],
        ),
        (
            "Rounds of a page",
            "short",
            [
                (
                    "histogram_quantile(0.95, sum by (le)"
                    " (rate(lycosa_render_rounds_bucket{$in}[$__rate_interval])))",
                    "95 %",
                ),
            ],
        ),
        (
            "What rendering costs",
            "short",
            [
                (
                    "sum(rate(lycosa_render_processor_seconds_total{$in}[$__rate_interval]))",
                    "processors",
                ),
                ("sum(rate(lycosa_render_wants_total{$in}[$__rate_interval]))", "URLs wanted"),
                ("sum(rate(lycosa_captures_wanted_total{$in}[$__rate_interval]))", "URLs stored"),
            ],
        ),
    ],
    "User code": [
        (
            "Pages and items a second",
            "short",
            [
                ("sum(rate(lycosa_extension_pages_total{$in}[$__rate_interval]))", "pages"),
                (
                    "sum by (extractor) (rate(lycosa_items_total{$in}[$__rate_interval]))",
                    "items of {{extractor}}",
                ),
            ],
        ),
        (
            "Processors that user code uses",
            "short",
            [("sum(rate(lycosa_extension_seconds_total{$in}[$__rate_interval]))", "processors")],
        ),
        (
            "Failures of user code in an hour",
            "short",
            [
                ("sum(increase(lycosa_extension_failures_total{$in}[1h]))", "failures"),
                ("sum(increase(lycosa_extension_ends_total{$in}[1h]))", "ended processes"),
            ],
        ),
        (
            "Webhooks",
            "short",
            [
                ("sum by (state) (lycosa_webhooks{$in})", "{{state}}"),
                (
                    "sum(rate(lycosa_webhook_changes_total{$in}[$__rate_interval]))",
                    "changes a second",
                ),
                ("max(lycosa_webhook_failing_seconds{$in})", "seconds of failing"),
            ],
        ),
    ],
    "Fetching": [
        (
            "Fetches",
            "short",
            [
                ("sum(lycosa_fetches_in_progress{$in})", "visits"),
                ("sum(lycosa_requests_in_flight{$in})", "requests"),
                ("sum(lycosa_address_slots{$in})", "slots of addresses"),
            ],
        ),
        (
            "Responses a second",
            "short",
            [
                (
                    "sum by (class) (rate(lycosa_responses_total{$in}[$__rate_interval]))",
                    "{{class}}",
                ),
            ],
        ),
        (
            "Errors a second by cause",
            "short",
            [
                (
                    "sum by (cause) (rate(lycosa_request_errors_total{$in}[$__rate_interval]))",
                    "{{cause}}",
                ),
            ],
        ),
        (
            "URLs by outcome",
            "short",
            [
                (
                    'topk(12, sum by (reason) (lycosa_url_outcomes{reason!="none",$in}))',
                    "{{reason}}",
                ),
            ],
        ),
        (
            "Latency, median",
            "s",
            [
                (
                    "histogram_quantile(0.5, sum by (phase, le)"
                    " (rate(lycosa_fetch_seconds_bucket{$in}[$__rate_interval])))",
                    "{{phase}}",
                ),
            ],
        ),
        (
            "Latency, 95 of 100",
            "s",
            [
                (
                    "histogram_quantile(0.95, sum by (phase, le)"
                    " (rate(lycosa_fetch_seconds_bucket{$in}[$__rate_interval])))",
                    "{{phase}}",
                ),
            ],
        ),
        (
            "DNS lookups a second",
            "short",
            [
                (
                    "sum by (result) (rate(lycosa_dns_lookups_total{$in}[$__rate_interval]))",
                    "{{result}}",
                ),
                ("sum(rate(lycosa_dns_failures_total{$in}[$__rate_interval]))", "failures"),
            ],
        ),
        (
            "Caches and connections",
            "short",
            [
                ("sum(lycosa_dns_cache_entries{$in})", "names"),
                ("sum(lycosa_robots_rules{$in})", "rules of robots.txt"),
                ("sum(lycosa_recent_hashes{$in})", "URLs found a moment ago"),
            ],
        ),
        (
            "Connections and waits for addresses, a second",
            "short",
            [
                ("sum(rate(lycosa_connections_total{$in}[$__rate_interval]))", "connections"),
                ("sum(rate(lycosa_address_waits_total{$in}[$__rate_interval]))", "waits"),
            ],
        ),
        (
            "Signed requests, a second",
            "short",
            [
                (
                    "sum by (result) "
                    "(rate(lycosa_request_signatures_total{$in}[$__rate_interval]))",
                    "{{result}}",
                ),
                ("max(lycosa_clock_error_seconds{$in})", "clock wrong by, seconds"),
            ],
        ),
        (
            "robots.txt and tdmrep.json, a second",
            "short",
            [
                (
                    "sum by (result) (rate(lycosa_robots_lookups_total{$in}[$__rate_interval]))",
                    "{{result}}",
                ),
                (
                    "sum by (result) (rate(lycosa_robots_answers_total{$in}[$__rate_interval]))",
                    "{{result}}",
                ),
                (
                    "sum by (result) (rate(lycosa_tdm_answers_total{$in}[$__rate_interval]))",
                    "tdmrep.json: {{result}}",
                ),
            ],
        ),
        (
            "Age of robots.txt at use, 95 of 100",
            "s",
            [
                (
                    "histogram_quantile(0.95, sum by (le)"
                    " (rate(lycosa_robots_age_seconds_bucket{$in}[$__rate_interval])))",
                    "age",
                ),
            ],
        ),
    ],
    "Parsing and storing": [
        (
            "Parsing, 95 of 100",
            "s",
            [
                (
                    "histogram_quantile(0.95, sum by (le)"
                    " (rate(lycosa_parse_seconds_bucket{$in}[$__rate_interval])))",
                    "seconds",
                ),
            ],
        ),
        (
            "Parser",
            "short",
            [
                ("sum(lycosa_parse_waiting{$in})", "bodies that wait"),
                ("sum(lycosa_unparsed_bodies{$in})", "bodies to parse again"),
                ("sum(increase(lycosa_parser_deaths_total{$in}[1h]))", "deaths in an hour"),
                ("max(lycosa_parser_away_seconds{$in})", "seconds away"),
            ],
        ),
        (
            "Parse failures a second",
            "short",
            [
                (
                    "sum by (reason) (rate(lycosa_parse_failures_total{$in}[$__rate_interval]))",
                    "{{reason}}",
                ),
                ("sum(rate(lycosa_reparsed_total{$in}[$__rate_interval]))", "parsed again"),
            ],
        ),
        (
            "Commits a second",
            "short",
            [
                ("sum(rate(lycosa_commits_total{$in}[$__rate_interval]))", "commits"),
            ],
        ),
        (
            "Commit, 95 of 100",
            "s",
            [
                (
                    "histogram_quantile(0.95, sum by (le)"
                    " (rate(lycosa_commit_seconds_bucket{$in}[$__rate_interval])))",
                    "seconds",
                ),
            ],
        ),
        (
            "Waits for services",
            "s",
            [
                (
                    "sum(rate(lycosa_wait_seconds_total{$in}[$__rate_interval]))",
                    "workers that wait for Kafka, storage or disk",
                ),
                ("max(lycosa_parcel_lag_seconds{$in})", "age of the oldest parcel"),
            ],
        ),
        (
            "Records of other programs in topics",
            "short",
            [
                ("sum by (topic) (lycosa_foreign_records_total{$in})", "{{topic}}"),
            ],
        ),
        (
            "Uploads a second",
            "Bps",
            [
                ("sum(rate(lycosa_upload_bytes_total{$in}[$__rate_interval]))", "bytes"),
            ],
        ),
        ("Damaged segments", "short", [("sum(lycosa_damaged_segments{$in})", "segments")]),
        ("Uploads that wait", "bytes", [("sum(lycosa_upload_waiting_bytes{$in})", "bytes")]),
        ("Time without an upload", "s", [("max(lycosa_upload_failing_seconds{$in})", "seconds")]),
    ],
    "Machines": [
        (
            "Memory",
            "bytes",
            [
                ("sum by (process) (lycosa_process_memory_bytes{$in})", "{{process}}"),
                ("sum(lycosa_memory_held_bytes{$in})", "held"),
                ("sum(lycosa_memory_bound_bytes{$in})", "bound"),
            ],
        ),
        (
            "Processor",
            "short",
            [
                (
                    "sum by (process)"
                    " (rate(lycosa_process_cpu_seconds_total{$in}[$__rate_interval]))",
                    "{{process}}",
                ),
            ],
        ),
        (
            "Disk",
            "bytes",
            [
                ("min(lycosa_disk_free_bytes{$in})", "free"),
                ("max(lycosa_disk_needed_bytes{$in})", "fetching waits below"),
            ],
        ),
        ("Longest turn of a loop", "s", [("max(lycosa_loop_turn_seconds_max{$in})", "seconds")]),
        (
            "Workers that wait for a resource",
            "short",
            [
                ("sum by (resource) (lycosa_waiting{$in})", "{{resource}}"),
            ],
        ),
        (
            "Questions of interface and page",
            "short",
            [
                ("sum(rate(lycosa_questions_total{$in}[$__rate_interval]))", "a second"),
                (
                    "sum(rate(lycosa_question_seconds_total{$in}[$__rate_interval]))",
                    "seconds of readers a second",
                ),
                ("sum(rate(lycosa_questions_dropped_total{$in}[$__rate_interval]))", "dropped"),
            ],
        ),
        (
            "Shards and nodes",
            "short",
            [
                ("sum by (state) (lycosa_shards{$in})", "shards {{state}}"),
                ("sum by (state) (lycosa_nodes{$in})", "nodes {{state}}"),
                ("sum by (state) (lycosa_clocks{$in})", "clocks {{state}}"),
            ],
        ),
        (
            "State of the crawl",
            "short",
            [("max by (state) (lycosa_crawl_state{$in})", "{{state}}")],
        ),
    ],
}


def queries() -> list[str]:
    """All queries of the dashboard."""
    return [
        _query(text) for panels in SECTIONS.values() for panel in panels for text, _ in panel[2]
    ]


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, found in SECTIONS.items():
        panels.append(_row(len(panels) + 1, title, top))
        top += 1
        for at, panel in enumerate(found):
            place = {"x": at % 3 * 8, "y": top + at // 3 * 8, "w": 8, "h": 8}
            panels.append(_panel(len(panels) + 1, panel, place))
        top += (len(found) + 2) // 3 * 8
    return {
        "uid": "lycosa",
        "title": "Lycosa",
        "description": "One crawl. docs/metrics.md explains every metric.",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "tags": ["lycosa"],
        "templating": {"list": [_source(), _instances()]},
        "panels": panels,
    }


def _query(text: str) -> str:
    return text.replace("$in", 'instance=~"$instance"')


def _row(number: int, title: str, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": 24, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place}


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    title, unit, found = panel
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "$source"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": _query(text), "legendFormat": legend}
            for at, (text, legend) in enumerate(found)
        ],
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _instances() -> dict[str, Any]:
    return {
        "name": "instance",
        "type": "query",
        "label": "Crawl",
        "datasource": {"type": "prometheus", "uid": "$source"},
        "query": "label_values(lycosa_workers, instance)",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(dashboard(), indent=2) + "\n", "utf-8")
