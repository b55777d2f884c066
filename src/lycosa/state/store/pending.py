"""What one commit adds to a shard's segments: records and journal lines with their positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from lycosa.state.store.warc_records import Member

_CHUNK = 1024 * 1024


class SegmentPart:
    """Records for one segment that are not written yet.

    They are gzip members from offset ``start`` on, and their journal lines.
    """

    def __init__(self, name: str, start: int) -> None:
        self.name, self.start, self.end = name, start, start
        self.members: list[Member] = []
        self.lines: list[bytes] = []
        self.memory_bytes = 0

    def add_record(self, member: Member, line: bytes) -> None:
        """Add records with their line (empty = none)."""
        self.members.append(member)
        self.end += member.length
        if line:
            self.lines.append(line)
        self.memory_bytes += len(line) + sum(
            len(piece) for piece in member.data if isinstance(piece, bytes)
        )

    def replace_line(self, having: bytes, change: Callable[[bytes], bytes]) -> bool:
        """Change the newest line that contains these bytes; returns whether there was one."""
        for at in range(len(self.lines) - 1, -1, -1):
            before = self.lines[at]
            if having in before:
                self.lines[at] = change(before)
                self.memory_bytes += len(self.lines[at]) - len(before)
                return True
        return False


class PendingWrite:
    """One frozen write, which ``Segments.put_records`` makes durable."""

    def __init__(self, parts: Sequence[tuple[SegmentPart, int]], steady: dict[str, int]) -> None:
        """``parts`` come with the length of their journal.

        ``steady`` has the lengths of open files that get no new bytes.
        """
        self.parts = tuple(parts)
        self._lengths = dict(steady)
        self.journal_lengths: dict[str, int] = {}
        self.sums: dict[str, int] = {}
        """The CRC-32 of the open files, by name, where the store has parts; for the commit."""
        self.is_written = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.parts

    @property
    def lengths(self) -> dict[str, int]:
        """The lengths of all open files, or objects, after this write, by name, for the commit.

        They are known only after the write, because it compresses the journal. Raises
        ``RuntimeError`` before.
        """
        if not self.is_written:
            raise RuntimeError("lengths are known after the write")
        return dict(self._lengths)

    def written(
        self,
        lengths: Mapping[str, int],
        journal_lengths: Mapping[str, int],
        sums: Mapping[str, int] | None = None,
    ) -> None:
        """Note that everything is durable under these names and lengths.

        ``journal_lengths`` are by segment; ``sums`` are of all open files. Spooled bodies are
        deleted.
        """
        self._lengths.update(lengths)
        self.sums = {name: (sums or {})[name] for name in self._lengths if name in (sums or {})}
        self.journal_lengths.update(journal_lengths)
        self.is_written = True
        for part, _ in self.parts:
            for member in part.members:
                for path in member.leftovers:
                    path.unlink(missing_ok=True)


def pieces(part: SegmentPart) -> Iterator[bytes]:
    """The bytes of a part, with small members gathered into large writes.

    Raises ``OSError`` when a spooled member has changed.
    """
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
            raise OSError(
                f"a spooled member changed: {copied} bytes, {member.length} were expected"
            )
    if gathered:
        yield b"".join(gathered)


def _file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            yield data
