"""Lookups beyond a URL's record: in the WARC, attempt log, linking pages and its host's queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from lycosa.base.model.code_version import shown_digest
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.due_band import DUE_BANDS
from lycosa.base.reasons import Reason
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.explain.facts import Explanation
from lycosa.state.attempts.attempt_files import ATTEMPT_LOG_DAMAGE, open_file
from lycosa.state.kv.table_records import PARKED_BAND, SPECULATIVE_BAND, row_urls
from lycosa.state.shard.view import CrawlView
from lycosa.state.store import layout
from lycosa.state.store.derived_files import LINKS
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import Extractor, JournalRow
from lycosa.state.store.removed_files import ElsewhereError
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.stored_data import RecordError, StoredRecord, metadata_behind

_SHOWN = 10


class Stored(msgspec.Struct, frozen=True):
    """A capture in its WARC.

    It has the path relative to the crawl folder or to the cluster's objects, the response or
    revisit record, and the fields of its metadata record.
    """

    path: str
    offset: int
    length: int
    record: StoredRecord
    metadata: dict[str, str]


class Tried(msgspec.Struct, frozen=True):
    """One request in the attempt log.

    ``outcome`` is ``None`` when it never ended. Times are seconds since 1970.
    """

    began: float
    address: str
    outcome: Reason | None = None
    status: int = 0
    duration_s: float = 0.0


class FoundOn(msgspec.Struct, frozen=True):
    """A link: the page, the kind of link, its anchor, and whether it is marked nofollow."""

    page: str
    kind: str
    anchor: str
    nofollow: bool


class Search(msgspec.Struct, frozen=True):
    """The result of a search for links to a URL.

    ``gap`` describes where the search could not look; empty when it was complete.
    """

    link: FoundOn | None = None
    gap: str = ""


LinkSearch = Callable[[CrawlReader, str], Search]
"""Searches for a link to a URL."""


class QueuePlace(msgspec.Struct, frozen=True):
    """Place of a URL in its host's back queue.

    ``before`` counts the waiting URLs of its kind before it, new pages or due ones, ``waiting``
    those of both kinds.
    """

    band: int
    before: int
    waiting: int


def stored_capture(source: CrawlView, segment: str, offset: int) -> Stored | None:
    """The capture at a place, or ``None`` when its segment or record is missing."""
    name = layout.stem_of(segment)
    try:
        record = source.read_record(segment, offset)
        metadata = metadata_behind(source, segment, offset, record)
        # Commits name open segments, and for a moment segments that are being closed: only these
        # are searched for.
        is_named = layout.file_name(layout.WARC, name) + layout.OPEN in source.seen.last.lengths
        is_open = is_named and any(
            each.name == name and not each.is_closed for each in source.list_segments()
        )
    except (RecordError, OSError):
        # The explanation is useful without its record, and the audit reports what is damaged.
        return None
    path = layout.file_name(layout.WARC, name) + (layout.OPEN if is_open else "")
    if is_open and source.seen.origin.is_cluster:
        path = f"parts/{layout.segment_worker(name):05d}/{name}/"
    return Stored(path, offset, record.length, record, metadata)


def tries_of(files: Mapping[int, Sequence[Path]], url: str) -> list[Tried]:
    """The last requests for a URL, oldest first.

    ``files`` are attempt logs by worker. All are read; of the lines of other URLs only the ends.
    """
    tail = b"\t" + url.encode() + b"\n"
    found: dict[tuple[int, str, int], Tried] = {}
    for worker, paths in files.items():
        waiting: dict[bytes, tuple[int, str, int]] = {}
        for path in paths:
            # dropped meanwhile; the audit reports damage
            with (
                suppress(FileNotFoundError, *ATTEMPT_LOG_DAMAGE),
                open_file(path) as file,
            ):
                for line in file:
                    with suppress(ValueError, IndexError):  # a line that a kill cut
                        if line.startswith(b"B\t") and line.endswith(tail):
                            _begun(worker, path, line, found, waiting)
                        elif waiting and line.startswith(b"E\t"):
                            _ended(line, found, waiting)
    return sorted(found.values(), key=lambda tried: tried.began)[-_SHOWN:]


def found_on(reader: CrawlReader, url: str) -> Search:
    """A committed page that links to a URL.

    Searches the tables of links where these exist, and the journals of segments without such
    a table.
    """
    # A running worker explains URLs too, but never searches links: it needs no memory for Arrow.
    import pyarrow as pa

    searched = set()
    for path in reader.origin.find_derived(LINKS):
        try:
            link = _in_table(path, url)
        except (pa.ArrowException, OSError):
            continue  # its journal has the same links
        searched.add(layout.stem_of(path))
        if link is not None:
            return Search(link)
    unread = []
    for segment in [each for each in reader.source.list_segments() if each.name not in searched]:
        try:
            link = (
                _in_journal(reader.source, segment, url)
                if segment.journal_length is not None
                else None
            )
        except (JournalError, OSError):
            # Counted, because "no link was found" would be wrong while a journal is unread.
            unread.append(segment.name)
            continue
        if link is not None:
            return Search(link)
        if segment.journal_length is None and segment.is_closed:
            unread.append(segment.name)
    return Search(
        None,
        (
            f"the links of {len(unread)} segment{'s' * (len(unread) > 1)} cannot be read"
            if unread
            else ""
        ),
    )


def links_not_searched(reader: CrawlReader, url: str) -> Search:
    """The result where the links are too many to read without being asked to."""
    return Search(None, "`lycosa explain --links` searches them")


def _in_table(path: Path, url: str) -> FoundOn | None:
    import pyarrow.dataset as ds  # as above

    columns = ["source_url", "kind", "anchor", "nofollow"]
    table = ds.dataset(path, format="parquet").head(
        1, columns=columns, filter=ds.field("target_url") == url
    )
    return FoundOn(*table.to_pylist()[0].values()) if table.num_rows else None


def _in_journal(source: CrawlView, segment: StoredSegment, url: str) -> FoundOn | None:
    for having in (msgspec.json.encode(url), RENDER_LINE):
        for row in source.read_rows(segment, having):
            if url in row.links.urls:
                return _link(row, row.links.urls.index(url))
    return None


def _link(row: JournalRow, at: int) -> FoundOn:
    links = row.links
    return FoundOn(
        row.url, LinkKind(links.kinds[at]).name.lower(), links.anchors[at], at in links.nofollow
    )


def place_in_queue(view: TableView, host8: bytes, url8: bytes) -> QueuePlace | None:
    """Walk the host's back queue."""
    place, waiting, before, is_due = None, 0, 0, False
    prefix = b"Q" + host8
    for key, value in view.scan(prefix, prefix + b"\xff" * 8):
        if key[9] in (PARKED_BAND, SPECULATIVE_BAND):
            continue
        row = row_urls(value)
        if key[9] in DUE_BANDS and not is_due:
            is_due, before = True, 0
        if url8 in row and place is None:
            place = QueuePlace(key[9], before + row.index(url8), 0)
        waiting, before = waiting + len(row), before + len(row)
    return msgspec.structs.replace(place, waiting=waiting) if place else None


