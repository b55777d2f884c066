"""``lycosa feed``: captures, dead letters or items of a crawl as JSON lines, each once."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, opened_cluster
from lycosa.cli.output import ExitCode, emit_json

if TYPE_CHECKING:
    from lycosa.feeds import FolderFeed
    from lycosa.feeds.items_feed import ItemLines

_POLL_S = 0.5
_SETTLE_S = 15.0  # the last commit of a killed crawl counts after some seconds
_BATCH_ROWS = 2000
_ITEMS = "items."

_EPILOG = """
\b
Examples:
  lycosa feed pages crawls/example.org                            what was captured so far
  lycosa feed pages crawls/example.org --follow | my-indexer      captures as they are committed
  lycosa feed pages crawls/example.org --output pages.jsonl       append what is new, each row once
  lycosa feed dlq crawls/example.org --follow --output dlq.jsonl
  lycosa feed pages crawls/example.org --positions --after "$(cat position)"
  lycosa feed items.products crawls/shop.example --follow         items of an extractor
  lycosa feed items.products --cluster cluster.toml --follow
  lycosa feed schema pages                                        the JSON Schema of a row

The rows of pages and dlq are those of the topics of a cluster; docs/formats.md of the source has
the fields. Those of items.NAME are the items that the extractor NAME made, with _url, _fetched,
_capture, _version and _item (docs/items.md). The crawl may be running. It does no work for this
command, so a slow reader does not slow it down.

Each row is given once. With --output FILE this holds whenever the command is killed: the file
FILE.position says how far FILE goes, and the next call continues there. A program that reads a pipe
uses --positions: each row has its position, to be stored together with what the program made of the
row. After a restart --after POSITION gives exactly the rows behind it.
"""


_ITEMS_HELP = """Write a row for each item that the extractor {name} made of the pages of the crawl.

The items were committed with their pages, so each is there once, however often the crawl was
killed. An item is identified by _capture and _item."""


class FeedOptions(NamedTuple):
    """The options of the feeds."""

    follow: bool = False
    follow_input: bool = False
    after: str = ""
    positions: bool = False
    output: str = "-"


class _Feeds(click.Group):
    """The feeds, with one for each extractor: ``items.NAME``."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name.startswith(_ITEMS):
            return _items_command(cmd_name.removeprefix(_ITEMS))
        return super().get_command(ctx, cmd_name)


@click.group(
    "feed",
    cls=_Feeds,
    epilog=_EPILOG,
    short_help="Captures, dead letters or items as JSON lines, once.",
)
def command() -> None:
    """Every capture, every URL that failed for good, or every item of an extractor (items.NAME) as
    JSON lines, each once.
    """


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for add in (
        click.option(
            "--output",
            "-o",
            metavar="FILE|-",
            default="-",
            help="File to append to; - is standard output.",
        ),
        click.option(
            "--positions", is_flag=True, help="Add the field position to each row, for --after."
        ),
        click.option(
            "--after", metavar="POSITION", default="", help="Only rows behind this position."
        ),
        click.option(
            # a crawl that has this command for a child: the input ends with the crawl
            "--follow-input",
            is_flag=True,
            hidden=True,
            help="Wait for new rows until standard input ends.",
        ),
        click.option(
            "--follow/--once",
            help="Wait for new rows until Ctrl-C, or end when all were given [--once].",
        ),
    ):
        function = add(function)
    return function


_folder = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))


@command.command("pages", epilog=_EPILOG, short_help="Every capture of a crawl.")
@_options
@_folder
def pages(folder: Path, **options: Any) -> int:
    """Write a row for each capture of the crawl in DIR: the journal's line without text and links.

    A page is identified by url8 and fetch_number.
    """
    return run("pages", CrawlPlace(folder), FeedOptions(**options))


@command.command("dlq", epilog=_EPILOG, short_help="Every URL that failed for good.")
@_options
@_folder
def dlq(folder: Path, **options: Any) -> int:
    """Write a row for each time that a URL of the crawl in DIR failed for good.

    `lycosa dlq list` has the present dead letters instead.
    """
    return run("dlq", CrawlPlace(folder), FeedOptions(**options))


def _items_command(name: str) -> click.Command:
    """``lycosa feed items.NAME``."""

    @click.command(
        _ITEMS + name, cls=CrawlCommand, epilog=_EPILOG, help=_ITEMS_HELP.format(name=name)
    )
    @_options
    @crawl_place
    def items(folder: Path, cluster: Path | None, cache: Path | None, **options: Any) -> int:
        return run(_ITEMS + name, CrawlPlace(folder, cluster, cache), FeedOptions(**options))

    return items


@command.command("schema", short_help="The JSON Schema of a row.")
@click.argument("feed", metavar="pages|dlq", type=click.Choice(["pages", "dlq"]))
def schema(feed: str) -> int:
    """Print the JSON Schema of the rows of a feed, in files and in the topics of a cluster."""
    from lycosa.state.store.feed_rows import feed_schema

    emit_json(feed_schema(feed))
    return ExitCode.FINISHED


