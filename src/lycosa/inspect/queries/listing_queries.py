"""The sitemaps and feeds of hosts: what they listed, when they are read, how far the hosts are
believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from lycosa.base.calls import ListingsQuery
from lycosa.base.model.source_truth import UNIT, SignalSource, SourceTruth
from lycosa.base.urls.identity import hash8, join_url
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.wall_time import wall_of
from lycosa.stages.frontier.listings import decode_listing
from lycosa.stages.frontier.pooled_truths import (
    TRUTHS_KEY,
    Pools,
    decode_pools,
    pooled_truth,
)
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.stages.schedule.signal_belief import is_trusted, precision_of, recall_of
from lycosa.state.kv.table_records import listing_key


def listings(
    reader: CrawlReader, view: TableView, query: ListingsQuery, now: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The sitemaps and feeds of a partition, behind ``query.after``, each with its mark.

    Those of one host come together. May raise ``OutOfTime``.
    """
    prefix = listing_key(hash8(query.host) if query.host else b"")
    start = listing_key(bytes.fromhex(query.after)) + b"\0" if query.after else prefix
    last8, host, pools = b"", None, decode_pools(view.get(TRUTHS_KEY))
    for key, value in view.scan(max(start, prefix), prefix + b"\xff" * 17):
        host8, url8 = key[1:9], key[9:17]
        if host8 != last8:
            last8, host = host8, view.host_record(host8)
        record = view.url_record(host8, url8)
        if host is None or record is None:
            continue  # without its record there is no URL to show
        row, history = decode_listing(value), record.history
        mark = key[1:].hex()
        yield (
            mark,
            {
                "host": host.host,
                "url": join_url("https" if record.secure else "http", host.host, record.target),
                "id": mark,
                "kind": row.kind.label,
                "read": row.read_at,
                "fetched": history.fetched_at if history is not None else 0,
                "next": int(wall_of(record.due_at, reader.ahead_s(now))) if record.due_at else 0,
                "interval_s": history.interval_s if history is not None else 0,
                "status": history.status if history is not None else 0,
                "urls": row.urls,
                "newer": row.newer,
                "refused": row.refused,
                "signals": source_rows(host, pools),
                "order": mark,
                "cursor": mark,
            },
        )


def source_rows(host: VisitRecord, pools: Pools) -> list[dict[str, Any]]:
    """How far the sources of signals are believed at a host; ``pools`` are of its partition."""
    return [
        _source_row(
            SignalSource(number),
            host.signals[number],
            pooled_truth(pools, host.software, number, host.signals),
        )
        for number in _known(host)
    ]


def _known(host: VisitRecord) -> Iterable[int]:
    # A later program may know more sources.
    return [source for source in SignalSource if source in host.signals]


def _source_row(source: SignalSource, own: SourceTruth, truth: SourceTruth) -> dict[str, Any]:
    return {
        "source": source.label,
        "signals": round((own.right + own.wrong) / UNIT, 2),
        "precision": round(precision_of(truth), 3),
        "recall": round(recall_of(truth), 3),
        "trusted": is_trusted(truth),
    }


class HostListings(msgspec.Struct):
    """The sitemaps and feeds of one host together; ``rows`` has the first of them.

    Times are wall time in seconds, 0 for none.
    """

    host: str
    sitemaps: int = 0
    feeds: int = 0
    read: int = 0
    last_read: float = 0.0
    next_read: float = 0.0
    urls: int = 0
    newer: int = 0
    refused: int = 0
    signals: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any], most: int) -> None:
        """Add one of them; at most ``most`` rows are kept."""
        is_feed = row["kind"] == "feed"
        self.feeds += is_feed
        self.sitemaps += not is_feed
        self.read += row["fetched"] > 0
        self.last_read = max(self.last_read, row["fetched"])
        if row["next"]:
            self.next_read = min(self.next_read or row["next"], row["next"])
        for name in ("urls", "newer", "refused"):
            setattr(self, name, getattr(self, name) + row[name])
        self.signals = row["signals"]
        if len(self.rows) < most:
            self.rows.append({k: v for k, v in row.items() if k not in _NOT_SHOWN})


_NOT_SHOWN = frozenset({"signals", "order", "cursor", "host"})


def listings_by_host(
    reader: CrawlReader, most_hosts: int, now: float, most_rows: int = 100
) -> list[HostListings]:
    """The hosts with the most sitemaps and feeds, of a whole crawl."""
    kept: list[HostListings] = []
    for view in reader.partition_views():
        last: HostListings | None = None
        for _, row in listings(reader, view, ListingsQuery(), now):
            if last is None or last.host != row["host"]:
                last = HostListings(row["host"])
                kept.append(last)
                if len(kept) > 4 * most_hosts + 100:
                    kept = [*_first(kept[:-1], most_hosts), last]
            last.add(row, most_rows)
    return _first(kept, most_hosts)


def _first(hosts: list[HostListings], most: int) -> list[HostListings]:
    return sorted(hosts, key=lambda each: (-each.sitemaps - each.feeds, each.host))[:most]
