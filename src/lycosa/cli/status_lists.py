"""The tables of hosts and of sites of ``lycosa status``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lycosa.cli.output import emit, emit_table, human_count, human_duration

if TYPE_CHECKING:
    from lycosa.inspect.crawl_status import CrawlStatus


def print_lists(status: CrawlStatus) -> None:
    """Print the hosts and the sites that were asked for."""
    if status.hosts:
        _print_hosts(status)
    if status.sites:
        _print_sites(status)


def _print_hosts(status: CrawlStatus) -> None:
    emit("")
    rows = (
        (
            x.host,
            x.state,
            human_count(x.waiting),
            human_count(x.parked),
            human_count(x.captures),
            human_count(x.errors),
            human_duration(x.wait_s),
            human_duration(x.needs_s),
            x.reason or x.last_error,
        )
        for x in status.hosts
    )
    emit_table(
        ("host", "state", "waiting", "parked", "captures", "errors", "next in", "needs", "why"),
        rows,
        spare=("needs", "parked", "errors", "next in", "captures", "why"),
    )


def _print_sites(status: CrawlStatus) -> None:
    emit("")
    site_rows = (
        (
            x.site,
            human_count(x.hosts),
            human_count(x.hosts_parked),
            human_count(x.waiting),
            human_count(x.parked),
            human_count(x.captures),
            human_count(x.most_captures) if x.most_captures else "no limit",
            human_count(x.linking_sites),
            human_count(x.errors),
            human_duration(x.wait_s),
        )
        for x in status.sites
    )
    names = (
        "site",
        "hosts",
        "of them parked",
        "waiting",
        "parked",
        "captures",
        "of",
        "linking sites",
        "errors",
        "next in",
    )
    spare = ("of", "of them parked", "parked", "linking sites", "errors", "next in", "captures")
    emit_table(names, site_rows, spare=spare)
