"""``lycosa feed``: every capture, dead letter or change of a crawl folder, once: as JSON lines, or
in a target of --to.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from lycosa.cli.output import ExitCode, emit_json

if TYPE_CHECKING:
    from lycosa.feeds import FolderFeed
    from lycosa.feeds.export_run import ExportFeed

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
  lycosa feed pages crawls/example.org --to pages.db              a table of a SQLite database
  lycosa feed changes crawls/example.org --follow --to postgresql://crawler@db.example/crawls
  lycosa feed schema pages                                        the JSON Schema of a row

The rows are those of the topics pages and dlq of a cluster; docs/formats.md of the source has the
fields. The crawl may be running. It does no work for this command, so a slow reader does not slow
it down.

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
A target that is away is tried again after growing pauses. docs/exporters.md of the source has the
guarantees and examples of each.
"""


class FeedOptions(NamedTuple):
    """The options of ``lycosa feed`` and a feed."""

    follow: bool = False
    follow_input: bool = False
    after: str = ""
    positions: bool = False
    output: str = "-"
    to: str = ""
    as_json: bool = False


@click.group("feed", epilog=_EPILOG, short_help="Captures, changes or dead letters, each once.")
def command() -> None:
    """Every capture, change, or URL that failed for good, each once."""


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for add in (
        click.option(
            "--json", "as_json", is_flag=True, help="With --to: print reports as JSON lines."
        ),
        click.option(
            "--to",
            metavar="TARGET",
            default="",
            help="Export to a database, a search engine or files, each row once; see below.",
        ),
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
        click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False)),
    ):
        function = add(function)
    return function


@command.command("pages", epilog=_EPILOG, short_help="Every capture of a crawl.")
@_options
def pages(folder: Path, **options: Any) -> int:
    """Write a row for each capture of the crawl in DIR: the journal's line without text and links.

    A page is identified by url8 and fetch_number.
    """
    return run("pages", folder, FeedOptions(**options))


@command.command("dlq", epilog=_EPILOG, short_help="Every URL that failed for good.")
@_options
def dlq(folder: Path, **options: Any) -> int:
    """Write a row for each time that a URL of the crawl in DIR failed for good.

    `lycosa dlq list` has the present dead letters instead.
    """
    return run("dlq", folder, FeedOptions(**options))


@command.command("changes", epilog=_EPILOG, short_help="Pages that are new, changed, gone or back.")
@_options
def changes(folder: Path, **options: Any) -> int:
    """Write a row for each page of the crawl in DIR that is new, has changed, is gone or is back.

    The rows are those of `lycosa changes --json`, which are kept for frontier.changes_days.
    """
    return run("changes", folder, FeedOptions(**options))


@command.command("schema", short_help="The JSON Schema of a row.")
@click.argument("feed", metavar="pages|dlq", type=click.Choice(["pages", "dlq"]))
def schema(feed: str) -> int:
    """Print the JSON Schema of the rows of a feed, in files and in the topics of a cluster."""
    from lycosa.state.store.feed_rows import feed_schema

    emit_json(feed_schema(feed))
    return ExitCode.FINISHED


def run(kind: str, folder: Path, options: FeedOptions) -> int:
    """Write the rows; returns the exit code."""
    if options.to:
        return export_feed(kind, folder, options)
    if options.as_json:
        raise click.UsageError("--json is for --to: without it the rows are JSON lines already")
    from lycosa.feeds import BadPosition, FeedFileError
    from lycosa.feeds.feed_file import FeedFileBusy

    try:
        with _target(options) as target:
            _give(_feed(kind, folder, target.position), target, options)
    except (BadPosition, FeedFileError) as error:
        if options.follow_input and isinstance(error, FeedFileBusy):
            # of a crawl that was killed: it ends soon, and the crawl starts this command again
            click.echo(f"lycosa: {error}", err=True)
            return ExitCode.INTERRUPTED
        raise click.UsageError(str(error)) from error
    return ExitCode.FINISHED


def export_feed(kind: str, folder: Path, options: FeedOptions) -> int:
    """Export the rows with --to; returns the exit code."""
    from lycosa.cli.feed_export import ExportOptions, export

    for is_given, option in (
        (options.output != "-", "--output"),
        (bool(options.after), "--after"),
        (options.positions, "--positions"),
    ):
        if is_given:
            raise click.UsageError(f"{option} is not for --to: the target has the position")
    follows = options.follow or options.follow_input
    waits = partial(_has_input_ended, options, True) if options.follow_input else None
    return export(
        lambda after: _feed(kind, folder, after),
        ExportOptions(options.to, follows, options.as_json, waits),
    )


def _feed(kind: str, folder: Path, after: str) -> ExportFeed:
    from lycosa.feeds import DeadLetterFeed, PageFeed
    from lycosa.feeds.changes_feed import folder_changes

    feeds: dict[str, Callable[[Path, str], ExportFeed]]
    feeds = {"pages": PageFeed, "dlq": DeadLetterFeed, "changes": folder_changes}
    return feeds[kind](folder, after)


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
