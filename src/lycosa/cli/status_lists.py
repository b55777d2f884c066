"""The tables of ``lycosa status``: one list of columns for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lycosa.base.reasons import Cause
from lycosa.cli.output import (
    Column,
    emit,
    emit_columns,
    emit_json,
    emit_pairs,
    human_bytes,
    human_count,
    human_duration,
)

if TYPE_CHECKING:
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.inspect.completeness import IncompletePage, MissingRequisites
    from lycosa.inspect.crawl_status import CrawlStatus, ReasonLine
    from lycosa.inspect.explain.own_facts import OwnHostLine
    from lycosa.inspect.queries.listing_queries import HostListings
    from lycosa.inspect.status_parts import Output
    from lycosa.inspect.top_lists import HostLine, SiteLine
    from lycosa.state.shard.view import ShardPosition


_NO_LIMIT = "no limit"


def print_lists(status: CrawlStatus, now: float) -> None:
    """Print the tables that are not empty."""
    emit_columns(_reasons("failures and remarks"), status.remarks)
    emit_columns(_reasons("refused links by rule"), status.refusals)
    emit_columns(_OWN_HOSTS, status.own_hosts)
    emit_columns(_HOSTS, status.hosts)
    emit_columns(_SITES, status.sites)
    emit_columns(_shards(now), status.shards)
    emit_columns(_OUTPUTS, (each for each in status.outputs if each.files))


def print_sitemaps(reader: CrawlReader, most: int, now: float, as_json: bool) -> None:
    """Print the sitemaps and feeds of the hosts with the most of them."""
    import msgspec

    from lycosa.inspect.queries.listing_queries import listings_by_host

    hosts = listings_by_host(reader, most, now)
    if as_json:
        emit_json({"hosts": msgspec.to_builtins(hosts)})
    elif not hosts:
        emit("No sitemap or feed is known: no robots.txt names one, and no page links to one.")
    else:
        emit_columns(_listings(now), hosts)


def print_completeness(reader: CrawlReader, most: int, as_json: bool) -> None:
    """Print which pages are stored with all that they load, and why others are not."""
    import msgspec

    from lycosa.inspect.completeness import completeness
    from lycosa.inspect.saved_settings import load_saved_settings

    found = completeness(reader, load_saved_settings(reader), most)
    if as_json:
        emit_json(msgspec.to_builtins(found))
        return
    share = f" ({found.complete / found.pages:.1%})" if found.pages else ""
    emit_pairs(
        (
            ("pages", human_count(found.pages)),
            ("complete", f"{human_count(found.complete)}{share}"),
            (
                "requisites",
                f"{human_count(found.stored)} of {human_count(found.requisites)} stored",
            ),
        )
    )
    emit_columns(_MISSING, found.missing)
    emit_columns(_INCOMPLETE, found.incomplete)


_MISSING: tuple[Column[MissingRequisites], ...] = (
    Column("not stored because", lambda x: x.reason),
    Column("requisites", lambda x: human_count(x.requisites)),
    Column("pages", lambda x: human_count(x.pages)),
    Column("meaning", lambda x: x.meaning, spare=1),
)
_INCOMPLETE: tuple[Column[IncompletePage], ...] = (
    Column("incomplete page", lambda x: x.url),
    Column("missing", lambda x: human_count(x.missing)),
    Column("for example", lambda x: x.example, spare=1),
    Column("because", lambda x: x.reason),
)


def _listings(now: float) -> tuple[Column[HostListings], ...]:
    return (
        Column("host", lambda x: x.host),
        Column("sitemaps", lambda x: human_count(x.sitemaps)),
        Column("feeds", lambda x: human_count(x.feeds)),
        Column("read", lambda x: f"{human_duration(now - x.last_read)} ago" if x.read else "never"),
        Column(
            "next in", lambda x: human_duration(max(x.next_read - now, 0)) if x.next_read else ""
        ),
        Column("URLs", lambda x: human_count(x.urls)),
        Column("newer", lambda x: human_count(x.newer), spare=1),
        Column("refused", lambda x: human_count(x.refused), spare=2),
        Column("right", lambda x: _shares(x, "precision")),
        Column("tells of", lambda x: _shares(x, "recall"), spare=3),
    )


def _until(time: float, now: float) -> str:
    return human_duration(max(time - now, 0)) if time else ""


def _shares(host: HostListings, name: str) -> str:
    """What was learned of the sources at a host, of those that announced a page."""
    return ", ".join(
        f"{each['source'].replace('_', ' ')} {each[name]:.0%}"
        for each in host.signals
        if name != "recall" or each["source"] != "last_modified"
    )


def _reasons(title: str) -> tuple[Column[ReasonLine], ...]:
    return (
        Column(title, lambda x: x.reason),
        Column("count", lambda x: human_count(x.count)),
        Column("cause", lambda x: Cause(x.cause).words),
        Column("meaning", lambda x: x.meaning),
    )


_HOSTS: tuple[Column[HostLine], ...] = (
    Column("host", lambda x: x.host),
    Column("state", lambda x: x.state),
    Column("waiting", lambda x: human_count(x.waiting)),
    Column("parked", lambda x: human_count(x.parked), spare=2),
    Column("captures", lambda x: human_count(x.captures), spare=5),
    Column("errors", lambda x: human_count(x.errors), spare=3),
    Column("next in", lambda x: human_duration(x.wait_s), spare=4),
    Column("needs", lambda x: human_duration(x.needs_s), spare=1),
    Column("why", lambda x: x.reason or x.last_error, spare=6),
)
_OWN_HOSTS: tuple[Column[OwnHostLine], ...] = (
    Column("own host", lambda x: x.host),
    Column("state", lambda x: x.state.replace("_", " ")),
    Column("meaning", lambda x: x.meaning),
)
_SITES: tuple[Column[SiteLine], ...] = (
    Column("site", lambda x: x.site),
    Column("hosts", lambda x: human_count(x.hosts)),
    Column("of them parked", lambda x: human_count(x.hosts_parked), spare=2),
    Column("waiting", lambda x: human_count(x.waiting)),
    Column("parked", lambda x: human_count(x.parked), spare=3),
    Column("captures", lambda x: human_count(x.captures), spare=7),
    Column(
        "of", lambda x: human_count(x.most_captures) if x.most_captures else "no limit", spare=1
    ),
    Column("linking sites", lambda x: human_count(x.linking_sites), spare=4),
    Column("errors", lambda x: human_count(x.errors), spare=5),
    Column("next in", lambda x: human_duration(x.wait_s), spare=6),
)


def _shards(now: float) -> tuple[Column[ShardPosition], ...]:
    """The positions of the shards of a crawl on many machines."""
    return (
        Column("shard", lambda x: x.shard),
        Column("owner's term", lambda x: x.owner_term),
        Column("commit", lambda x: x.last.sequence),
        Column("of term", lambda x: x.last.term),
        Column("age", lambda x: human_duration(now - x.wall) if x.wall else ""),
        Column("inbox", lambda x: x.inbox),
        Column("settings", lambda x: x.settings),
        Column("snapshot", lambda x: x.snapshot.sequence or ""),
    )


_OUTPUTS: tuple[Column[Output], ...] = (
    Column("files", lambda x: x.kind),
    Column("number", lambda x: x.files),
    Column("open", lambda x: x.open or ""),
    Column("size", lambda x: human_bytes(x.bytes)),
)
