"""The seeds of ``lycosa crawl``: from the command line, then from a file, judged as they are read.

Millions may be in a file, so they stream; one that cannot be crawled is told at once, with its line, and goes no further.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import click

from lycosa.cli.output import clean, counted

_OTHER_SCHEME = re.compile(r"(?:tel|sms|data|javascript|mailto):|[a-z][a-z0-9+-]*:(?!\d)", re.IGNORECASE)  # and not host:port
_COMMENT = re.compile(r"\s#.*")
_MOST_TOLD = 10
_LONGEST = 100

Judge = Callable[[str], str]
"""Why a seed cannot be crawled; empty when it can."""


def _say(text: str) -> None:
    click.echo(f"lycosa: {text}", err=True)


class Seeds:
    """What the operator gave. Iterating gives those that can be crawled, once; ``tell`` takes each line about another.

    Raises ``click.UsageError`` when a file is given that is not there, or where a URL belongs.
    """

    def __init__(self, given: tuple[str, ...], file: str | None = None) -> None:
        if "-" in given and file is None:
            given, file = tuple(seed for seed in given if seed != "-"), "-"
        self.given = given
        self._file = file
        self.tell: Callable[[str], None] = _say
        self.judge: Judge = lambda _: ""
        self.refused: list[tuple[str, str]] = []
        self._told = 0
        self._reading = self._usable()
        self._kept: list[str] = []
        for seed in given:
            if "://" not in seed and Path(seed).is_file():
                raise click.UsageError(f"{seed} is a file; did you mean --seeds {seed}? (http://{seed} is the site)")
        if file not in (None, "-"):
            path = Path(str(file))
            if path.is_dir():
                raise click.BadParameter(f"{file} is a folder; give a file with one seed a line", param_hint="--seeds")
            if not path.exists():
                raise click.BadParameter(f"{file}: no such file", param_hint="--seeds")

    @property
    def are_none(self) -> bool:
        """Whether nothing was given, not even a file."""
        return not self.given and self._file is None

    def has_usable(self) -> bool:
        """Whether there is a seed that can be crawled; reads as far as the first."""
        self._kept = [seed for seed in (next(self._reading, None),) if seed is not None]
        return bool(self._kept)

    def complaint(self) -> str:
        """Why there is nothing to crawl, after ``has_usable`` said so."""
        if self.refused:
            return f"nothing to crawl: {counted(len(self.refused), 'seed')} refused, and there are no others"
        where = "standard input" if self._file == "-" else self._file
        return f"nothing to crawl: there is no seed in {where}"

    def __iter__(self) -> Iterator[str]:
        yield from self._kept
        yield from self._reading

    def _usable(self) -> Iterator[str]:
        for seed, place in self._all():
            reason = self.judge(seed)
            if reason:
                self._refuse(seed, reason, place)
            else:
                yield seed
        if self._told > _MOST_TOLD:
            self.tell(f"and {counted(self._told - _MOST_TOLD, 'more seed')} refused")

    def _refuse(self, seed: str, reason: str, place: str) -> None:
        self.refused.append((seed, reason))
        self._told += 1
        if self._told <= _MOST_TOLD:
            self.tell(refusal_line(seed, reason, place))

    def _all(self) -> Iterator[tuple[str, str]]:
        """Every seed with the place where it was given."""
        yield from ((with_scheme(seed.strip()), "") for seed in self.given)
        if self._file == "-":
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")
            yield from _lines(sys.stdin, "standard input")
        elif self._file is not None:
            with Path(self._file).open(encoding="utf-8-sig", errors="replace") as file:  # editors of one system begin files with a mark
                yield from _lines(file, self._file)


def refusal_line(seed: str, reason: str, place: str = "") -> str:
    """One line that says which seed was refused, where it stands and why."""
    where = f"{place}: " if place else ""
    return clean(f"{where}seed refused: {shortened(seed)}: {shortened(reason, 2 * _LONGEST)}")


def shortened(text: str, most: int = _LONGEST) -> str:
    """A text that is too long for a line, without its middle."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-(most - most * 2 // 3 - 1) :]}"


def _lines(file: IO[str], name: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(file, 1):
        seed = _COMMENT.sub("", line).strip()
        if seed and not seed.startswith("#"):
            yield with_scheme(seed), f"{name}:{number}"


def with_scheme(seed: str) -> str:
    """``example.org`` means ``http://example.org/``, as in other tools; where that redirects belongs to the crawl."""
    return seed if "://" in seed or _OTHER_SCHEME.match(seed) else f"http://{seed}"


def default_folder(given: tuple[str, ...]) -> Path:
    """``crawls/HOST`` of the first seed. Raises ``click.UsageError`` when there is none."""
    seeds = [seed for seed in given if seed != "-"]
    if not seeds:
        raise click.UsageError("no folder: give a SEED, or --dir with --seeds")
    try:
        host = urlsplit(with_scheme(seeds[0].strip())).netloc.rpartition("@")[2].replace(":", "_")
    except ValueError:  # brackets that do not match
        host = ""
    if not host:
        raise click.UsageError(f"{shortened(seeds[0])!r} is not a URL that can be crawled: give one such as https://example.org/")
    return Path("crawls") / host
