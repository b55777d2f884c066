"""Makes ``Progress`` values by the names of its properties."""

from __future__ import annotations

from typing import Any

from lycosa.base.messages.progress import Progress

_NUMBERS = {
    "discovered": "lycosa_urls_discovered_total",
    "captures": "lycosa_captures_total",
    "pages": "lycosa_pages_total",
    "requests": "lycosa_requests_total",
    "body_bytes": "lycosa_received_bytes_total",
    "running": "lycosa_fetches_in_progress",
    "hosts": "lycosa_hosts_known",
    "hosts_benched": "lycosa_hosts_benched",
    "memory_bytes": "lycosa_memory_held_bytes",
    "memory_bound": "lycosa_memory_bound_bytes",
    "leased": "lycosa_leases_outside",
    "commits": "lycosa_commits_total",
    "unparsed": "lycosa_unparsed_bodies",
    "reparsed": "lycosa_reparsed_total",
    "longest_turn_s": "lycosa_loop_turn_seconds_max",
}
_TABLES = {
    "states": "lycosa_urls",
    "reasons": "lycosa_url_outcomes",
    "rule_refusals": "lycosa_links_refused_total",
}
_HOSTS = "hosts_"


def progress_with(**given: Any) -> Progress:
    """A progress with these numbers and fields; ``hosts_STATE`` are hosts in that state."""
    numbers = {_NUMBERS[name]: given.pop(name) for name in list(given) if name in _NUMBERS}
    tables = {_TABLES[name]: given.pop(name) for name in list(given) if name in _TABLES}
    hosts = {
        name.removeprefix(_HOSTS): given.pop(name)
        for name in list(given)
        if name.startswith(_HOSTS)
    }
    if hosts:
        tables["lycosa_hosts"] = hosts
    return Progress(**given).with_numbers(numbers, tables)
