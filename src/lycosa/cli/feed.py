"""``lycosa feed``: captures, dead letters or items of a crawl as JSON lines, each once."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place
from lycosa.cli.feed_export import (
    ITEMS_FEED,
    ExportOptions,
    export,
    input_has_ended,
    opened_feeds,
    tell_no_items,
)
from lycosa.cli.option_sets import option_set
from lycosa.cli.output import ExitCode, emit_json
from lycosa.inspect.printable import safe_json

if TYPE_CHECKING:
    from lycosa.feeds.export_run import RowFeed

_POLL_S = 0.5
_SETTLE_S = 15.0  # the last commit of a killed crawl counts after some seconds
_BATCH_ROWS = 2000

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
  lycosa feed items.products crawls/shop.example --to products.db a table of a SQLite database
  lycosa feed changes crawls/example.org --follow --to postgresql://crawler@db.example/crawls

The rows of pages and dlq are those of the topics of a cluster; `lycosa docs formats` has the
fields. Those of items.NAME are the items that the extractor NAME made, with _url, _fetched,
_capture, _version and _item (`lycosa docs items`). The crawl may be running. It does no work for
this command, so a slow reader does not slow it down.

Each row is given once. With --output FILE this holds whenever the command is killed: the file
FILE.position says how far FILE goes, and the next call continues there. A program that reads a pipe
uses --positions: each row has its position, to be stored together with what the program made of the
row. After a restart --after POSITION gives exactly the rows behind it.

\b
With --to TARGET the rows go to a database or files, with the position, so each is there once:
  FILE.jsonl, FILE.csv, FILE.db                 or jsonl:FILE, csv:FILE, sqlite:FILE?table=NAME
  postgresql://USER@HOST/DATABASE?schema=NAME   or postgresql: with LYCOSA_POSTGRES_DSN, PGHOST, ...
  opensearch:https://HOST:9200/INDEX            ?key=url has one document a URL, the newest
  parquet:DIR?splits=train:98,test:2            a data set as Hugging Face has them, with its card
  iceberg:CATALOGUE/NAMESPACE.TABLE             a catalogue of .pyiceberg.yaml
A target that is away is tried again after growing pauses. `lycosa docs exporters` has the
guarantees and examples of each.
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
    to: str = ""
    as_json: bool = False


class _Feeds(click.Group):
    """The feeds, with one for each extractor: ``items.NAME``."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name.startswith(ITEMS_FEED):
            return _items_command(cmd_name.removeprefix(ITEMS_FEED))
        return super().get_command(ctx, cmd_name)


@click.group(
    "feed",
    cls=_Feeds,
    epilog=_EPILOG,
    short_help="Captures, changes, dead letters or items, each once.",
)
def command() -> None:
    """Every capture, change, URL that failed for good, or item of an extractor (items.NAME), each
    once: as JSON lines, or in a target of --to.
    """


_options = option_set(
    click.option(
        "--follow/--once",
        help="Wait for new rows until Ctrl-C, or end when all were given [--once].",
    ),
    click.option(
        # a crawl that has this command for a child: the input ends with the crawl
        "--follow-input",
        is_flag=True,
        hidden=True,
        help="Wait for new rows until standard input ends.",
    ),
    click.option("--after", metavar="POSITION", default="", help="Only rows behind this position."),
    click.option(
        "--positions", is_flag=True, help="Add the field position to each row, for --after."
    ),
    click.option(
        "--output",
        "-o",
        metavar="FILE|-",
        default="-",
        help="File to append to; - is standard output.",
    ),
    click.option(
        "--to",
        metavar="TARGET",
        default="",
        help="Export to a database, a search engine or files, each row once; see below.",
    ),
    click.option("--json", "as_json", is_flag=True, help="With --to: print reports as JSON lines."),
)


_folder = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))


@command.command("pages", cls=CrawlCommand, epilog=_EPILOG, short_help="Every capture of a crawl.")
@_options
@crawl_place
def pages(place: CrawlPlace, **options: Any) -> int:
    """Write a row for each capture of the crawl in DIR: the journal's line without text and links.

    A page is identified by url8 and fetch_number.
    """
    return run("pages", place, FeedOptions(**options))


@command.command("dlq", epilog=_EPILOG, short_help="Every URL that failed for good.")
@_options
@_folder
def dlq(folder: Path, **options: Any) -> int:
    """Write a row for each time that a URL of the crawl in DIR failed for good.

    `lycosa dlq list` has the present dead letters instead.
    """
    return run("dlq", CrawlPlace(folder), FeedOptions(**options))


@command.command(
    "changes",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="Pages that are new, changed, gone or back.",
)
@_options
@crawl_place
def changes(place: CrawlPlace, **options: Any) -> int:
    """Write a row for each page of the crawl in DIR that is new, has changed, is gone or is back.

    The rows are those of `lycosa changes --json`, which are kept for frontier.changes_days.
    """
    return run("changes", place, FeedOptions(**options))


def _items_command(name: str) -> click.Command:
    """``lycosa feed items.NAME``."""

    @click.command(
        ITEMS_FEED + name, cls=CrawlCommand, epilog=_EPILOG, help=_ITEMS_HELP.format(name=name)
    )
    @_options
    @crawl_place
    def items(place: CrawlPlace, **options: Any) -> int:
        return run(ITEMS_FEED + name, place, FeedOptions(**options))

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
    if options.to:
        return _export(kind, place, options)
    if options.as_json:
        raise click.UsageError("--json is for --to: without it the rows are JSON lines already")
    from lycosa.base.model.item_schema import BadSchema
    from lycosa.feeds.feed_file import FeedFileBusy, FeedFileError
    from lycosa.feeds.feed_position import BadPosition

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


def _export(kind: str, place: CrawlPlace, options: FeedOptions) -> int:
    """Export the rows with --to; returns the exit code."""
    for is_given, option in (
        (options.output != "-", "--output"),
        (bool(options.after), "--after"),
        (options.positions, "--positions"),
    ):
        if is_given:
            raise click.UsageError(f"{option} is not for --to: the target has the position")
    follows = options.follow or options.follow_input
    waits = partial(_has_input_ended, options, True) if options.follow_input else None
    return export(kind, place, ExportOptions(options.to, follows, options.as_json, waits))


@contextmanager
def _feed(kind: str, place: CrawlPlace, after: str, options: FeedOptions) -> Iterator[RowFeed]:
    with opened_feeds(kind, place) as open_feed:
        feed = open_feed(after)
        if not kind.startswith(ITEMS_FEED):
            yield feed
            return
        from lycosa.feeds.items_export import ItemsExport

        assert isinstance(feed, ItemsExport)
        if not feed.learn_versions():
            tell_no_items(kind, feed.names(), options.follow or options.follow_input)
        yield feed.feed  # JSON lines may have any columns


def _give(feed: RowFeed, target: Any, options: FeedOptions) -> None:
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
    return input_has_ended(_POLL_S)


def _with_position(row: bytes, position: str) -> bytes:
    return row[:-1] + b',"position":"' + position.encode() + b'"}'


class _Stream:
    """Standard output, or a pipe by its path. What arrived there is known to its reader alone."""

    def __init__(self, file: BinaryIO, position: str) -> None:
        self._file, self.position = file, position

    def append(self, rows: list[bytes], position: str) -> None:
        written = b"".join(row + b"\n" for row in rows)
        if self._file.isatty():
            written = safe_json(written.decode()).encode()
        self._file.write(written)
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
        from lycosa.feeds.feed_file import FeedFile

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
