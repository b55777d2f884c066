"""``lycosa changes``: which pages of a crawl are new, changed, gone or back, in order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click
import msgspec

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, opened_cluster
from lycosa.cli.output import ExitCode, clean, emit, human_time
from lycosa.inspect.printable import safe_json

if TYPE_CHECKING:
    from lycosa.base.calls import ListedChange
    from lycosa.inspect.queries.changed_list import ChangesCursor
    from lycosa.processes.changes_feed import NewestReader, WantedChanges

_KINDS = ("new", "changed", "gone", "back")
_POLL_S = 0.5

_EPILOG = """
\b
Examples:
  lycosa changes crawls/example.org                          all that is kept
  lycosa changes crawls/example.org --since 2d --kind gone
  lycosa changes crawls/example.org --follow --json | my-indexer
  lycosa changes crawls/example.org --since "$(cat cursor)"  what came after an earlier call
  lycosa changes --cluster cluster.toml --host shop.example

TIME is 2026-01-31, 2026-01-31T12:00:00 (UTC), or 2h ago as 2h. CURSOR is what an earlier call
printed on standard error, or with --json in the lines {"cursor": ...}, which follow the changes
that they cover. It stays valid when the crawl is resumed, imported or divided into more shards. The
list is kept for frontier.changes_days; the column `change` of the table `pages` has all.
"""


@click.command(
    "changes",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="Pages that are new, changed, gone or back.",
)
@crawl_place
@click.option("--since", metavar="TIME|CURSOR", default="", help="Only what changed after it.")
@click.option("--host", metavar="HOST", default="", help="Only this host.")
@click.option(
    "--kind",
    "kinds",
    metavar="KIND",
    type=click.Choice(_KINDS),
    multiple=True,
    help="Only these: new, changed, gone or back; may be repeated.",
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most this many rows.")
@click.option("--follow", is_flag=True, help="Wait for more, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def command(
    place: CrawlPlace,
    since: str,
    host: str,
    kinds: tuple[str, ...],
    limit: int | None,
    follow: bool,
    as_json: bool,
) -> ExitCode:
    """Show what changed in the crawl in DIR, in the order of its commits; it may be running."""
    from lycosa.inspect.queries.changed_list import BadCursor
    from lycosa.processes.changes_feed import WantedChanges

    left = None if follow else limit
    try:
        return _run(place, since, WantedChanges(kinds, host), left, follow, as_json)
    except BadCursor as error:
        raise click.UsageError(str(error)) from error


def _run(
    place: CrawlPlace,
    since: str,
    wanted: WantedChanges,
    left: int | None,
    follow: bool,
    as_json: bool,
) -> ExitCode:
    from lycosa.inspect.queries.changed_list import cursor_text
    from lycosa.processes.changes_feed import change_pages

    with _readers(place) as next_reader:
        cursor: ChangesCursor | None = None
        text = ""
        while True:
            reader, is_behind = next_reader()
            if reader is not None:
                crawl = reader.manifest.crawl
                cursor = cursor or _begin(crawl, since)
                for page in change_pages(reader, cursor, wanted, left):
                    cursor, now = page.cursor, cursor_text(crawl, page.cursor)
                    left = left - len(page.rows) if left is not None else None
                    _print(page.rows, now if now != text else "", as_json)
                    text = now
            if not follow and (not is_behind or left == 0):
                break
            time.sleep(_POLL_S)
    if not as_json and text:
        click.echo(clean(f"lycosa: continue with --since {text}"), err=True)
    return ExitCode.FINISHED


def _begin(crawl: str, since: str) -> ChangesCursor:
    """The cursor of ``--since``; a span as ``2h`` is a time in the past."""
    from lycosa.base.config.units import read_seconds
    from lycosa.inspect.queries.changed_list import cursor_since

    if not since.isdecimal():  # those are seconds since 1970, as in the API
        with suppress(ValueError):  # a cursor, a time, or neither, which the next line tells
            since = str(time.time() - read_seconds(since))
    return cursor_since(crawl, since)


@contextmanager
def _readers(place: CrawlPlace) -> Iterator[NewestReader]:
    from lycosa.processes.changes_feed import ClusterReaders, FolderReaders

    if place.cluster is not None:
        with opened_cluster(place) as opened:
            yield ClusterReaders(opened)
        return
    yield FolderReaders(place.folder)


def _print(rows: list[ListedChange], cursor: str, as_json: bool) -> None:
    for row in rows:
        if as_json:
            emit(safe_json(msgspec.json.encode(row).decode()))
            continue
        distance = "" if row.distance is None else f" distance={row.distance}"
        emit(clean(f"{human_time(row.date)}  {row.change:7}  {row.status}  {row.url}{distance}"))
    if as_json and cursor:
        emit(msgspec.json.encode({"cursor": cursor}).decode())
