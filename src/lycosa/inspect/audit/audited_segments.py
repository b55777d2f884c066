"""The committed part of a crawl's segments, and a second reading of their WARC files.

Bytes beyond the committed length of an open file are not guaranteed and not read. A file that is
shorter than committed has lost data.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path

import msgspec

from lycosa.inspect.audit.audit_report import Check
from lycosa.state.store import layout
from lycosa.state.store.journal import JournalError, read_all_rows, read_header
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader
from lycosa.state.store.removed_files import ElsewhereError

_GZIP = 16 + zlib.MAX_WBITS
_CHUNK = 1 << 20


class Segment(msgspec.Struct, frozen=True):
    """One segment: committed lengths of its WARC and journal, ``None`` for the whole file.

    ``folder`` has its files, as a crawl folder has them.
    ``is_closed`` says that it has its final names and is read to its end, so that its derived files
    can be compared. Open ``warc`` and ``journal`` with ``layout.open_segment_file``, because a
    running crawl may close the segment at any time. ``read_warc`` returns the bytes of the WARC
    between two offsets, and may raise ``ElsewhereError`` or ``OSError``.
    """

    folder: Path
    name: str
    is_closed: bool
    header: SegmentHeader
    warc: Path
    warc_length: int
    journal: Path
    journal_length: int | None
    read_warc: Callable[[int, int], bytes]

    def rows(self) -> Iterator[JournalRow]:
        """Its captures and renders, in the order of their records. Raises ``JournalError``."""
        return read_all_rows(self.journal, self.journal_length)


def segments(
    folder: Path, lengths: Mapping[str, int], check: Check, closed: Set[str] | None = None
) -> list[Segment]:
    """All segments with committed captures, oldest first; missing committed bytes are breaches.

    ``lengths`` are those of the last commit that was read. For a running crawl ``closed`` names the
    segments that were closed *before* the commit logs were read. Of the others only those in
    ``lengths`` are returned: a segment that began since has captures that the state, as it was
    read, lacks, and they would look like breaches.
    """
    committed = {layout.stem_of(name) for name in lengths}
    names = committed | (
        layout.segment_names(folder, layout.WARC, layout.JOURNAL) if closed is None else closed
    )
    found = [
        segment for name in names if (segment := _segment(folder, name, lengths, check)) is not None
    ]
    return sorted(found, key=lambda segment: (segment.header.created_us, segment.name))


def _segment(folder: Path, name: str, lengths: Mapping[str, int], check: Check) -> Segment | None:
    paths, known = {}, {}
    is_closed = layout.is_closed(folder, layout.WARC, name)
    is_closing = layout.is_closed(folder, layout.JOURNAL, name)
    for kind in (layout.WARC, layout.JOURNAL):
        path = folder / layout.file_name(kind, name)
        committed = lengths.get(layout.file_name(kind, name) + layout.OPEN)
        if committed is None and not (is_closed or is_closing):
            return None  # made for a commit that was never written
        try:
            with layout.open_segment_file(path) as file:
                size = file.seek(0, os.SEEK_END)
        except FileNotFoundError:
            # Missing files are a finding; the other segments are checked all the same.
            check.expect(
                False,
                f"{path.relative_to(folder)} is"
                f" missing{f'; {committed} bytes of it were committed' if committed else ''}",
            )
            return None
        if committed is not None and size < committed:
            check.expect(
                False,
                f"{path.relative_to(folder)} has {size} bytes, but {committed} were committed",
            )
        paths[kind] = path
        # Bytes behind the committed length belong to no commit, and the next start cuts them off.
        known[kind] = size if committed is None else min(size, committed)
        is_closed = is_closed and known[kind] == size
    try:
        header = read_header(paths[layout.JOURNAL])
    except (JournalError, ElsewhereError) as error:
        # Without its header a segment has no worker and no time, so nothing in it can be judged.
        check.expect(False, str(error))
        return None
    length = None if is_closed else known[layout.JOURNAL]
    return Segment(
        folder,
        name,
        is_closed,
        header,
        paths[layout.WARC],
        known[layout.WARC],
        paths[layout.JOURNAL],
        length,
        warc_reader(paths[layout.WARC]),
    )


def warc_reader(path: Path) -> Callable[[int, int], bytes]:
    """Reads bytes of a WARC file, open or closed."""

    def read(start: int, end: int) -> bytes:
        with layout.open_segment_file(path) as file:
            file.seek(start)
            return file.read(end - start)

    return read


def members(path: Path) -> Iterator[bytes]:
    """The content of each gzip member of a file.

    Raises ``zlib.error`` or ``EOFError`` where one is damaged or truncated.
    """
    with path.open("rb") as file:
        left = b""
        while left or (left := file.read(_CHUNK)):
            # A new object for each member: they are compressed separately, so that each record can
            # be read alone.
            unpacker, parts = zlib.decompressobj(_GZIP), []
            while True:
                parts.append(unpacker.decompress(left))
                if unpacker.eof:
                    break
                left = file.read(_CHUNK)
                if not left:
                    raise EOFError(f"{path} ends inside a record")
            left = unpacker.unused_data
            yield b"".join(parts)


def is_records(data: bytes) -> bool:
    """Whether these bytes of a WARC file are complete records, one gzip member each."""
    while data:
        unpacker = zlib.decompressobj(_GZIP)
        try:
            content = unpacker.decompress(data)
        except zlib.error:
            return False
        if not unpacker.eof or not content.startswith(b"WARC/1.1\r\n"):
            return False
        data = unpacker.unused_data
    return True
