"""``lycosa changes``: which pages of a crawl are new, changed, gone or back, in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, opened_cluster
from lycosa.cli.output import ExitCode, clean, emit, human_time

if TYPE_CHECKING:
    from lycosa.base.calls import FoundChanges, ListedChange
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.inspect.queries.changed_list import ChangesCursor, ChangesPage

_KINDS = ("new", "changed", "gone", "back")
_PAGE = 1000
_POLL_S, _CLUSTER_POLL_S = 0.5, 10.0
_SETTLE_S = 15.0  # the last commit of a killed crawl counts after some seconds
_BUDGET_S = 600.0  # for a page of one partition; no other caller waits for a command

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


class _Wanted(NamedTuple):
    kinds: tuple[str, ...]
    host: str
    limit: int | None


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
    folder: Path,
    cluster: Path | None,
    cache: Path | None,
    since: str,
    host: str,
    kinds: tuple[str, ...],
    limit: int | None,
    follow: bool,
    as_json: bool,
) -> ExitCode:
    """Show what changed in the crawl in DIR, in the order of its commits; it may be running."""
    from lycosa.inspect.queries.changed_list import BadCursor

    place = CrawlPlace(folder, cluster, cache)
    wanted = _Wanted(kinds, host, None if follow else limit)
    try:
        return _run(place, since, wanted, follow, as_json)
    except BadCursor as error:
        raise click.UsageError(str(error)) from error


def _run(place: CrawlPlace, since: str, wanted: _Wanted, follow: bool, as_json: bool) -> ExitCode:
    from lycosa.inspect.queries.changed_list import cursor_text

    with _readers(place) as next_reader:
        cursor: ChangesCursor | None = None
        left, text = wanted.limit, ""
        while True:
            reader, is_behind = next_reader()
            if reader is not None:
                crawl = reader.manifest.crawl
                cursor = cursor or _begin(crawl, since)
                for page in _pages(reader, cursor, wanted, left):
                    cursor, now = page.cursor, cursor_text(crawl, page.cursor)
                    left = left - len(page.rows) if left is not None else None
                    _print(page.rows, now if now != text else "", as_json)
                    text = now
            if not follow and (not is_behind or left == 0):
                break
            time.sleep(_CLUSTER_POLL_S if place.cluster else _POLL_S)
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


def _pages(
    reader: CrawlReader, cursor: ChangesCursor, wanted: _Wanted, left: int | None
) -> Iterator[ChangesPage]:
    """The pages behind a cursor; the last one has fewer rows than it could have."""
    from lycosa.inspect.queries.changed_list import merged_changes

    has_more = True
    while has_more and left != 0:
        most = min(_PAGE, left) if left is not None else _PAGE
        answers = _answers(reader, cursor, wanted, most)
        page = merged_changes(answers, cursor, most, reader.partitions)
        cursor, has_more = page.cursor, page.has_more
        left = left - len(page.rows) if left is not None else None
        yield page


def _answers(
    reader: CrawlReader, cursor: ChangesCursor, wanted: _Wanted, most: int
) -> Mapping[int, FoundChanges]:
    from lycosa.base.calls import ChangesQuery
    from lycosa.base.model.capture import TOLD_CHANGES
    from lycosa.base.urls.identity import Canonicalizer
    from lycosa.inspect.queries.changed_list import changes_in, generation_of
    from lycosa.inspect.saved_settings import load_saved_settings

    host = wanted.host
    if host:
        host = Canonicalizer(load_saved_settings(reader).config.canonical).host_named(host)
    query = ChangesQuery(
        read=cursor.read,
        since_s=cursor.since_s,
        changes=tuple(int(each) for each in TOLD_CHANGES if each.label in wanted.kinds),
        host=host,
        most=most,
    )
    found = {}
    for number in range(reader.partitions):
        with reader.partition_view(number) as view:
            found[number] = changes_in(view, generation_of(reader), query)
    return found


@contextmanager
def _readers(place: CrawlPlace) -> Iterator[Callable[[], tuple[CrawlReader | None, bool]]]:
    """Gives readers of the newest state, and whether there are commits that it may lack.

    ``None`` while nothing is new, or the last commit could still be taken back.
    """
    from lycosa.inspect.committed_state import CrawlReader

    if place.cluster is not None:
        with opened_cluster(place) as opened:

            def newest() -> tuple[CrawlReader | None, bool]:
                return CrawlReader(opened.again()), False

            yield newest
        return
    if place.cache is not None:
        raise click.UsageError("--cache is for a crawl on machines: give --cluster FILE")
    yield _FolderReaders(place.folder)


class _FolderReaders:
    """Readers of a folder, opened only when there are new commits that last."""

    def __init__(self, folder: Path) -> None:
        from lycosa.feeds import FolderSource

        self._source = FolderSource(folder)
        self._is_new, self._began = True, time.monotonic()

    def __call__(self) -> tuple[CrawlReader | None, bool]:
        from lycosa.inspect.committed_state import CrawlReader

        self._is_new |= bool(sum(1 for _ in self._source.commits()))
        if not self._is_new:
            return None, False
        view = self._source.view()
        # Read again after the view was opened: it may have a commit that is not on disk yet. What
        # a reader was told of such a commit would be wrong if it is taken back.
        for _ in self._source.commits():
            pass
        # A busy crawl has a new commit at any moment. Then the view is taken after some tries: only
        # a power failure in the next milliseconds could make it wrong.
        is_late = time.monotonic() - self._began > _SETTLE_S
        if self._source.count_waiting() and not is_late:
            return None, True
        self._is_new, self._began = False, time.monotonic()
        return CrawlReader(view), False


def _print(rows: list[ListedChange], cursor: str, as_json: bool) -> None:
    for row in rows:
        if as_json:
            emit(msgspec.json.encode(row).decode())
            continue
        distance = "" if row.distance is None else f" distance={row.distance}"
        emit(clean(f"{human_time(row.date)}  {row.change:7}  {row.status}  {row.url}{distance}"))
    if as_json and cursor:
        emit(msgspec.json.encode({"cursor": cursor}).decode())
