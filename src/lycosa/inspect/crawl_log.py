"""A crawl as Heritrix's crawl.log, for programs that read that.

One line for each request that was answered, each URL that failed without an answer, and each URL
that robots.txt disallows, sorted by time. The fields are those of Heritrix 3 ("Heritrix User
Guide", Logs): time of the end, status, bytes, URL, discovery path, referrer, media type, thread,
begin and duration, digest, source, annotations, and an object with the place in the WARC files.

Thread is the worker. The path has L for a link, R for a redirect, E for a requisite, M for an entry
of a sitemap, S for a URL that another program gave, and P for a file that was needed first. A URL
that failed has the time at which it was retired, one that is disallowed that at which it was
found: it was never requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.dead_letter_list import DeadLetterFilter, dead_letters
from lycosa.state.store import layout
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow
from lycosa.state.store.sorted_lines import SortedLines

_CODES = {
    Reason.DNS_NO_SUCH_NAME: -1,
    Reason.DNS_FAILED: -1,
    Reason.DNS_TIMEOUT: -1,
    Reason.CONNECT_REFUSED: -2,
    Reason.CONNECT_TIMEOUT: -2,
    Reason.NETWORK_UNREACHABLE: -2,
    Reason.TLS_FAILED: -2,
    Reason.CONNECTION_LOST: -3,
    Reason.EMPTY_RESPONSE: -3,
    Reason.FIRST_BYTE_TIMEOUT: -4,
    Reason.TOTAL_TIMEOUT: -4,
    Reason.TOO_SLOW: -4,
    Reason.MALFORMED_RESPONSE: -5,
    Reason.HEADERS_TOO_LARGE: -5,
    Reason.INTERNAL: -5,
    Reason.CRASHED_WORKER: -5,
    Reason.ROBOTS_UNREACHABLE: -61,
    Reason.ADDRESS_FORBIDDEN: -5001,
}
"""The codes of Heritrix for failures without an answer."""
_DISALLOWED = -9998
_LETTERS = {LinkKind.SITEMAP: "M", LinkKind.FEED: "M", LinkKind.GIVEN: "S"}
_encode = msgspec.json.Encoder().encode


def write_crawl_log(reader: CrawlReader, file: IO[bytes], folder: Path) -> int:
    """Write the log and return the number of its lines. ``folder`` is for sorting.

    Raises ``JournalError`` or ``OSError``.
    """
    lines, count = SortedLines(folder), 0
    try:
        for line in _lines(reader):
            lines.add_line(line.encode("utf-8", "replace") + b"\n")
            count += 1
        file.writelines(lines.merged())
    finally:
        lines.close()
    return count


def _lines(reader: CrawlReader) -> Iterator[str]:
    source = reader.source
    for segment in source.list_segments():
        worker = layout.segment_worker(segment.name)
        for row in filter(reader.may_give, source.read_rows(segment)):
            yield capture_line(row, worker)
    for letter in dead_letters(reader, DeadLetterFilter()):
        code = _CODES.get(letter.reason)
        if code is not None and letter.date_us:
            tried = f"{letter.tries}t" if letter.tries > 1 else "-"
            yield _line(letter.date_us, code, "-", letter.url, annotations=tried)
    for entry in reader.urls():
        record = entry.record
        is_disallowed = record.reason is Reason.ROBOTS_DISALLOWED
        if record.state is UrlState.REFUSED and is_disallowed:
            path = _path(record.depth, record.hops, record.kind)
            yield _line(record.found_at * 1_000_000, _DISALLOWED, "-", entry.url, path)


def capture_line(row: JournalRow, worker: int) -> str:
    """The line of a capture, without its line end."""
    notes = []
    if row.revisit:
        notes.append("warcRevisit:" + ("notModified" if row.revisit == UNCHANGED else "digest"))
        if row.revisit != UNCHANGED:
            notes.append("duplicate:digest")
    if row.fetch_number > 1:
        notes.append(f"{row.fetch_number}t")
    if row.truncated:
        notes.append(f"{row.truncated}Trunc")
    name = layout.warc_name(row.segment)
    more = {"contentSize": row.body_bytes, "warcFilename": name, "warcOffset": row.offset}
    duration_us = int(row.duration_s * 1_000_000)
    path = "P" if row.kind.is_of_origin else _path(row.depth, len(row.chain), row.link_kind)
    return _line(
        row.date_us + duration_us,
        row.status,
        str(row.body_bytes),
        row.url,
        path,
        row.via,
        row.media_type or "unknown",
        worker,
        f"{_stamp(row.date_us)}+{duration_us // 1000}",
        row.digest,
        ",".join(notes),
        _encode(more).decode(),
    )


def _line(
    at_us: int,
    status: int,
    size: str,
    url: str,
    path: str = "",
    via: str = "",
    mime: str = "unknown",
    worker: int = 0,
    began: str = "",
    digest: str = "",
    annotations: str = "",
    more: str = "{}",
) -> str:
    time = (
        f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%dT%H:%M:%S}.{at_us // 1000 % 1000:03}Z"
    )
    rest = path or "-", via or "-", mime, f"#{max(worker, 0):03d}", began or "-", digest or "-"
    # A space separates fields, and none of them has one: URLs are canonical, a type may have some.
    words = (each.replace(" ", "") for each in rest)
    return f"{time} {status:>5} {size:>10} {url} {' '.join(words)} - {annotations or '-'} {more}"


def _stamp(date_us: int) -> str:
    seconds = datetime.fromtimestamp(date_us // 1_000_000, UTC)
    return f"{seconds:%Y%m%d%H%M%S}{date_us // 1000 % 1000:03}"


def _path(depth: int, redirects: int, kind: LinkKind) -> str:
    last = "E" if kind.is_requisite else _LETTERS.get(kind, "L")
    return "L" * (depth - 1) + (last if depth else "") + "R" * redirects
