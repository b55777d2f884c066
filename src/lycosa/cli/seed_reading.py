"""Reading one source of seeds, from where the last run left off."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from lycosa.folder.seed_sources import SeedSource, SourceKind, file_source, is_same_file

_COMMENT = re.compile(r"\s#.*")
# and not host:port
_OTHER_SCHEME = re.compile(
    r"(?:tel|sms|data|javascript|mailto):|[a-z][a-z0-9+-]*:(?!\d)", re.IGNORECASE
)


class Reading:
    """A source and how far it is read by now. Iterating gives each seed with the place where it
    stands, and skips what was read before.
    """

    def __init__(self, source: SeedSource, open_lines: Callable[[], Iterator[str]]) -> None:
        self.begun = source  # how far it was read before
        self._open_lines = open_lines
        self._lines = source.lines
        self._is_over = False
        self.seeds = source.seeds  # of them given to the crawl; counted by whoever judges them

    def __iter__(self) -> Iterator[tuple[str, str]]:
        skipped, title = self._lines, self.begun.title
        is_file = self.begun.kind is not SourceKind.ARGUMENTS
        for number, line in enumerate(islice(self._open_lines(), skipped, None), skipped + 1):
            self._lines = number
            seed = _COMMENT.sub("", line).strip() if is_file else line.strip()
            if seed and not (is_file and seed.startswith("#")):
                yield with_scheme(seed), f"{title}:{number}" if is_file else ""
        self._is_over = True

    @property
    def key(self) -> tuple[SourceKind, str]:
        """Which source it is."""
        return self.begun.key

    def now(self) -> SeedSource:
        """How far it is read: up to the seed that was given last."""
        rest = self.begun.rest[self._lines :]
        return msgspec.structs.replace(
            self.begun, lines=self._lines, seeds=self.seeds, is_complete=self._is_over, rest=rest
        )


def read_arguments(given: tuple[str, ...]) -> Reading:
    """Seeds of the command line."""
    return Reading(SeedSource(kind=SourceKind.ARGUMENTS, rest=given), lambda: iter(given))


def read_file(name: str) -> Reading:
    """A file from its beginning, or a pipe; ``-`` is standard input. Raises ``OSError``."""
    if name == "-":
        return Reading(SeedSource(kind=SourceKind.INPUT), _standard_input)
    return Reading(file_source(Path(name)), lambda: _lines_of(Path(name)))


def read_on(source: SeedSource, tell: Callable[[str], None]) -> Reading | None:
    """What an earlier run did not read to its end, from there; ``None`` when that cannot be read
    again. ``tell`` is told anything unusual.

    A file that was changed since is read from its beginning: seeds that are known already are
    passed over.
    """
    if source.kind is SourceKind.ARGUMENTS:
        return Reading(msgspec.structs.replace(source, lines=0), lambda: iter(source.rest))
    if source.kind is not SourceKind.FILE:
        return None
    path = Path(source.name)
    try:
        found = file_source(path)
    except OSError as error:
        tell(
            f"{path} was read up to line {source.lines:,} and cannot be read on ({error.strerror});"
            " give its rest with --seeds FILE"
        )
        return None
    if found.kind is SourceKind.FILE and is_same_file(found, source):
        tell(f"reading on in {path}, line {source.lines + 1:,}")
        return Reading(source, lambda: _lines_of(path))
    tell(
        f"{path} was changed since line {source.lines:,} of it was read; reading it from its"
        " beginning"
    )
    return Reading(found, lambda: _lines_of(path))


def with_scheme(seed: str) -> str:
    """``example.org`` means ``http://example.org/``, as in other tools; where that redirects
    belongs to the crawl.
    """
    return seed if "://" in seed or _OTHER_SCHEME.match(seed) else f"http://{seed}"


def _standard_input() -> Iterator[str]:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")
    yield from sys.stdin


def _lines_of(path: Path) -> Iterator[str]:
    with path.open(
        encoding="utf-8-sig", errors="replace"
    ) as file:  # editors of one system begin files with a mark
        yield from file
