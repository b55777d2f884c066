"""WARC files of other programs as a source of extraction: each file is a segment.

What is read is untrusted (``state.store.warc_reading`` has the bounds). Captures are records of the
type ``response`` with status 200, and ``resource`` records of http and https URLs. A record that
cannot be read is reported, and is no capture.

A capture has no items of the crawl to compare with, so each of two records with equal content is
one. What only a crawl knows is empty: the site's statements about the use of a page, and whether
its URL was redirected to. Links and language are found in the body.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from lycosa.base.urls.identity import host_of
from lycosa.feeds.extraction.extraction_source import SourceCapture
from lycosa.feeds.stored_pages import header_fields
from lycosa.stages.extract.code_messages import GivenDocument
from lycosa.state.store.journal_rows import Extractor, JournalRow
from lycosa.state.store.warc_reading import DamagedPlace, WarcRecord, warc_records

_MAX_URL = 8192
_KINDS = frozenset({"response", "resource"})
_SUFFIX = re.compile(r"\.warc(\.gz|\.zst)?$|\.gz$|\.zst$", re.IGNORECASE)
_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_STATUS = re.compile(rb"HTTP/\S{1,8}[ \t]+([0-9]{3})(?:[ \t]|\r?\n)")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z")
_ID = re.compile(r"<?([^<>\s]{1,200})>?")
_CHUNK = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[^\r\n]{0,1000}\r?\n")
_HEAD_ENDS = re.compile(rb"\r\n\r\n"), re.compile(rb"\n\n")
_OK = 200

TellDamage = Callable[[str], object]


class ForeignCaptures:
    """An ``ExtractionSource``. ``tell`` gets a line for each damaged place.

    Raises ``ValueError`` for files whose names cannot be those of tables, or that have equal names.
    """

    def __init__(self, files: Sequence[Path], tell: TellDamage = lambda line: None) -> None:
        self.name, self._tell = f"{len(files)} WARC files", tell
        self._files: dict[str, Path] = {}
        for path in files:
            stem = stem_of_file(path)
            if stem in self._files:
                raise ValueError(
                    f"{self._files[stem]} and {path} have the same name, and a table has the name"
                    " of its file; give them in two calls, with another --to"
                )
            self._files[stem] = path

    def closed_segments(self) -> list[str]:
        """See ``ExtractionSource``."""
        return sorted(self._files)

    def count_open(self) -> int:
        """See ``ExtractionSource``."""
        return 0

    def extractors(self, segment: str) -> Sequence[Extractor]:
        """See ``ExtractionSource``: there was no crawl of ours."""
        return ()

    def captures(self, segment: str) -> Iterator[SourceCapture]:
        """See ``ExtractionSource``."""
        path = self._files[segment]
        with path.open("rb") as file:
            for found in warc_records(file, _KINDS):
                if isinstance(found, DamagedPlace):
                    self._tell(f"{path}, byte {found.offset:,}: {found.what}")
                elif (capture := capture_of(found, segment)) is not None:
                    yield capture


def stem_of_file(path: Path) -> str:
    """The name of a file's tables. Raises ``ValueError`` if it cannot be one."""
    stem = _SUFFIX.sub("", path.name)
    if not _STEM.fullmatch(stem):
        raise ValueError(
            f"{path}: a table gets the name of its file, which may have letters, digits and ._-"
        )
    return stem


def capture_of(record: WarcRecord, segment: str) -> SourceCapture | None:
    """The capture of a record; ``None`` if it is none of a page."""
    url = _target(record.fields.get("warc-target-uri", ""))
    head, body = _http_parts(record)
    if not url or head is None:
        return None
    status = _STATUS.match(head)
    if record.kind == "response" and (status is None or int(status[1]) != _OK):
        return None
    row = JournalRow(
        url=url,
        surt="",
        host=host_of(url),
        site="",
        date_us=_date_us(record.fields.get("warc-date", "")),
        status=_OK,
        segment=segment,
        offset=record.offset,
        length=len(record.block),
        record_id=_record_id(record),
    )
    return SourceCapture(row, partial(_given, row, record, head, body))


def _given(row: JournalRow, record: WarcRecord, head: bytes, body: bytes) -> GivenDocument:
    fields = header_fields(head)
    sent = dict(reversed(fields))
    if "chunked" in sent.get("transfer-encoding", "").lower():
        body = unchunked(body)  # most programs store the body without this coding
    encodings = [value for name, value in fields if name == "content-encoding"]
    return GivenDocument(
        row.url,
        row.status,
        fields,
        row.date_us / 1_000_000,
        body=body,
        encodings=encodings,
        is_cut=record.is_cut or "warc-truncated" in record.fields,
    )


def _target(text: str) -> str:
    """The URL of a record; empty if it is none of the web. Some programs write it in brackets."""
    url = text.strip().removeprefix("<").removesuffix(">")
    if not url.lower().startswith(("http://", "https://")) or len(url) > _MAX_URL:
        return ""
    with suppress(ValueError):
        if host_of(url) and url.isprintable():
            return url
    return ""


def _http_parts(record: WarcRecord) -> tuple[bytes | None, bytes]:
    """The header block and the body; no header block if the record has no document."""
    if record.kind == "resource":
        sent = record.fields.get("content-type", "application/octet-stream")
        return f"HTTP/1.1 200 OK\r\nContent-Type: {sent}\r\n\r\n".encode(), record.block
    if not record.block.startswith(b"HTTP/"):
        return None, b""
    ends = [found.end() for end in _HEAD_ENDS if (found := end.search(record.block))]
    end = min(ends, default=len(record.block))
    return record.block[:end], record.block[end:]


def unchunked(body: bytes) -> bytes:
    """A body without chunked transfer coding; unchanged if it does not have that.

    Source: RFC 9112 section 7.1. A body that ends early gives its beginning.
    """
    parts, at = list[bytes](), 0
    while (found := _CHUNK.match(body, at)) is not None:
        size = int(found[1], 16)
        at = found.end()
        if size == 0:
            return b"".join(parts)
        parts.append(body[at : at + size])
        at += size
        if at >= len(body):
            return b"".join(parts)
        if body[at : at + 2] == b"\r\n":
            at += 2
        elif body[at : at + 1] == b"\n":
            at += 1
        else:
            break
    return body


def _date_us(text: str) -> int:
    """Microseconds since 1970; 0 if the date is none."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return 0
    with suppress(ValueError):
        year, month, day, hour, minute, second = map(int, match.groups()[:6])
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        fraction = int((match[7] or "0").ljust(6, "0")[:6])
        return int(moment.timestamp()) * 1_000_000 + fraction
    return 0


def _record_id(record: WarcRecord) -> str:
    """The id of a record; one made of its bytes where there is none, because items refer to it."""
    match = _ID.fullmatch(record.fields.get("warc-record-id", "").strip())
    if match is not None and match[1].isprintable():
        return match[1]
    return f"sha1:{hashlib.sha1(record.block, usedforsecurity=False).hexdigest()}"
