"""The list of changed pages: what a partition has of it, cursors, and partitions as one list.

Every partition numbers its changes in the order of its commits (``frontier.change_log``). So a
cursor is a vector, the last number that was read of each partition::

    changes/0c1d2e3f/0:0.17,1.4

has the beginning of the crawl's id, the number of imports before (0), and partition 0 read up to
number 17, partition 1 up to 4. After an import the numbers are others. A cursor from before it
remains valid: rows that were imported have their earlier numbers, and those that the cursor names
are left out. Until these rows are passed, the cursor has both vectors, ``0:0.17,1.4;1:0.9,1.3``.
``@1795368318;`` in front is for partitions that did not answer yet: their rows from this time on.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from lycosa.base.calls import ChangesQuery, FoundChanges, ListedChange
from lycosa.base.urls.identity import hash8, join_url
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.queries.time_budget import OutOfTime
from lycosa.stages.frontier.change_log import (
    CHANGES,
    ChangeBounds,
    ChangeRow,
    bounds_in,
    change_number,
    decode_change,
)
from lycosa.state.kv.table_records import change_key, prefix_end

Vectors = dict[int, dict[int, int]]
"""By generation: the last number that was read, by partition."""

CURSOR_KIND = "changes/"
_LATEST_S = 1e11
_VECTOR = r"\d{1,9}:\d{1,9}\.\d{1,15}(?:,\d{1,9}\.\d{1,15})*"
_FORM = re.compile(rf"changes/([^/;@]{{1,8}})/(?:@(\d{{1,11}});)?((?:{_VECTOR})(?:;{_VECTOR})*)?")


class BadCursor(Exception):
    """A text is no cursor of this list, or the rows behind it are no longer kept."""


class ChangesCursor(msgspec.Struct, frozen=True):
    """How far the list was read.

    ``read`` are the vectors. ``since_s`` (seconds since 1970) is the time from which a partition is
    read that is in no vector; 0 is the beginning.
    """

    read: Vectors = {}
    since_s: float = 0.0

    @property
    def generation(self) -> int:
        """The greatest one that it has numbers of; -1 if it has none."""
        return max(self.read, default=-1)


def cursor_text(crawl: str, cursor: ChangesCursor) -> str:
    """The text of a cursor of the crawl with this id."""
    vectors = (
        f"{generation}:{','.join(f'{each}.{number}' for each, number in sorted(vector.items()))}"
        for generation, vector in sorted(cursor.read.items())
    )
    since = f"@{int(cursor.since_s)};" if cursor.since_s else ""
    return f"{CURSOR_KIND}{crawl[:8]}/{since}{';'.join(vectors)}"


def read_cursor(crawl: str, text: str) -> ChangesCursor:
    """The cursor in a text. Raises ``BadCursor``."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise BadCursor(
            f"{_shortened(text)} is no cursor of changes: give one that an answer had, or a time"
        )
    if match[1] != crawl[:8]:
        raise BadCursor(
            f"{_shortened(text)} is a cursor of the crawl {match[1]}..., and this is {crawl}"
        )
    read: Vectors = {}
    for part in match[3].split(";") if match[3] else ():
        number, _, vector = part.partition(":")
        pairs = (each.split(".") for each in vector.split(","))
        read[int(number)] = {int(partition): int(last) for partition, last in pairs}
    return ChangesCursor(read, float(match[2] or 0))


def cursor_since(crawl: str, since: str) -> ChangesCursor:
    """The cursor, or the one that begins at a time; all that is kept for an empty text.

    A time is seconds since 1970, or ISO 8601 (UTC without a zone). Raises ``BadCursor``.
    """
    if since.startswith(CURSOR_KIND) or not since:
        return read_cursor(crawl, since) if since else ChangesCursor()
    try:
        seconds = float(since)
    except ValueError:
        try:
            time = datetime.fromisoformat(since)
        except ValueError:
            raise BadCursor(
                f"{_shortened(since)} is neither a cursor of changes nor a time: give the cursor of"
                " an answer, seconds since 1970, or a time as 2026-01-31T12:00:00"
            ) from None
        seconds = time.replace(tzinfo=time.tzinfo or UTC).timestamp()
    if not 0 <= seconds < _LATEST_S:
        raise BadCursor(f"{_shortened(since)} is no time since 1970")
    return ChangesCursor(since_s=seconds)


def generation_of(reader: CrawlReader) -> int:
    """The number of imports that the crawl has had."""
    return len(reader.origin.manifest.earlier)


def changes_in(view: TableView, generation: int, query: ChangesQuery) -> FoundChanges:
    """The changes of one partition behind a cursor, as far as the time of ``view`` allows."""
    bounds = bounds_in(view.get)
    start = query.read.get(generation, {}).get(view.number)
    after = max(start or 0, bounds.first - 1)
    if start is None and query.since_s:
        after = max(after, _last_before(view, bounds, query.since_s))
    rows: list[ListedChange] = []
    scanned, scanned_s, is_whole = after, 0, False
    host8 = hash8(query.host.strip().lower()) if query.host else b""
    try:
        for key, value in view.scan(change_key(after + 1), prefix_end(CHANGES)):
            if len(rows) >= query.most:
                break
            row, number = decode_change(value), change_number(key)
            is_meant = not query.changes or row.change in query.changes
            if is_meant and row.url.startswith(host8) and not _is_read(row, query.read):
                rows += _listed(view, number, row)
            scanned, scanned_s = number, row.noted_s
        else:
            is_whole = True
    except OutOfTime:
        pass  # the rows so far are the answer, which says that it ends before the last one
    return FoundChanges(
        rows=rows,
        generation=generation,
        scanned=scanned,
        scanned_s=scanned_s,
        is_whole=is_whole,
        is_imported_over=scanned >= bounds.imported,
        is_lost=_is_lost(bounds, query.read, generation, start, view.number),
        is_ahead=start is not None and start > bounds.last,
    )


