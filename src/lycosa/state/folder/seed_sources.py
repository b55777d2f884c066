"""``seeds.json``: the sources of a crawl's seeds, and the position reached in each.

A run can end before its seeds are read completely: Ctrl-C, a limit, a crash. The file has the
position from which the next run continues. A source is recorded before its first seed is given to a
worker, and a position only when all seeds before it are committed. So the file may be behind the
crawl and is never ahead of it. Reading a seed twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from lycosa.base.system.durable import replace_file
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.folder.manifest import ManifestError

SEED_SOURCES_NAME = "seeds.json"
SEED_SOURCES_FORMAT = 1
_MAX_KEPT = 1000


class SourceKind(Enum):
    """The kind of a source of seeds."""

    ARGUMENTS = "arguments"  # of the command line
    FILE = "file"
    INPUT = "input"  # standard input or a pipe, which cannot be read twice
    PROGRAM = "program"  # a list from a Python program


class SeedSource(msgspec.Struct, frozen=True, kw_only=True):
    """One source and the position in it.

    ``name`` is the absolute path of a file, empty for the others; ``bytes`` and ``modified_ns``
    tell whether it is still the same file. ``lines`` are read and their seeds committed (arguments,
    and seeds of a program, count as lines), ``seeds`` is the number of them given to the crawl.
    ``rest`` are arguments that were not taken yet.
    """

    kind: SourceKind
    name: str = ""
    bytes: int = 0
    modified_ns: int = 0
    lines: int = 0
    seeds: int = 0
    is_complete: bool = False
    rest: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The source in words."""
        titles = {
            SourceKind.ARGUMENTS: "the command line",
            SourceKind.FILE: self.name,
            SourceKind.INPUT: self.name or "standard input",
            SourceKind.PROGRAM: "a program's list",
        }
        return titles[self.kind]

    @property
    def key(self) -> tuple[SourceKind, str]:
        """Two entries with the same key are of the same source; the later one counts."""
        return self.kind, self.name


class SeedsDamaged(ManifestError):
    """``seeds.json`` cannot be read; the message says what to do."""


class _Stored(msgspec.Struct):
    format: int = SEED_SOURCES_FORMAT
    sources: list[SeedSource] = []


def sources_path(folder: Path) -> Path:
    """Where a crawl folder has its seed sources."""
    return folder / SEED_SOURCES_NAME


def load_sources(folder: Path) -> list[SeedSource]:
    """All sources of a crawl, the first given first.

    Empty when the program that made the crawl did not record them. Raises ``SeedsDamaged``.
    """
    path = sources_path(folder)
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Stored).sources
    except FileNotFoundError:
        return []
    except UNREADABLE as error:
        what = (
            f"{path} cannot be read ({error}); delete it and give the seeds again: known seeds are"
            " skipped"
        )
        raise SeedsDamaged(what) from error


def save_sources(folder: Path, sources: Sequence[SeedSource]) -> None:
    """Replace the file, as a whole and synced.

    Raises ``DiskFull`` or ``OSError``; the old file then stays.
    """
    complete = sum(source.is_complete for source in sources)
    kept = []
    for source in sources:
        if source.is_complete and complete > _MAX_KEPT:
            complete -= 1
            continue
        kept.append(source)
    replace_file(
        sources_path(folder),
        msgspec.json.format(msgspec.json.encode(_Stored(sources=kept)), indent=2) + b"\n",
    )


def merged_sources(before: Iterable[SeedSource], now: Iterable[SeedSource]) -> list[SeedSource]:
    """The recorded sources, updated by the present ones."""
    return list(
        (
            {source.key: source for source in before} | {source.key: source for source in now}
        ).values()
    )


def unread(sources: Iterable[SeedSource]) -> list[SeedSource]:
    """Sources that were not read completely."""
    return [source for source in sources if not source.is_complete]


def file_source(path: Path) -> SeedSource:
    """A file or pipe before its first line is read. Raises ``OSError``."""
    path = path.absolute()
    found = path.stat()
    if not path.is_file():
        return SeedSource(kind=SourceKind.INPUT, name=str(path))
    return SeedSource(
        kind=SourceKind.FILE, name=str(path), bytes=found.st_size, modified_ns=found.st_mtime_ns
    )


def is_same_file(one: SeedSource, other: SeedSource) -> bool:
    """Whether a position in one is the same position in the other."""
    return (one.key, one.bytes, one.modified_ns) == (other.key, other.bytes, other.modified_ns)


def how_far(source: SeedSource) -> str:
    """The position in the source, in words."""
    taken = f"{source.seeds:,} seed{'' if source.seeds == 1 else 's'} taken"
    if source.is_complete:
        return f"{source.title}: {taken}"
    if source.kind is SourceKind.ARGUMENTS:
        return f"{source.title}: {taken}, {len(source.rest):,} not yet"
    if source.kind is SourceKind.PROGRAM:
        return f"{source.title}: {taken}, but not all"
    return f"{source.title}: read up to line {source.lines:,}, {taken}; the rest is unread"
