"""Reading one source of seeds, from the position that the last run reached."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from lycosa.state.folder.seed_sources import SeedSource, SourceKind, file_source, is_same_file

_COMMENT = re.compile(r"\s#.*")
# and not host:port
_OTHER_SCHEME = re.compile(
    r"(?:tel|sms|data|javascript|mailto):|[a-z][a-z0-9+-]*:(?!\d)", re.IGNORECASE
)


class Reading:
    """A source and the position in it.

    Iterating gives each new seed with its place, and skips what was read before.
    """

    def __init__(self, source: SeedSource, open_lines: Callable[[], Iterator[str]]) -> None:
        self.begun = source  # the position before this run
        self._open_lines = open_lines
        self._lines = source.lines
        self._is_over = False
        # seeds given to the crawl; counted by the caller that checks them
        self.seeds = source.seeds

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
        """Identity of the source."""
        return self.begun.key

    def now(self) -> SeedSource:
        """The position after the seed that was given last."""
        rest = self.begun.rest[self._lines :]
        return msgspec.structs.replace(
            self.begun, lines=self._lines, seeds=self.seeds, is_complete=self._is_over, rest=rest
        )


def read_arguments(given: tuple[str, ...]) -> Reading:
    """Read the seeds of the command line."""
    return Reading(SeedSource(kind=SourceKind.ARGUMENTS, rest=given), lambda: iter(given))


def read_file(name: str) -> Reading:
    """Read a file from its start, or a pipe; ``-`` is standard input. Raises ``OSError``."""
    if name == "-":
        return Reading(SeedSource(kind=SourceKind.INPUT), _standard_input)
    return Reading(file_source(Path(name)), lambda: _lines_of(Path(name)))


def read_on(source: SeedSource, tell: Callable[[str], None]) -> Reading | None:
    """Read the rest of a source that an earlier run left; ``None`` when it cannot be reopened.

    ``tell`` gets messages about it. A file that was changed since is read from its start: known
    seeds are skipped.
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
            f"{path} was read up to line {source.lines:,} and cannot be reopened"
            f" ({error.strerror}); give the rest with --seeds FILE"
        )
        return None
    if found.kind is SourceKind.FILE and is_same_file(found, source):
        tell(f"resuming {path} at line {source.lines + 1:,}")
        return Reading(source, lambda: _lines_of(path))
    tell(
        f"{path} was changed since line {source.lines:,} of it was read; reading it from its"
        " beginning"
    )
    return Reading(found, lambda: _lines_of(path))


def with_scheme(seed: str) -> str:
    """``example.org`` means ``http://example.org/``, as in other tools.

    The URL that it redirects to belongs to the crawl.
    """
    return seed if "://" in seed or _OTHER_SCHEME.match(seed) else f"http://{seed}"


def _standard_input() -> Iterator[str]:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")
    yield from sys.stdin


def _lines_of(path: Path) -> Iterator[str]:
    with path.open(
        encoding="utf-8-sig", errors="replace"
    ) as file:  # some editors start a file with a byte order mark
        yield from file
