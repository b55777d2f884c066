"""The rows of one host: in a list, and alone with everything that decides when it is fetched."""

from __future__ import annotations

from typing import Any

import msgspec

from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import join_url
from lycosa.inspect.committed_state import CrawlReader, HostEntry, TableView
from lycosa.inspect.explain.copy_facts import copies_row
from lycosa.inspect.explain.facts import owed, why_host
from lycosa.inspect.explain.own_facts import own_row, politeness_of
from lycosa.inspect.explain.validator_facts import missing_facts, trust_facts
from lycosa.inspect.queries.listing_queries import source_rows
from lycosa.inspect.saved_settings import SavedSettings
from lycosa.inspect.site_budget import site_budget
from lycosa.inspect.top_lists import host_line
from lycosa.inspect.wall_time import visit_in_wall_time, wall_of
from lycosa.stages.frontier.pooled_truths import TRUTHS_KEY, decode_pools
from lycosa.stages.politeness.delay import asked_delays
from lycosa.stages.politeness.robots_cache import RobotsRecord
from lycosa.state.kv.table_records import robots_key

_ROBOTS = msgspec.msgpack.Decoder(RobotsRecord)
_MAX_RULES = 1000  # of a robots.txt that are listed
_LAST_FETCHES = 20


def listed_host(
    entry: HostEntry, saved: SavedSettings, now: float, ahead_s: float, mark: str
) -> dict[str, Any]:
    """A host in a list. ``mark`` is its place in the order and the cursor behind it."""
    record = visit_in_wall_time(entry.record, ahead_s)
    row: dict[str, Any] = msgspec.structs.asdict(host_line(record, saved.config, now))
    row.update(id=entry.host8.hex(), partition=entry.partition, order=mark, cursor=mark)
    return row


def whole_host(
    reader: CrawlReader, view: TableView, entry: HostEntry, saved: SavedSettings, now: float
) -> dict[str, Any]:
    """Everything that is known of one host."""
    ahead_s = reader.ahead_s(now)
    record = visit_in_wall_time(entry.record, ahead_s)
    row: dict[str, Any] = msgspec.structs.asdict(host_line(record, saved.config, now))
    delay, section = owed(record, saved.config, now), politeness_of(record, saved.config, now)
    row.update(
        id=entry.host8.hex(),
        partition=entry.partition,
        site=reader.sites.site_of(record.host),
        detail=record.detail,
        meaning=why_host(record),
        next_at=record.next_at,
        parked_until=record.parked_until,
        delay={
            "seconds": round(delay.seconds, 3),
            "source": delay.source,
            "jitter": saved.config.politeness.jitter,
            "sources": [
                {"source": source, "seconds": round(max(seconds, 0.0), 3)}
                for seconds, source in asked_delays(record.pace, section, now)
            ],
        },
        robots=[
            found
            for is_secure in (True, False)
            if (found := _robots(view, entry, is_secure, ahead_s)) is not None
        ],
        bytes=record.usage.bytes,
        time_s=round(record.usage.time_s, 3),
        discovered=record.usage.discovered,
        failures=record.failures,
        dns_failures=record.dns_failures,
        address=record.address,
        importance=round(record.importance, 4),
        refused={Reason(number).label: times for number, times in record.refused.items()},
        preferences=record.stated,
        signals=source_rows(record, decode_pools(view.get(TRUTHS_KEY))),
        copies=copies_row(record, saved.config.copies),
        validators=trust_facts(record.validators) if record.validators else None,
        missing=missing_facts(record.missing) if record.missing else None,
        operator_delay_s=record.pace.operator_delay_s
        if record.pace.operator_delay_s >= 0
        else None,
        pause={"by": record.pause.by, "at": record.pause.date_us / 1e6, "why": record.pause.why}
        if record.pause
        else None,
        own_host=own_row(record, saved.config, now),
        errands=len(record.errands),
        questions=len(record.questions),
    )
    row["site_captures"] = site_budget(view, row["site"]).usage.captures
    return row


def last_fetches(reader: CrawlReader, view: TableView, entry: HostEntry) -> list[dict[str, Any]]:
    """The last fetches of the host's URLs, newest first. May raise ``OutOfTime``."""
    newest: list[tuple[int, dict[str, Any]]] = []
    for url in view.urls(entry.host8):
        history = url.record.history
        if history is None or not history.fetched_at:
            continue
        if len(newest) == _LAST_FETCHES and history.fetched_at <= newest[-1][0]:
            continue
        row = {
            "url": url.url,
            "id": (url.host8 + url.url8).hex(),
            "fetched_at": history.fetched_at,
            "status": history.status,
            "state": url.state.label,
        }
        newest.append((history.fetched_at, row))
        newest.sort(key=lambda each: -each[0])
        del newest[_LAST_FETCHES:]
    return [row for _, row in newest]


def _robots(
    view: TableView, entry: HostEntry, is_secure: bool, ahead_s: float
) -> dict[str, Any] | None:
    value = view.get(robots_key(entry.host8, is_secure))
    if value is None:
        return None
    record = _ROBOTS.decode(value)
    rules = record.rules
    return {
        "url": join_url("https" if is_secure else "http", entry.record.host, "/robots.txt"),
        "status": record.status,
        "version": record.version,
        "fetched": wall_of(record.fetched, ahead_s),
        "expires": wall_of(record.expires, ahead_s),
        "outage": record.outage,
        "group": rules.group,
        "crawl_delay_s": rules.crawl_delay_s,
        "sitemaps": rules.sitemaps[:_MAX_RULES],
        "rules": [
            {"line": line, "rule": f"{'Allow' if allows else 'Disallow'}: {pattern}"}
            for allows, pattern, line in rules.rules[:_MAX_RULES]
        ],
        "rule_count": len(rules.rules),
    }


def state_named(label: str) -> UrlState | None:
    """The state of URLs with this name, or ``None``."""
    return next((state for state in UrlState if state.label == label), None)
