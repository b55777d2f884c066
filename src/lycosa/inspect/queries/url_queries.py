"""One URL, found by its spelling or by its hashes, and the URLs of one host."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import hash8, host_of, join_url, scheme_of
from lycosa.inspect.committed_state import CrawlReader, TableView, UrlEntry
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.explain.facts import Explanation
from lycosa.inspect.explain.lookup import links_not_searched
from lycosa.inspect.saved_settings import SavedSettings
from lycosa.inspect.wall_time import wall_of
from lycosa.stages.frontier.due import became_due_at
from lycosa.state.kv.table_records import prefix_end

_ID = re.compile(r"[0-9a-fA-F]{32}")
_HASH = re.compile(r"[0-9a-fA-F]{16}|[0-9a-fA-F]{64}")
_NO_SCHEME = re.compile(
    r"(?!https?:)[A-Za-z0-9.-]+\.[A-Za-z0-9-]+(?::[0-9]+)?(?:[/?#].*)?", re.DOTALL
)


class UrlFinder:
    """Finds a URL in one partition by what a caller wrote.

    That is a URL in any spelling, the ``id`` of a row (32 hexadecimal digits: the hashes of host
    and URL), or the hash of a URL (16 digits, or all 64 of the SHA-256). A hash alone is not a key
    of the table, so it takes a search of all keys: ``position`` tells how far it came when it
    raises ``OutOfTime``, and is where the next one continues.
    """

    def __init__(self, reader: CrawlReader, view: TableView, saved: SavedSettings) -> None:
        self._reader, self._view, self._saved = reader, view, saved
        self.position = ""

    def canonical(self, asked: str) -> str:
        """The canonical form of a URL. Raises ``InvalidUrl``."""
        return self._saved.canonicalizer.canonical(
            f"http://{asked}" if _NO_SCHEME.fullmatch(asked) else asked
        )

    @staticmethod
    def is_hash(asked: str) -> bool:
        """Whether it is an id or a hash, not a URL."""
        return bool(_ID.fullmatch(asked) or _HASH.fullmatch(asked))

    def find(self, asked: str, after: str = "") -> UrlEntry | None:
        """The entry; ``None`` when the partition has no such URL. Raises ``InvalidUrl``."""
        if _ID.fullmatch(asked):
            key = bytes.fromhex(asked)
            return self._entry(key[:8], key[8:])
        if _HASH.fullmatch(asked):
            return self._by_hash(bytes.fromhex(asked)[:8], after)
        url = self.canonical(asked)
        return self._entry(hash8(host_of(url)), hash8(url))

    def _by_hash(self, url8: bytes, after: str) -> UrlEntry | None:
        start = b"U" + bytes.fromhex(after) + b"\0" if after else b"U"
        for key, _ in self._view.scan(start, prefix_end(b"U")):
            if key[9:] == url8:
                return self._entry(key[1:9], url8)  # which may run out of time itself
            self.position = key[1:].hex()
        return None

    def _entry(self, host8: bytes, url8: bytes) -> UrlEntry | None:
        record = self._view.url_record(host8, url8)
        host = self._view.host_record(host8)
        if record is None or host is None:
            return None
        url = join_url("https" if record.secure else "http", host.host, record.target)
        return self._reader.find_url(url)


def explained_url(
    reader: CrawlReader, saved: SavedSettings, asked: str, now: float
) -> dict[str, Any]:
    """The explanation of a URL as JSON, with the texts of its facts. May raise ``OutOfTime``."""
    answer = explain(reader, saved, asked, now, links_not_searched)
    return _as_row(answer)


def _as_row(answer: Explanation) -> dict[str, Any]:
    row = answer.to_json()
    row["texts"] = {fact.key: fact.text for fact in answer.facts}
    return row


def url_row(reader: CrawlReader, entry: UrlEntry, now: float) -> dict[str, Any]:
    """The record of a URL."""
    record, history = entry.record, entry.record.history
    via = record.via
    if via.startswith("/"):
        via = join_url(scheme_of(entry.url), host_of(entry.url), via)
    row: dict[str, Any] = {
        "url": entry.url,
        "id": (entry.host8 + entry.url8).hex(),
        "url_hash": entry.url8.hex(),
        "partition": entry.partition,
        "state": entry.state.label,
        "reason": record.reason.label if record.reason else "",
        "meaning": record.reason.meaning if record.reason else "",
        "detail": record.detail,
        "depth": record.depth,
        "priority": round(record.priority / 255, 4),
        "kind": record.kind.name.lower(),
        "via": via,
        "tries": record.tries,
        "found_at": record.found_at,
        "due_at": int(wall_of(became_due_at(record), reader.ahead_s(now))),
        "fetches": 0,
    }
    if history is not None:
        row.update(
            fetches=history.fetches,
            fetched_at=history.fetched_at,
            status=history.status,
            digest=f"sha1:{base64.b32encode(history.digest).decode()}" if history.digest else "",
            changes=history.changes,
            interval_s=history.interval_s,
            redirect_to=history.redirect_to,
            duplicate_of=history.duplicate_of,
        )
    return row


def urls_of_host(
    view: TableView, host: str, state: UrlState | None, after: str
) -> Iterator[tuple[str, UrlEntry | None]]:
    """Mark and entry of the URLs of a host behind a cursor, by hash; ``None`` for another state."""
    for entry in view.urls(hash8(host), bytes.fromhex(after)):
        yield entry.url8.hex(), entry if state is None or entry.state is state else None
