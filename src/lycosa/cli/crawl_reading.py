"""What the commands that read a crawl share: a folder, or ``--cluster FILE`` for one on machines.

With ``--cluster`` the argument DIR is left out. What is read is the state after the last commits
of the shards; how old these are is told on standard error.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lycosa.cli.cluster_parts import client_of
from lycosa.cli.option_sets import Command, option_set
from lycosa.cli.output import clean, counted, human_bytes, human_count, human_duration

if TYPE_CHECKING:
    from lycosa.cluster.shards.cluster_view import ClusterView, OnReading, ReadingProgress
    from lycosa.cluster.shards.opened_cluster import OpenedCluster
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.state.objects.cached import OnPiece
    from lycosa.state.shard.view import ShardPosition

_OPTION = "--cluster"
_EVERY_S = 0.2


class CrawlPlace(NamedTuple):
    """Where a crawl is: a folder, or the file of a cluster and the folder for downloads."""

    folder: Path
    cluster: Path | None = None
    cache: Path | None = None


class CrawlCommand(click.Command):
    """A command whose first argument, DIR, is left out with ``--cluster``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(each == _OPTION or each.startswith(f"{_OPTION}=") for each in args):
            args = [".", *args]
        return super().parse_args(ctx, args)


_PATH = click.Path(path_type=Path)
_place_options = option_set(
    click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False)),
    click.option(
        _OPTION,
        metavar="FILE",
        type=_PATH,
        help="Read the crawl of this cluster.toml; leave DIR out.",
    ),
    click.option(
        "--cache",
        metavar="DIR",
        type=_PATH,
        help="With --cluster: folder for downloaded files, which the next call uses again"
        " [the user's cache folder].",
    ),
)


def crawl_place(command: Command) -> Command:
    """Add the argument DIR and the options ``--cluster`` and ``--cache``.

    The function gets what they name as ``place``. Its command is a ``CrawlCommand``.
    """

    @wraps(command)
    def with_place(folder: Path, cluster: Path | None, cache: Path | None, **given: Any) -> Any:
        if cache is not None and cluster is None:
            raise click.UsageError("--cache is for a crawl on machines: give --cluster FILE")
        return command(place=CrawlPlace(folder, cluster, cache), **given)

    return _place_options(with_place)


@contextmanager
def reading_crawl(
    place: CrawlPlace,
    needs_all: bool = True,
    reads_attempts: bool = False,
    tells_age: bool = True,
) -> Iterator[CrawlReader]:
    """A reader of the crawl.

    With ``needs_all`` all shards of a cluster are opened at once, and their age is told;
    ``reads_attempts`` as in ``OpenedCluster``.
    """
    from lycosa.inspect.committed_state import CrawlReader, read_folder

    if place.cluster is None:
        yield read_folder(place.folder)
        return
    with opened_cluster(place, reads_attempts) as opened:
        if needs_all:
            opened.view.open_shards()
        if needs_all and tells_age:
            tell_age(opened.view)
        yield CrawlReader(opened.view)


@contextmanager
def opened_cluster(place: CrawlPlace, reads_attempts: bool = False) -> Iterator[OpenedCluster]:
    """The crawl of ``place.cluster``, closed at the end."""
    from lycosa.base.config.cluster_file import read_cluster_file

    assert place.cluster is not None
    given = read_cluster_file(place.cluster)
    with client_of("Kafka", "cluster"):
        from lycosa.cluster.shards.opened_cluster import CacheDamaged, OpenedCluster, default_cache
        from lycosa.state.cold.cold_rows import ColdDamaged
        from lycosa.state.kv.kv_port import TableDamaged
    line = ProgressLine()
    opened = OpenedCluster(
        given,
        place.cache or default_cache(),
        _telling(line),
        line.say,
        _downloading(line),
        reads_attempts,
    )
    try:
        yield opened
    except ColdDamaged:
        raise  # it is the object that is damaged, not a downloaded file
    except TableDamaged as error:
        folder = shlex.quote(str(opened.cache / "tables"))
        raise CacheDamaged(
            f"{error}; delete the downloaded files, and give the command again: rm -r {folder}"
        ) from error
    finally:
        line.clear()
        opened.close()


def tell_age(view: ClusterView) -> None:
    """Tell on standard error what state was read."""
    click.echo(clean(f"lycosa: {age_of(list(view.shards.values()), time.time())}"), err=True)


def age_of(shards: Sequence[ShardPosition], now: float) -> str:
    """One sentence on the state of these shards and its age; ``now`` is wall time."""
    walls = [each.wall for each in shards if each.wall]
    if not walls:
        return f"{counted(len(shards), 'shard')} without any commit"
    if len(shards) == 1:
        (only,) = shards
        return (
            f"shard {only.shard} as of commit {only.last.sequence} of term {only.last.term},"
            f" {human_duration(now - only.wall)} old"
        )
    empty = len(shards) - len(walls)
    return (
        f"{len(shards)} shards, as of their last commits: the newest is"
        f" {human_duration(now - max(walls))} old, the oldest {human_duration(now - min(walls))}"
        + (f"; {empty} have none" if empty else "")
    )


class ProgressLine:
    """One line on standard error that is rewritten, at most every ``every_s`` seconds.

    Elsewhere than on a terminal it is a line every ``plain_s`` seconds, or none (0). With
    ``is_late`` the first one comes after that time. What a call waits for is told in any case,
    once.
    """

    def __init__(
        self,
        every_s: float = _EVERY_S,
        plain_s: float = 0.0,
        is_late: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_live, self._clock = sys.stderr.isatty(), clock
        self._every_s = every_s if self._is_live else plain_s
        self._next = clock() + self._every_s if is_late else 0.0
        self._is_shown, self._told = False, ""

    def show(self, text: str) -> None:
        """Show progress."""
        now = self._clock()
        if not self._every_s or now < self._next:
            return
        self._next = now + self._every_s
        if self._is_live:
            self._is_shown = True
            sys.stderr.write(f"\r\x1b[K{clean(text)}\r")
            sys.stderr.flush()
        else:
            click.echo(clean(f"lycosa: {text}"), err=True)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if text and text != self._told:
            self._told = text
            self.clear()
            click.echo(clean(f"lycosa: {text}"), err=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._is_shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _telling(line: ProgressLine) -> OnReading:
    def show(progress: ReadingProgress) -> None:
        line.show(
            f"reading {progress.opened} of {counted(progress.shards, 'shard')}:"
            f" {human_bytes(progress.bytes_here)} of {human_bytes(progress.bytes_all)} of"
            f" snapshots, {human_count(progress.commits)} commits"
        )

    return show


def _downloading(line: ProgressLine) -> OnPiece:
    total = 0

    def downloaded(number: int) -> None:
        nonlocal total
        total += number
        line.show(f"{human_bytes(total)} of tables and logs downloaded")

    return downloaded
