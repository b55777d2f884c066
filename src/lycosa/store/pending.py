"""What one commit writes to a segment's files, and how: positions first, bytes second, durable before told.

Every part knows the offset it was promised, and writes there. So a write that failed half-way (a full disk) can simply be
repeated, and bytes of a crashed write beyond a committed length are overwritten or cut, never appended to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lycosa.store import journal, layout
from lycosa.store.damage import StoreDamaged
from lycosa.store.records import Member
from lycosa.system.durable import named, sync_data, sync_folder, write_all

_CHUNK = 1024 * 1024


class Part:
    """Records for one segment that were not yet written: gzip members from offset ``start`` on, and their journal lines."""

    def __init__(self, name: str, start: int) -> None:
        self.name, self.start, self.end = name, start, start
        self.members: list[Member] = []
        self.lines: list[bytes] = []
        self.memory_bytes = 0

    def add(self, member: Member, line: bytes) -> None:
        """More records, with their line (empty = none)."""
        self.members.append(member)
        self.end += member.length
        if line:
            self.lines.append(line)
        self.memory_bytes += len(line) + sum(len(piece) for piece in member.data if isinstance(piece, bytes))


class PendingWrite:
    """One frozen write. ``write`` may be repeated after it raised."""

    def __init__(self, folder: Path, parts: Sequence[tuple[Part, int]], steady: dict[str, int]) -> None:
        """``parts`` come with the length of their journal; ``steady`` gives the lengths of open files that are not written to."""
        self._folder, self._parts = folder, tuple(parts)
        self._lengths = dict(steady)
        self.journal_lengths: dict[str, int] = {}
        self.is_written = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self._parts

    @property
    def lengths(self) -> dict[str, int]:
        """The length of every open file (path relative to the crawl folder), for the commit log.

        Known once ``write`` is done, since the journal is compressed there: raises ``RuntimeError`` before.
        """
        if not self.is_written:
            raise RuntimeError("lengths are known after the write")
        return dict(self._lengths)

    def write(self) -> None:
        """WARC bytes to disk, then journal lines to disk. Blocks. Raises ``DiskFull`` or another ``OSError``; then may be called again.

        Spooled bodies are deleted afterwards. Raises ``StoreDamaged`` when a file became shorter than it was.
        """
        if self.is_written:
            return
        lengths: dict[str, int] = {}
        for part, _ in self._parts:
            lengths[self._put(layout.WARC, part.name, part.start, _pieces(part))] = part.end
        for part, journal_length in self._parts:
            frame = journal.encode_frame(part.lines) if part.lines else b""
            self.journal_lengths[part.name] = journal_length + len(frame)
            lengths[self._put(layout.JOURNAL, part.name, journal_length, iter((frame,)))] = journal_length + len(frame)
        self._lengths.update(lengths)
        self.is_written = True
        self._delete_spools()

    def _put(self, kind: str, name: str, start: int, pieces: Iterator[bytes]) -> str:
        relative = layout.file_name(kind, name) + layout.OPEN
        path = self._folder / relative
        try:
            _write_at(path, start, pieces)
        except OSError as error:
            raise named(error, path) from error
        return relative

    def _delete_spools(self) -> None:
        for part, _ in self._parts:
            for member in part.members:
                for path in member.leftovers:
                    path.unlink(missing_ok=True)

    def __repr__(self) -> str:
        written = "written" if self.is_written else "waiting"
        return f"<PendingWrite {written} {[(part.name, part.start, part.end) for part, _ in self._parts]}>"


def _write_at(path: Path, start: int, pieces: Iterator[bytes]) -> None:
    """Puts the pieces at ``start``, ends the file behind them, and returns when it is on disk. Creates the file if ``start`` is 0."""
    is_new = start == 0 and not path.exists()
    if is_new and not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)  # another worker may make it at the same moment
        sync_folder(path.parent.parent)
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT if start == 0 else 0), 0o644)
    try:
        if is_new:
            sync_folder(path.parent)
        length = os.fstat(fd).st_size
        if length < start:
            raise StoreDamaged(path, length, start)
        end = os.lseek(fd, start, os.SEEK_SET)
        for piece in pieces:
            write_all(fd, piece)
            end += len(piece)
        if length > end:
            os.ftruncate(fd, end)
        sync_data(fd)
    finally:
        os.close(fd)


def _pieces(part: Part) -> Iterator[bytes]:
    """The bytes of a part, small members gathered into large writes. Raises ``OSError`` when a spooled member is not what it was."""
    gathered: list[bytes] = []
    size = 0
    for member in part.members:
        copied = 0
        for piece in member.data:
            for data in (piece,) if isinstance(piece, bytes) else _file(piece):
                gathered.append(data)
                size += len(data)
                copied += len(data)
                if size >= _CHUNK:
                    yield b"".join(gathered)
                    gathered, size = [], 0
        if copied != member.length:
            raise OSError(f"a spooled member changed: {copied} bytes, {member.length} were expected")
    if gathered:
        yield b"".join(gathered)


def _file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            yield data