def _is_read(row: ChangeRow, read: Mapping[int, Mapping[int, int]]) -> bool:
    """Whether a cursor from before an import names the row as read."""
    return any(number <= read.get(each, {}).get(at, 0) for each, at, number in row.places)


def _is_lost(
    bounds: ChangeBounds, read: Vectors, generation: int, start: int | None, partition: int
) -> bool:
    """Whether rows were dropped that the reader with this cursor has not read."""
    dropped = bounds.first - 1
    older = [each for each in read if each < generation]
    if start is not None and start >= dropped:
        return False
    if dropped > bounds.imported or not older:
        # A reader that begins with what is kept loses nothing.
        return start is not None or bool(older)
    return any(
        number > read[each].get(at, 0) for each, at, number in bounds.dropped if each in older
    )


def _last_before(view: TableView, bounds: ChangeBounds, since_s: float) -> int:
    """The number of the last row that was noted before a time. Times grow with the numbers."""
    before, behind = bounds.first - 1, bounds.last + 1
    while behind - before > 1:
        middle = (before + behind) // 2
        value = view.get(change_key(middle))
        if value is None or decode_change(value).noted_s < since_s:
            before = middle
        else:
            behind = middle
    return before


def _listed(view: TableView, number: int, row: ChangeRow) -> list[ListedChange]:
    host8, url8 = row.url[:8], row.url[8:]
    record, host = view.url_record(host8, url8), view.host_record(host8)
    if record is None or host is None:  # the audit tells; a list has no use for a URL without text
        return []
    return [
        ListedChange(
            url=join_url("https" if record.secure else "http", host.host, record.target),
            id=row.url.hex(),
            host=host.host,
            change=row.change.label,
            distance=row.distance,
            status=row.status,
            date=row.date_us / 1e6,
            noted=row.noted_s,
            partition=view.number,
            number=number,
        )
    ]


class ChangesPage(msgspec.Struct, frozen=True):
    """Changes of several partitions by time, and the cursor behind them.

    ``has_more``: there were more when it was read.
    """

    rows: list[ListedChange]
    cursor: ChangesCursor
    has_more: bool


def merged_changes(
    answers: Mapping[int, FoundChanges], cursor: ChangesCursor, most: int, partitions: int
) -> ChangesPage:
    """The first ``most`` changes of all answers, by partition.

    A partition without an answer stays where the cursor has it. Raises ``BadCursor``.
    """
    _refuse_unreadable(answers, cursor)
    # Of a partition that was not read to its end, later rows follow: those of others from then on
    # would come too early. One that got no further than before bounds nothing, or nothing would
    # ever be read on.
    ends = [each.scanned_s for each in answers.values() if not each.is_whole and each.scanned_s]
    known_to = min(ends, default=0)
    streams = [each.rows for each in answers.values()]
    rows: list[ListedChange] = []
    left: dict[int, int] = {}  # by partition: the first row that is not taken
    for row in heapq.merge(*streams, key=lambda row: (row.noted, row.partition, row.number)):
        if row.partition in left or len(rows) == most or (known_to and row.noted > known_to):
            left.setdefault(row.partition, row.number)
        else:
            rows.append(row)
    reached = {
        partition: left[partition] - 1 if partition in left else each.scanned
        for partition, each in answers.items()
    }
    is_whole = all(each.is_whole for each in answers.values()) and not left
    return ChangesPage(rows, _moved(cursor, answers, reached, partitions), not is_whole)


def _refuse_unreadable(answers: Mapping[int, FoundChanges], cursor: ChangesCursor) -> None:
    generation = max((each.generation for each in answers.values()), default=cursor.generation)
    if cursor.generation > generation:
        raise BadCursor(
            f"this cursor is from after {cursor.generation} imports, and the crawl had"
            f" {generation}: it was restored from an older copy, so begin again with a time"
        )
    lost = sorted(partition for partition, each in answers.items() if each.is_lost)
    if lost:
        raise BadCursor(
            f"changes behind this cursor are no longer kept (partition {lost[0]}; see the setting"
            " frontier.changes_days): begin again with a time, or without a cursor"
        )
    ahead = sorted(partition for partition, each in answers.items() if each.is_ahead)
    if ahead:
        raise BadCursor(
            f"this cursor is behind the last change of partition {ahead[0]}: the crawl was restored"
            " from an older copy, so begin again with a time, or without a cursor"
        )


def _moved(
    cursor: ChangesCursor,
    answers: Mapping[int, FoundChanges],
    reached: Mapping[int, int],
    partitions: int,
) -> ChangesCursor:
    if not answers:
        return cursor
    generation = next(iter(answers.values())).generation
    vector = {**cursor.read.get(generation, {}), **reached}
    read = {**cursor.read, generation: vector}
    is_over = len(answers) == partitions and all(
        each.is_imported_over and reached[partition] == each.scanned
        for partition, each in answers.items()
    )
    if is_over:  # the numbers from before an import are of no more use
        read = {generation: vector}
    return ChangesCursor(read, 0.0 if len(vector) == partitions else cursor.since_s)


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
