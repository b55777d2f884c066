"""Writes a crawl as one WACZ 1.1.1 file: WARC files, index, page lists, digests, signature.

Everything that is committed is in it, also of open segments, and of each segment the bytes that the
crawl has. A crawl with a purpose leaves out what the purpose may not use (``may_use``): the records
of such captures are not copied, and their offsets move. Memory holds a piece of a WARC file and a
run of index lines. The same committed state gives the same bytes: the time of the archive is that
of the last commit.

Sources: WACZ 1.1.1 and "WACZ Signing and Verification" 0.1.0 at specs.webrecorder.net.
"""

from __future__ import annotations

import errno
import hashlib
import heapq
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from lycosa.base.model.fetched import FetchKind
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.base.signing.archive_key import ArchiveKey
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.wacz.wacz_file import EntryWriter, WaczFile
from lycosa.inspect.wacz.wacz_index import index_line, render_index_line, write_index
from lycosa.inspect.wacz.wacz_pages import PageLists, iso_second
from lycosa.state.store import cdxj, layout
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import PRIVATE_LINE, UNCHANGED, JournalRow
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.state.store.rendered_texts import BetterRenders
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.sorted_lines import SortedLines
from lycosa.state.store.stored_data import RecordError

WACZ_VERSION, _SIGNATURE_VERSION = "1.1.1", "0.1.0"
MANIFEST_ENTRY, DIGEST_ENTRY = "datapackage.json", "datapackage-digest.json"
_PIECE = 4 << 20

ReadWarc = Callable[[str, int, int], bytes]
"""The bytes of a segment's WARC between two offsets, fewer at its end."""


@runtime_checkable
class WarcSource(Protocol):
    """The view of a folder or cluster, which gives WARC files by the byte."""

    def read_warc(self, segment: str, start: int, end: int) -> bytes: ...


@dataclass(frozen=True)
class WaczReport:
    """What a WACZ has.

    ``hash`` is that of its manifest, which has those of all files. ``left_out`` are captures that
    the purpose may not use, and ``private`` those that were fetched with credentials and were not
    asked for. ``elsewhere`` are revisits of which the crawl does not name the record
    with the body: if another archive has it, they are shown only together with that one.
    ``public_key`` is empty without a signature.
    """

    segments: int = 0
    captures: int = 0
    pages: int = 0
    left_out: int = 0
    private: int = 0
    elsewhere: int = 0
    size: int = 0
    hash: str = ""
    public_key: str = ""