def _begun(
    worker: int,
    path: Path,
    line: bytes,
    found: dict[tuple[int, str, int], Tried],
    waiting: dict[bytes, tuple[int, str, int]],
) -> None:
    fields = line.split(b"\t")
    key = (worker, path.name, int(fields[1]))
    waiting[fields[1]] = key
    found[key] = Tried(int(fields[3]) / 1e6, fields[5].decode())


def _ended(
    line: bytes,
    found: dict[tuple[int, str, int], Tried],
    waiting: dict[bytes, tuple[int, str, int]],
) -> None:
    fields = line.rstrip(b"\n").split(b"\t")
    key = waiting.pop(fields[1], None)
    if key is not None and len(fields) == 8:
        outcome, status, duration = Reason(int(fields[4])), int(fields[5]), int(fields[6]) / 1e6
        found[key] = msgspec.structs.replace(
            found[key], outcome=outcome, status=status, duration_s=duration
        )


def code_facts(answer: Explanation, reader: CrawlReader, segment: str) -> None:
    """Add the extractors of the segment: a segment ends when the code of the crawl changes."""
    found = _extractors(reader, layout.stem_of(segment))
    values = [{"name": each.name, "version": each.version, "sha256": each.code} for each in found]
    answer.add_fact("extractors", values or None, "; ".join(map(shown_extractor, found)))


def shown_extractor(extractor: Extractor) -> str:
    """An extractor with its version and the beginning of its digest, for people."""
    code = f" (SHA-256 {shown_digest(extractor.code)})" if extractor.code else ""
    return f"{extractor.name} version {extractor.version}{code}"


def _extractors(reader: CrawlReader, name: str) -> tuple[Extractor, ...]:
    items = reader.origin.items
    if items is None:
        return ()
    for segment in reader.source.list_segments():
        if segment.name == name and segment.journal_length is not None:
            try:
                return items.read_header(segment).extractors
            except (JournalError, ElsewhereError, OSError):
                return ()  # the audit reports what is damaged
    return ()
