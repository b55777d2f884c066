"""The captures of one URL, and the stored body of one of them.

The newest capture is in the URL's record. Earlier ones are found in the CDXJ indexes of closed
segments by binary search, where these are files of a crawl folder. On a cluster the indexes are in
object storage, and a search takes some requests for each of thousands of segments: longer than a
question may take. There the capture of the record says how many others there are.
"""

from __future__ import annotations

import base64
import mmap
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.preferences.preference_words import read_answers
from lycosa.base.system.content_encoding import Decoded, decode_content
from lycosa.base.urls.identity import hash8, host_of, surt
from lycosa.inspect.committed_state import CrawlReader, TableView, UrlEntry
from lycosa.inspect.queries.time_budget import OutOfTime, TimeBudget
from lycosa.state.store.cdxj import CdxjEntry, timestamp
from lycosa.state.store.derived_files import CDXJ
from lycosa.state.store.stored_bodies import (
    BodyPlace,
    RevisitTarget,
    record_with_body,
    reference_of,
)
from lycosa.state.store.stored_data import RecordError, StoredRecord, metadata_behind

MAX_PIECE_BYTES = 16 << 20
"""Largest body that is decoded; of a longer one the beginning is given."""

_MAX_RATIO = 1000  # of decoded to stored bytes
_LATEST = 10**14  # of the 14 digits of a time
_SEARCH_S = 1.0  # in the indexes, for a capture that a revisit refers to
_decode_entry = msgspec.json.Decoder(CdxjEntry).decode


class ListedCapture(msgspec.Struct, frozen=True):
    """A capture: when its request began (14 digits, as in CDXJ), and where its record is.

    Media type and length are known once the segment is closed. ``others`` is the number of captures
    of the same URL that are not listed. ``body`` is the place of the record with the body, where
    that is known to be another one, and ``body_time`` the time of that one, if it is of this URL.
    """

    time: str
    segment: str
    offset: int
    status: int = 0
    media_type: str = ""
    digest: str = ""
    length: int = 0
    is_revisit: bool = False
    redirect: str = ""
    others: int = 0
    body: BodyPlace | None = None
    body_time: str = ""

    @property
    def place(self) -> BodyPlace:
        """Where its own record is."""
        return self.segment, self.offset

    @property
    def mark(self) -> str:
        """The cursor behind it, in a list from the newest on."""
        return f"{_LATEST - int(self.time):015d}"

    def to_row(self, entry: UrlEntry) -> dict[str, Any]:
        """The row of a list."""
        return {
            "url": entry.url,
            "id": (entry.host8 + entry.url8).hex(),
            "date": _seconds(self.time),
            "status": self.status,
            "media_type": self.media_type,
            "digest": f"sha1:{self.digest}" if self.digest else "",
            "length": self.length,
            "revisit": self.is_revisit,
            "redirect_to": self.redirect,
            "warc": f"warc/{self.segment}",
            "offset": self.offset,
            "others": self.others,
            "order": self.mark,
            "cursor": self.mark,
        }


def captures_of(
    reader: CrawlReader, entry: UrlEntry, budget: TimeBudget
) -> tuple[list[ListedCapture], bool]:
    """The captures of a URL, newest first, each once; and whether the time was enough for all.

    The newest is there in any case.
    """
    folder = reader.origin.folder
    newest = _newest(entry, has_index=folder is not None)
    found = {newest.time: newest} if newest is not None else {}
    is_complete = True
    try:
        for each in _indexed(folder, entry.url, budget):
            # The index tells more than the record of the URL, apart from the place of the body.
            if newest is not None and each.place == newest.place:
                if found.get(newest.time) is newest:
                    del found[newest.time]
                found[each.time] = msgspec.structs.replace(each, body=newest.body)
            else:
                found[each.time] = each
    except OutOfTime:
        is_complete = False
    return sorted(found.values(), key=lambda each: each.time, reverse=True), is_complete


def capture_at(captures: list[ListedCapture], at: float) -> ListedCapture | None:
    """The last capture up to a wall time, or the newest when the time is 0."""
    latest = timestamp(int(at * 1_000_000)) if at else ""
    # Without an index only the newest is listed. The body that it has had since then is known.
    earlier = (
        msgspec.structs.replace(each, time=each.body_time)
        for each in captures
        if each.body_time and each.body_time <= latest
    )
    listed = (each for each in captures if not latest or each.time <= latest)
    return next(chain(listed, earlier), None)


class StoredContent(msgspec.Struct, frozen=True):
    """A stored body, decoded; ``reason`` says why it is not complete, ``headers`` is the block.

    ``refers_to`` is the capture of another partition that has the body, when only that one's owner
    can find it. ``answers`` are what the site stated about the use of the page at the fetch of the
    capture. ``privacy`` is ``private`` or ``shared`` for a request with credentials.
    """

    body: bytes
    media_type: str
    headers: bytes
    record_id: str
    reason: str = ""
    refers_to: RevisitTarget | None = None
    answers: dict[str, bool] = {}
    privacy: str = ""