def write_wacz(
    reader: CrawlReader,
    path: Path,
    policy: UsePolicy,
    key: ArchiveKey | None = None,
    title: str = "",
) -> WaczReport:
    """Write the archive at ``path``, complete or not at all.

    Raises ``JournalError`` if a journal is missing, ``RecordError`` if a WARC file is shorter than
    its journal says, ``ObjectError`` or ``OSError``.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    if not path.parent.is_dir():  # else the message would name a temporary file
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        lists, lines = PageLists(path.parent), SortedLines(path.parent)
        try:
            with WaczFile(temporary, reader.last_commit) as file:
                report = _Archives(reader, policy, file, lists, lines).copy_all()
                write_index(file, lines, path.parent)
                lists.write(file)
                report = replace(report, pages=lists.number)
                hashed = _add_manifest(file, reader.last_commit, lists, title, report, key)
        finally:
            lists.close()
            lines.close()
        size = temporary.stat().st_size
        temporary.replace(path)
    except OSError as error:
        if error.filename == str(temporary):
            error.filename, error.filename2 = str(path), None  # the name that the user knows
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return replace(report, size=size, hash=hashed, public_key=key.public if key else "")


class _Archives:
    """Copies the WARC files, and lists the captures in the index and in the page lists."""

    def __init__(
        self,
        reader: CrawlReader,
        policy: UsePolicy,
        file: WaczFile,
        lists: PageLists,
        lines: SortedLines,
    ) -> None:
        assert isinstance(reader.source, WarcSource)
        self._source, self._read = reader.source, reader.source.read_warc
        self._may_give = reader.may_give
        self._policy, self._file, self._lists, self._lines = policy, file, lists, lines
        self._segments = [each for each in self._source.list_segments() if each.length]
        self._names = {each.name for each in self._segments}
        self._captures = self._left_out = self._private = self._elsewhere = 0
        self._refused = self._refused_places()
        self._better = BetterRenders(reader.source)

    def copy_all(self) -> WaczReport:
        for segment in self._segments:
            name = f"archive/{layout.warc_name(segment.name)}"
            with self._file.add_entry(name, segment.length, is_packed=True) as out:
                self._copy_segment(segment, _Copy(self._read, segment.name, out))
        return WaczReport(
            segments=len(self._segments),
            captures=self._captures,
            left_out=self._left_out,
            private=self._private,
            elsewhere=self._elsewhere,
        )

    def _copy_segment(self, segment: StoredSegment, copy: _Copy) -> None:
        renders = self._source.read_rows(segment, RENDER_LINE)
        for row in heapq.merge(self._rows(segment), renders, key=lambda each: each.offset):
            end = row.offset + row.length
            if not self._may_keep(row):
                copy.copy_until(row.offset - row.request_length)
                copy.skip_until(end + row.metadata_length)
                if row.render is None:
                    self._private += not self._may_give(row)
                    self._left_out += self._may_give(row)
                continue
            if row.render is not None:
                self._copy_render(row, copy)
                continue
            copy.copy_until(row.offset)
            offset = copy.position
            line = index_line(row, offset, copy.copy_until(end))
            self._captures += 1
            if line is not None and self._is_shown(row):
                self._lines.add_line(line)
                self._list(row)
        copy.copy_until(segment.length)

    def _copy_render(self, row: JournalRow, copy: _Copy) -> None:
        """Copy the records of a render, of which those with a URN are in the index."""
        for record, start in cdxj.shown_records(row):
            copy.copy_until(start)
            offset = copy.position
            line = render_index_line(row, record, offset, copy.copy_until(start + record.length))
            self._lines.add_line(line)
        self._list(row)

    def _list(self, row: JournalRow) -> None:
        if (shown := self._better.shown(row)) is not None:
            self._lists.add_capture(shown.row)

    def _rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        if segment.journal_length is None:
            raise JournalError(
                f"the journal of {segment.name} is missing, which alone says where its records are"
            )
        return self._source.read_rows(segment, having)

    def _may_keep(self, row: JournalRow) -> bool:
        if not self._may_give(row):
            return False
        # robots.txt files and the like are about an origin, and no page
        return row.kind is not FetchKind.PAGE or self._policy.allows(row.preferences)

    def _refused_places(self) -> set[tuple[str, int]]:
        """The places of records that are left out, because revisits may refer to them.

        Judged before anything is copied: the revisit may come first. Without a purpose only private
        captures are refused, also those of rules that the crawl has no more.
        """
        having = PRIVATE_LINE if self._policy.records_only else b""
        return {
            (segment.name, row.offset)
            for segment in self._segments
            for row in self._rows(segment, having)
            if not row.revisit and not self._may_keep(row)
        }

    def _is_shown(self, row: JournalRow) -> bool:
        """Whether the body of a capture may be used, which for a revisit is in another record."""
        if not row.revisit or row.revisit == UNCHANGED:
            return True
        body = row.body_segment or row.segment
        self._elsewhere += not row.body_offset or body not in self._names
        return (body, row.body_offset) not in self._refused


class _Copy:
    """Copies a WARC file from its beginning into an entry, without the parts that are skipped."""

    def __init__(self, read: ReadWarc, segment: str, out: EntryWriter) -> None:
        self._read, self._segment, self._out, self._at = read, segment, out, 0
        self._start, self._piece = 0, memoryview(b"")  # what was read, and its place

    @property
    def position(self) -> int:
        """Where in the entry the next byte comes."""
        return self._out.position

    def copy_until(self, end: int) -> str:
        """Copy up to an offset; the SHA-256 of what was copied, in hexadecimal.

        Raises ``RecordError`` if the file ends before.
        """
        summed = hashlib.sha256()
        while self._at < end:
            data = self._next(end)
            self._out.write(data)
            summed.update(data)
            self._at += len(data)
        return summed.hexdigest()

    def skip_until(self, end: int) -> None:
        self._at = max(self._at, end)

    def _next(self, end: int) -> memoryview:
        """The next bytes of the file, not beyond ``end``."""
        if not self._start <= self._at < self._start + len(self._piece):
            # in large pieces, because most records are small and may be in object storage
            self._start = self._at
            self._piece = memoryview(self._read(self._segment, self._at, self._at + _PIECE))
        if not self._piece:
            raise RecordError(
                f"{layout.warc_name(self._segment)} ends at byte {self._at}, and its journal has"
                f" records up to {end}"
            )
        return self._piece[self._at - self._start : end - self._start]


def _add_manifest(
    file: WaczFile,
    created: float,
    lists: PageLists,
    title: str,
    report: WaczReport,
    key: ArchiveKey | None,
) -> str:
    """Write the manifest and its digest, and sign that; returns the digest."""
    moment = iso_second(int(created) * 1_000_000)
    main, software = lists.main, f"Lycosa {version('lycosa')}"
    host = urlsplit(main.url).hostname if main else ""
    document = {
        "profile": "data-package",
        "wacz_version": WACZ_VERSION,
        "software": software,
        "created": moment,
        "title": title or (f"Crawl of {host}" if host else "Crawl without pages"),
        "description": f"{report.captures} captures, {report.pages} of them pages"
        + (f"; {report.left_out} left out, which the purpose may not use" * bool(report.left_out)),
        **({"mainPageUrl": main.url, "mainPageDate": main.time} if main else {}),
        "resources": [
            {
                "name": each.path.rpartition("/")[2].lower(),
                "path": each.path,
                "hash": each.hash,
                "bytes": each.size,
            }
            for each in file.resources
        ],
    }
    written = json.dumps(document, indent=2).encode()
    hashed = f"sha256:{hashlib.sha256(written).hexdigest()}"
    digest: dict[str, Any] = {"path": MANIFEST_ENTRY, "hash": hashed}
    if key is not None:
        digest["signedData"] = {
            "hash": hashed,
            "created": moment,
            "software": software,
            "version": _SIGNATURE_VERSION,
            "signature": key.sign_text(hashed),
            "publicKey": key.public,
        }
    file.add_document(MANIFEST_ENTRY, written)
    file.add_document(DIGEST_ENTRY, json.dumps(digest, indent=2).encode())
    return hashed