def run(kind: str, place: CrawlPlace, options: FeedOptions) -> int:
    """Write the rows; returns the exit code."""
    from lycosa.base.model.item_schema import BadSchema
    from lycosa.feeds import BadPosition, FeedFileError
    from lycosa.feeds.feed_file import FeedFileBusy

    try:
        with _target(options) as target, _feed(kind, place, target.position, options) as feed:
            _give(feed, target, options)
    except (BadPosition, BadSchema, FeedFileError) as error:
        if options.follow_input and isinstance(error, FeedFileBusy):
            # of a crawl that was killed: it ends soon, and the crawl starts this command again
            click.echo(f"lycosa: {error}", err=True)
            return ExitCode.INTERRUPTED
        raise click.UsageError(str(error)) from error
    return ExitCode.FINISHED


@contextmanager
def _feed(kind: str, place: CrawlPlace, after: str, options: FeedOptions) -> Iterator[FolderFeed]:
    from lycosa.feeds import DeadLetterFeed, PageFeed

    if not kind.startswith(_ITEMS):
        yield (PageFeed if kind == "pages" else DeadLetterFeed)(place.folder, after)
        return
    name, follows = kind.removeprefix(_ITEMS), options.follow or options.follow_input
    with _item_lines(place) as lines:
        from lycosa.feeds.items_feed import ItemFeed

        feed = ItemFeed(lines, name, after)
        if feed.schema() is None:
            _tell_no_items(name, feed.names(), follows)
        yield feed


@contextmanager
def _item_lines(place: CrawlPlace) -> Iterator[ItemLines]:
    if place.cluster is None:
        from lycosa.feeds.items_feed import FolderItemLines

        yield FolderItemLines(place.folder)
        return
    with opened_cluster(place) as opened:
        from lycosa.feeds.cluster_item_lines import ClusterItemLines
        from lycosa.feeds.cluster_source import ClusterSource

        with closing(ClusterSource(opened)) as source:
            yield ClusterItemLines(source)


def _tell_no_items(name: str, known: Sequence[str], follows: bool) -> None:
    """A crawl that has just begun has no segment yet, so only a reader of what is there is sent
    away.
    """
    there = f"there are {', '.join(_ITEMS + each for each in known)}" if known else "it has none"
    if not follows:
        raise click.UsageError(f"the crawl has no items of an extractor {name}; {there}")
    click.echo(f"lycosa: no items of an extractor {name} yet; waiting for the first", err=True)


def _give(feed: FolderFeed, target: Any, options: FeedOptions) -> None:
    """Append rows to the target, until the end or until the command is stopped."""
    from lycosa.state.store.journal import JournalError

    began, follows = time.monotonic(), options.follow or options.follow_input
    while True:
        batch: list[bytes] = []
        try:
            for row in feed.new_rows():
                batch.append(_with_position(row, feed.position) if options.positions else row)
                if len(batch) >= _BATCH_ROWS:
                    target.append(batch, feed.position)
                    batch = []
        except JournalError:  # the rows before it are given
            if batch:
                target.append(batch, feed.position)
            raise
        if batch:
            target.append(batch, feed.position)
        is_over = not feed.is_behind or time.monotonic() - began > _SETTLE_S
        if is_over and not follows:
            return
        if not batch and _has_input_ended(options, follows):
            began, follows = time.monotonic(), False


def _has_input_ended(options: FeedOptions, follows: bool) -> bool:
    """Wait a moment, or until the standard input of a command that follows it ends."""
    if not (options.follow_input and follows):
        time.sleep(_POLL_S)
        return False
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], _POLL_S)
    return bool(readable) and not os.read(sys.stdin.fileno(), 1024)


def _with_position(row: bytes, position: str) -> bytes:
    return row[:-1] + b',"position":"' + position.encode() + b'"}'


class _Stream:
    """Standard output, or a pipe by its path. What arrived there is known to its reader alone."""

    def __init__(self, file: BinaryIO, position: str) -> None:
        self._file, self.position = file, position

    def append(self, rows: list[bytes], position: str) -> None:
        self._file.write(b"".join(row + b"\n" for row in rows))
        self._file.flush()


@contextmanager
def _target(options: FeedOptions) -> Iterator[Any]:
    if options.output == "-":
        yield _Stream(sys.stdout.buffer, options.after)
    elif _is_pipe(options.output):
        with os.fdopen(_opened_pipe(options), "wb") as file:
            yield _Stream(file, options.after)
    else:
        if options.after:
            raise click.UsageError(
                f"--after is for pipes: {options.output}.position says how far the file goes"
            )
        from lycosa.feeds import FeedFile

        with FeedFile(Path(options.output)) as file:
            yield file


def _opened_pipe(options: FeedOptions) -> int:
    """Open a pipe as soon as a process reads it, or as long as the input of this command lasts."""
    if not options.follow_input:
        return os.open(options.output, os.O_WRONLY)
    while True:
        try:
            number = os.open(options.output, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if _has_input_ended(options, follows=True):
                raise click.ClickException(f"nothing reads the pipe {options.output}") from None
        else:
            os.set_blocking(number, True)
            return number


def _is_pipe(path: str) -> bool:
    if path.startswith(("/dev/fd/", "/proc/self/fd/")):
        return True  # a file behind it has no name, and so no place for a position
    try:
        return not stat.S_ISREG(Path(path).stat().st_mode)
    except FileNotFoundError:
        return False