def content_of(
    reader: CrawlReader, view: TableView, capture: ListedCapture
) -> StoredContent | None:
    """The body of a capture, or of the one that a revisit refers to; ``None`` without a record.

    ``view`` is the partition of the capture's URL. At most three records are read where the place
    of the body is stored: the one with the body, and the capture's own two, which say what the site
    stated at this fetch.
    """
    places = [capture.place] if capture.body is None else [capture.body, capture.place]
    read = lru_cache(2)(reader.source.read_record)

    def elsewhere(reference: RevisitTarget) -> Iterator[BodyPlace]:
        return _places_of(reader, view, reference)

    try:
        record = record_with_body(read, places, elsewhere)
        own = read(*capture.place)
        metadata = metadata_behind(reader.source, *capture.place, own)
    except (RecordError, OSError):
        return None
    reference, refers_to = reference_of(record), None
    headers, decoded = record.header_block, decoded_body(record)
    kinds = _headers(headers, b"content-type")
    reason = decoded.reason.meaning if decoded.reason else ""
    if reference is not None:
        if reference.url and reader.partition_of(reference.url) != view.number:
            refers_to = reference  # its owner may know where it is
        reason = "the body is that of an earlier capture, whose record cannot be read here"
    return StoredContent(
        decoded.body[:MAX_PIECE_BYTES],
        kinds[0] if kinds else "",
        headers,
        record.fields.get("WARC-Record-ID", "").strip("<>"),
        reason,
        refers_to,
        read_answers(metadata.get("usePreferences", "")),
        metadata.get("privacy", ""),
    )


def decoded_body(record: StoredRecord) -> Decoded:
    """The body of a record without its content encodings, within bounds."""
    encodings = _headers(record.header_block, b"content-encoding")
    return decode_content(record.body, encodings, MAX_PIECE_BYTES, _MAX_RATIO)


def _newest(entry: UrlEntry, has_index: bool) -> ListedCapture | None:
    history = entry.record.history
    if history is None or not history.segment:
        return None
    # Where another capture has the body, the date is that of that one.
    is_other_url = history.is_same or history.is_elsewhere
    is_other = is_other_url or history.body_offset
    date_us = history.fetched_at * 1_000_000 if is_other else history.date_us
    return ListedCapture(
        timestamp(date_us or history.fetched_at * 1_000_000),
        history.segment,
        history.offset,
        history.status,
        digest=base64.b32encode(history.digest).decode(),
        is_revisit=history.is_same or bool(history.body_offset),
        redirect=history.redirect_to,
        others=0 if has_index else max(history.fetches - 1, 0),
        body=history.body_place if history.body_offset else None,
        body_time=timestamp(history.date_us) if history.body_offset and not is_other_url else "",
    )


def _indexed(folder: Path | None, url: str, budget: TimeBudget) -> Iterator[ListedCapture]:
    if folder is None:
        return
    key = f"{surt(url)} ".encode()
    for path in sorted((folder / CDXJ).glob("[!.]*.cdxj")):
        budget.spend()
        for line in _lines_with(path, key):
            budget.spend()
            time, _, data = line[len(key) :].partition(b" ")
            entry = _decode_entry(data)
            if entry.url == url:
                yield ListedCapture(
                    time.decode(),
                    entry.filename.removeprefix("warc/"),
                    int(entry.offset),
                    int(entry.status or 0),
                    entry.mime,
                    entry.digest,
                    int(entry.length or 0),
                    entry.mime == "warc/revisit",
                    entry.redirect,
                )


def segments_with(folder: Path | None, url: str) -> set[str] | None:
    """The closed segments whose index has the URL; ``None`` where there are no files of indexes.

    A visit that was answered with 304 is in no index.
    """
    if folder is None:
        return None
    key = f"{surt(url)} ".encode()
    return {
        path.stem
        for path in (folder / CDXJ).glob("[!.]*.cdxj")
        if next(_lines_with(path, key), None) is not None
    }


def _lines_with(path: Path, key: bytes) -> Iterator[bytes]:
    """The lines of a sorted file that begin with a key."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            low, high = 0, len(data)
            while low < high:  # the first line that is not less than the key begins in [low, high]
                middle = data.rfind(b"\n", 0, (low + high) // 2) + 1
                end = data.find(b"\n", middle) + 1 or len(data)
                if data[middle:end] < key:
                    low = end
                else:
                    high = middle
            while low < len(data) and data[low : low + len(key)] == key:
                end = data.find(b"\n", low) + 1 or len(data)
                yield data[low:end]
                low = end


def _places_of(
    reader: CrawlReader, view: TableView, reference: RevisitTarget
) -> Iterator[BodyPlace]:
    """Where a capture may be by the record of its URL, if that is in ``view``, and by the index."""
    url = reference.url
    if url and reader.partition_of(url) == view.number:
        record = view.url_record(hash8(host_of(url)), hash8(url))
        history = record.history if record is not None else None
        if history is not None and reference.is_of(history):
            yield history.body_place
    wanted = "".join(each for each in reference.date if each.isdigit())[:14]
    with suppress(OutOfTime):  # ``content_of`` says that the body is missing
        for each in _indexed(reader.origin.folder, url, TimeBudget(_SEARCH_S)):
            if each.time == wanted:
                yield each.segment, each.offset


def _headers(block: bytes, name: bytes) -> list[str]:
    found = []
    for line in block.split(b"\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            found.append(value.strip().decode("latin-1"))
    return found


def _seconds(time: str) -> float:
    return datetime.strptime(time, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
