"""The seeds of ``lycosa crawl``: from the command line, then from a file, checked as they are read.

A file may have millions of seeds, so they are streamed. A seed that cannot be crawled is reported
at once, with its line, and dropped. The position in each source is recorded in the crawl's folder
(``seed_sources``), and a later run continues from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import click

from lycosa.cli.output import clean, counted
from lycosa.cli.seed_reading import read_arguments, read_file, read_on, with_scheme
from lycosa.inspect.printable import LONGEST_LINE, shortened
from lycosa.state.folder.seed_sources import (
    SeedSource,
    SourceKind,
    is_same_file,
    load_sources,
    merged_sources,
    save_sources,
    unread,
)

_SAVE_S = 1.0  # between two records of the positions
_MAX_SHOWN = 10

Judge = Callable[[str], str]
"""The reason why a seed cannot be crawled; empty when it can."""


def _say(text: str) -> None:
    click.echo(f"lycosa: {text}", err=True)


class CrawlSeeds:
    """The seeds of this run, and those that earlier runs left unread.

    ``take_seeds`` and ``note_committed`` are for the supervisor; iterating gives the usable seeds,
    once. ``tell`` gets each line about a refused seed. ``sources`` is the committed position in
    each source. Raises ``click.UsageError`` for a file that is missing, or that is given where a
    URL belongs.
    """

    def __init__(self, given: tuple[str, ...], file: str | None = None) -> None:
        if "-" in given and file is None:
            given, file = tuple(seed for seed in given if seed != "-"), "-"
        self.given = given
        self._file = file
        self.tell: Callable[[str], None] = _say
        self.judge: Judge = lambda _: ""
        self.refused: list[tuple[str, str]] = []
        self.sources: list[SeedSource] = []
        self._told = 0
        self._folder: Path | None = None
        self._saved_at = 0.0
        _check_given(given, file)
        self._readings = [read_arguments(given)] if given else []
        if file is not None:
            self._readings.append(read_file(file))
        self._pending: list[SeedSource] = []
        self._reading = self._usable()
        self._kept: list[str] = []

    @property
    def are_none(self) -> bool:
        """Whether the command names no seed and no file."""
        return not self.given and self._file is None

    def has_usable(self) -> bool:
        """Whether there is a usable seed; reads until the first one."""
        self._kept = [seed for seed in (next(self._reading, None),) if seed is not None]
        return bool(self._kept)

    def check_given(self) -> None:
        """Check the seeds of the command line, for a crawl that exists.

        Raises ``click.UsageError`` when they are all that is given, and none is usable.
        """
        if self._file is not None or not self.given:
            return
        reasons = [(seed, self.judge(with_scheme(seed.strip()))) for seed in self.given]
        if all(reason for _, reason in reasons):
            for seed, reason in reasons:
                self._refuse(seed, reason, "")
            raise click.UsageError(self.complaint())

    def complaint(self) -> str:
        """Why there is nothing to crawl, when ``has_usable`` is false."""
        if self.refused:
            return (
                f"nothing to crawl: {counted(len(self.refused), 'seed')} refused, and there are no"
                " others"
            )
        where = "standard input" if self._file == "-" else self._file
        return f"nothing to crawl: there is no seed in {where}"

    # -- what is recorded

    def record_sources(self, folder: Path) -> None:
        """Record the sources in the locked folder, before the first seed is taken.

        Adds what earlier runs left unread.
        """
        self._folder, stored = folder, load_sources(folder)
        if not self._kept:  # a new crawl has no folder yet
            self._resume(unread(stored))
        self.sources = merged_sources(stored, [reading.begun for reading in self._readings])
        if self._readings:
            save_sources(folder, self.sources)

    def _resume(self, left: list[SeedSource]) -> None:
        known = {reading.key: reading for reading in self._readings}
        for source in left:
            if source.kind is SourceKind.ARGUMENTS:
                self._readings = [
                    reading for reading in self._readings if reading.key != source.key
                ]
                self._readings.insert(0, read_arguments((*source.rest, *self.given)))
            elif source.key in known and not is_same_file(known[source.key].begun, source):
                continue  # a changed file is read from its start
            elif (reading := read_on(source, self.tell)) is not None:
                self._readings = [each for each in self._readings if each.key != source.key]
                self._readings.insert(0, reading)

    def take_seeds(self, most: int) -> list[str]:
        """The next seeds; fewer than ``most`` only at the end."""
        batch, self._kept = self._kept, []
        batch += islice(self._reading, most - len(batch))
        self._pending = [reading.now() for reading in self._readings]
        return batch

    def note_committed(self) -> None:
        """Note that the seeds taken last are committed."""
        self.sources = merged_sources(self.sources, self._pending)
        if not unread(self._pending) or time.monotonic() - self._saved_at >= _SAVE_S:
            self.save_positions()

    def save_positions(self) -> None:
        """Write the positions in the sources to the folder."""
        if self._folder is not None and self._readings:
            save_sources(self._folder, self.sources)
            self._saved_at = time.monotonic()

    # -- reading

    def __iter__(self) -> Iterator[str]:
        while self._kept:
            yield self._kept.pop(0)
        yield from self._reading

    def _usable(self) -> Iterator[str]:
        for reading in self._readings:
            for seed, place in reading:
                reason = self.judge(seed)
                if reason:
                    self._refuse(seed, reason, place)
                else:
                    reading.seeds += 1
                    yield seed
        if self._told > _MAX_SHOWN:
            self.tell(f"and {counted(self._told - _MAX_SHOWN, 'more seed')} refused")

    def _refuse(self, seed: str, reason: str, place: str) -> None:
        self.refused.append((seed, reason))
        self._told += 1
        if self._told <= _MAX_SHOWN:
            self.tell(refusal_line(seed, reason, place))


def _check_given(given: tuple[str, ...], file: str | None) -> None:
    for seed in given:
        if "://" not in seed and Path(seed).is_file():
            raise click.UsageError(
                f"{seed} is a file; did you mean --seeds {seed}? (http://{seed} is the site)"
            )
    if file not in (None, "-"):
        path = Path(str(file))
        if path.is_dir():
            raise click.BadParameter(
                f"{file} is a folder; give a file with one seed a line", param_hint="--seeds"
            )
        if not path.exists():
            raise click.BadParameter(f"{file}: no such file", param_hint="--seeds")


def refusal_line(seed: str, reason: str, place: str = "") -> str:
    """One line that names the refused seed, its place and the reason."""
    where = f"{place}: " if place else ""
    return clean(f"{where}seed refused: {shortened(seed)}: {shortened(reason, 2 * LONGEST_LINE)}")


def refusal_lines(refused: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Lines that name the first refused seeds, and the number of the others."""
    for seed, reason in refused[:_MAX_SHOWN]:
        yield refusal_line(seed, reason)
    if len(refused) > _MAX_SHOWN:
        yield f"and {counted(len(refused) - _MAX_SHOWN, 'more seed')} refused"


def default_folder(given: tuple[str, ...]) -> Path:
    """``crawls/HOST`` of the first seed. Raises ``click.UsageError`` when there is none."""
    seeds = [seed for seed in given if seed != "-"]
    if not seeds:
        raise click.UsageError(
            "nothing to crawl: give a URL to start from, or the folder of a crawl with --dir; a"
            " file of seeds (--seeds) needs --dir too"
        )
    try:
        host = urlsplit(with_scheme(seeds[0].strip())).netloc.rpartition("@")[2].replace(":", "_")
    except ValueError:  # unbalanced brackets
        host = ""
    if not host:
        raise click.UsageError(
            f"{shortened(seeds[0])!r} is not a URL that can be crawled: give one such as"
            " https://example.org/"
        )
    return Path("crawls") / host
