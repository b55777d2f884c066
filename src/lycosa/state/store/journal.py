"""The row journal: the lines of a segment's captures, in one zstd frame per commit.

Commits record the ends of frames as lengths, so a journal is cut back to a commit by truncating the
file. It is kept when the segment closes: derived files are rebuilt from it, and exports and audits
read it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from lycosa.base.model.capture import Original
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.store import layout
from lycosa.state.store.derived_files import DERIVED_OPTIONS, RENDERS
from lycosa.state.store.journal_rows import RENDERS_FORMAT, JournalRow, SegmentHeader
from lycosa.state.store.render_facts import RENDER_LINE

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3  # level 1 saves 0.03 ms a page and costs a fifth more bytes
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: _LEVEL,
    zstd.CompressionParameter.checksum_flag: 1,
}
_POLICY = UsePolicy.__struct_fields__
_FRAME_ROWS = 500  # of a frame of a journal that is copied
_SIMHASH = b'"simhash":'
_encoder = msgspec.json.Encoder()
_rows = msgspec.json.Decoder(JournalRow)
_header = msgspec.json.Decoder(dict[str, Any])


FindSimilar = Callable[[str, int], Original | None]
"""The original of the page with this URL and simhash, if it is known as a near-duplicate."""


class JournalError(Exception):
    """A journal cannot be read, because its format is newer or it is damaged."""


def encode_line(row: JournalRow) -> bytes:
    """One line with its line end."""
    return _encoder.encode(row) + b"\n"


def decode_journal_row(line: bytes) -> JournalRow:
    """The row of one line, as this program wrote it."""
    return _rows.decode(line)


class _Kind(msgspec.Struct):
    render: msgspec.Raw = msgspec.Raw(b"")


_kind = msgspec.json.Decoder(_Kind)


def is_render(line: bytes) -> bool:
    """Whether a line is that of a render, not of a capture."""
    # An item of user code may have a field of that name.
    return RENDER_LINE in line and bool(bytes(_kind.decode(line).render))


def encode_header(header: SegmentHeader) -> bytes:
    """The first line with its line end. Each option is a key next to the other fields."""
    fields = msgspec.structs.asdict(header)
    options, policy = fields.pop("options"), fields.pop("policy")
    if not policy.records_only:
        fields |= msgspec.structs.asdict(policy)
    if not header.extractors:
        del fields["extractors"]
    return _encoder.encode(fields | options) + b"\n"


def encode_journal_frame(lines: Sequence[bytes]) -> bytes:
    """The lines of one commit as one zstd frame, with a checksum of their content."""
    return zstd.compress(b"".join(lines), options=_OPTIONS)


def read_header(path: Path) -> SegmentHeader:
    """The first line. Raises ``JournalError`` if there is none or its format is newer than ours."""
    lines = _lines(path, None)
    try:
        first = next(lines, b"")
    finally:
        lines.close()
    return _check(path, first)


def header_in(data: bytes, name: str) -> SegmentHeader:
    """The first line of a journal in memory; ``name`` is for the error.

    Raises like ``read_header``.
    """
    try:
        with zstd.ZstdFile(io.BytesIO(data)) as lines:
            first = next(iter(lines), b"")
    except (EOFError, zstd.ZstdError) as error:
        raise JournalError(f"{name}: {error}") from error
    return _check(Path(name), first)


def header_from(source: BinaryIO | io.BufferedReader, name: str) -> SegmentHeader:
    """The first line of a journal that is read from a stream; ``name`` is for the error.

    Raises like ``read_header``.
    """
    lines = _unpacked(source, Path(name), may_be_torn=False)
    try:
        return _check(Path(name), next(lines, b""))
    finally:
        lines.close()


def read_rows(path: Path, length: int | None = None, having: bytes = b"") -> Iterator[JournalRow]:
    """The rows of a journal, in the order of their records; memory contains one at a time.

    ``length`` limits reading to the committed bytes of an open journal. Without it, an open journal
    is read up to its last complete frame, since one may be in the process of being written. A
    closed journal that ends inside a frame raises ``JournalError``. With ``having`` only lines that
    contain these bytes are decoded and returned. The rows are those of captures, or with
    ``RENDER_LINE`` as ``having`` those of renders.
    """
    return _rows_of(path, _lines(path, length), having)


def read_all_rows(path: Path, length: int | None = None) -> Iterator[JournalRow]:
    """The rows of captures and of renders; otherwise as ``read_rows``."""
    return _rows_of(path, _lines(path, length), None)


def read_lines(path: Path, start: int, end: int) -> Iterator[bytes]:
    """The lines of a journal between two ends of frames, without the header line.

    Raises ``JournalError`` or ``OSError``.
    """
    if end <= start:
        return  # no frame is not a stream that zstd accepts
    with layout.open_segment_file(path) as file:
        file.seek(start)
        yield from lines_from(_Head(file, end - start), path.name, has_header=not start)


def lines_from(
    source: BinaryIO | io.RawIOBase | io.BufferedReader, name: str, has_header: bool
) -> Iterator[bytes]:
    """The lines of a stream of whole frames, without the header line; ``name`` is for errors."""
    lines = _unpacked(source, Path(name), may_be_torn=False)
    if has_header and (first := next(lines, b"")):
        _check(Path(name), first)
    yield from lines


def rows_in(data: bytes, name: str, having: bytes = b"") -> Iterator[JournalRow]:
    """The rows of a journal in memory; ``name`` is for errors, ``having`` as for ``read_rows``.

    Raises ``JournalError``.
    """
    return rows_from(io.BytesIO(data), name, having)


def rows_from(
    source: BinaryIO | io.BufferedReader, name: str, having: bytes = b""
) -> Iterator[JournalRow]:
    """The rows of a journal that is read from a stream; otherwise as ``rows_in``."""
    return _rows_of(Path(name), _unpacked(source, Path(name), may_be_torn=False), having)


def complete_journal(
    source: BinaryIO, target: BinaryIO, name: str, find_similar: FindSimilar
) -> bool:
    """Copy a journal and add the near-duplicates that were found after their rows were written.

    Returns whether there were any; otherwise the copy has the same rows. Raises ``JournalError``.
    """
    lines, frame, has_news = _unpacked(source, Path(name), may_be_torn=False), list[bytes](), False
    for number, line in enumerate(lines):
        if number and _SIMHASH in line:
            row = _rows.decode(line)
            known = row.near_duplicate_of or row.original
            original = find_similar(row.url, row.simhash) if known is None else None
            if original is not None:
                line = encode_line(msgspec.structs.replace(row, near_duplicate_of=original))
                has_news = True
        frame.append(line)
        if len(frame) >= _FRAME_ROWS:
            target.write(encode_journal_frame(frame))
            frame = []
    target.write(encode_journal_frame(frame))
    return has_news


def _rows_of(
    path: Path, lines: Generator[bytes, None, None], having: bytes | None
) -> Iterator[JournalRow]:
    try:
        first = next(lines, None)
        if first is None:
            return
        has_renders = _check(path, first).options.get(RENDERS, False)
        of_renders = having == RENDER_LINE
        if of_renders and not has_renders:
            return
        for line in lines:
            if having and having not in line:
                continue
            try:
                row = _rows.decode(line)
            except UNREADABLE as error:
                raise JournalError(f"{path}: not a row: {error}") from error
            # by the row: an item of user code may have a field of that name
            if having is None or of_renders == (row.render is not None):
                yield row
    finally:
        lines.close()


def _check(path: Path, line: bytes) -> SegmentHeader:
    try:
        fields = _header.decode(line)
        fields["options"] = {name: fields[name] for name in DERIVED_OPTIONS if name in fields}
        fields["policy"] = {name: fields[name] for name in _POLICY if name in fields}
        header = msgspec.convert(fields, SegmentHeader)
    except UNREADABLE as error:
        raise JournalError(f"{path}: no header: {error}") from error
    if header.format > RENDERS_FORMAT:
        raise JournalError(
            f"{path}: format {header.format}; this version reads up to {RENDERS_FORMAT}"
        )
    return header


def _lines(path: Path, length: int | None) -> Generator[bytes, None, None]:
    may_be_torn = path.name.endswith(".open") and length is None
    with layout.open_segment_file(path) as file:
        yield from _unpacked(file if length is None else _Head(file, length), path, may_be_torn)


def _unpacked(
    source: BinaryIO | io.RawIOBase, path: Path, may_be_torn: bool
) -> Generator[bytes, None, None]:
    stream = zstd.ZstdFile(source)
    try:
        yield from stream
    except (EOFError, zstd.ZstdError) as error:
        # The end of an open journal was being written at a crash; the commit names the length that
        # counts.
        if not may_be_torn:
            raise JournalError(f"{path}: {error}") from error


class _Head(io.RawIOBase):
    """The first bytes of a file."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        self._file, self._left = file, length

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data
