"""``lycosa dlq``: list, retry or drop the dead letters of a crawl, which are its failed URLs."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lycosa.cli.callable_crawl import callable_crawl, crawl_runs, operator_decisions, remark_options
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, reading_crawl
from lycosa.cli.option_sets import option_set
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json, emit_table, human_time

if TYPE_CHECKING:
    from lycosa.base.model.dead_letter import ListedDeadLetter
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.inspect.dead_letter_list import DeadLetterFilter

_SHOWN = 20

_EPILOG = """
\b
Examples:
  lycosa dlq list crawls/example.org
  lycosa dlq list crawls/example.org --reason connect_timeout --since 2d --json
  lycosa dlq list --cluster cluster.toml --host shop.example --limit 100
  lycosa dlq retry crawls/example.org --reason connect_timeout --dry-run
  lycosa dlq retry crawls/example.org https://shop.example/a https://shop.example/b
  lycosa dlq drop crawls/example.org --host gone.example
  lycosa dlq retry --cluster cluster.toml --reason connect_timeout

A dead letter is a URL that failed for good. retry queues it with a fresh retry count: a running
crawl fetches it, otherwise the next `lycosa crawl --dir DIR`. drop takes it off the list; the URL
remains known and failed, so it is not fetched when a page links to it. Both are commits of the
crawl, which may be running; a crawl of a cluster must be. `lycosa explain DIR URL` shows who
decided and when.
"""


class _Wanted(NamedTuple):
    """The options that say which dead letters are meant."""

    urls: tuple[str, ...]
    hosts: tuple[str, ...]
    reasons: tuple[str, ...]
    since: str
    until: str


@click.group("dlq", epilog=_EPILOG, short_help="List, retry or drop URLs that failed for good.")
def command() -> None:
    """List, retry or drop the dead letters of a crawl: URLs that failed for good."""


_WHEN = "as 2026-01-31, 2026-01-31T12:00:00 (UTC), or 2h ago as 2h"
_filters = option_set(
    click.option(
        "--host",
        "hosts",
        metavar="HOST",
        multiple=True,
        help="Only this host, by its name or a URL of it; may be repeated.",
    ),
    click.option(
        "--reason",
        "reasons",
        metavar="CODE",
        multiple=True,
        help="Only this reason, as connect_timeout; may be repeated.",
    ),
    click.option(
        "--since", metavar="TIME", default="", help=f"Only URLs that failed since, {_WHEN}."
    ),
    click.option(
        "--until", metavar="TIME", default="", help="Only URLs that failed before this time."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)


_decision_options = option_set(
    crawl_place,
    click.argument("urls", metavar="[URL]...", nargs=-1),
    click.option("--all", "is_all", is_flag=True, help="All dead letters of the crawl."),
    click.option("--dry-run", is_flag=True, help="Tell what would be done, and change nothing."),
    remark_options,
    _filters,
)


@command.command("list", cls=CrawlCommand, epilog=_EPILOG, short_help="The present dead letters.")
@crawl_place
@_filters
@click.option("--urls", "only_urls", is_flag=True, help="Print only the URLs, one a line.")
@click.option("--limit", metavar="N", type=click.IntRange(min=0), help="At most this many rows.")
def list_(
    place: CrawlPlace,
    limit: int | None,
    only_urls: bool,
    as_json: bool,
    **wanted: Any,
) -> int:
    """List the dead letters of the crawl in DIR, which may be running."""
    from lycosa.inspect.dead_letter_list import dead_letters

    with reading_crawl(place) as reader:
        found = dead_letters(reader, _filter(reader, _Wanted(urls=(), **wanted)))
        shown = islice(found, limit)
        if as_json:
            emit_json({"dead_letters": [_facts(each) for each in shown]})
            return ExitCode.FINISHED
        if only_urls:
            for each in shown:
                emit(each.url)
            return ExitCode.FINISHED
        rows = (
            (human_time(each.date_us / 1e6), each.reason.label, each.tries, each.url, each.detail)
            for each in shown
        )
        emit_table(("failed", "reason", "tries", "url", "detail"), rows)
    return ExitCode.FINISHED


@command.command(
    "retry", cls=CrawlCommand, epilog=_EPILOG, short_help="Queue URLs that failed, with new tries."
)
@_decision_options
def retry(place: CrawlPlace, **options: Any) -> int:
    """Queue dead letters of the crawl in DIR again, with a fresh retry count.

    Give URLs, filters, or --all. The crawl may be running.
    """
    return _decide(place, "retry", **options)


@command.command(
    "drop", cls=CrawlCommand, epilog=_EPILOG, short_help="Take URLs off the list of dead letters."
)
@_decision_options
def drop(place: CrawlPlace, **options: Any) -> int:
    """Take dead letters of the crawl in DIR off the list. The URLs remain known and failed.

    Give URLs, filters, or --all. The crawl may be running.
    """
    return _decide(place, "drop", **options)


def _decide(place: CrawlPlace, action: str, *, is_all: bool, **options: Any) -> int:
    dry_run, as_json = options.pop("dry_run"), options.pop("as_json")
    by, why = options.pop("by"), options.pop("why")
    wanted = _Wanted(**options)
    if is_all == any(wanted):
        raise click.UsageError(
            "--all means every dead letter: leave out URLs and filters"
            if is_all
            else "give URLs, --host, --reason, --since or --until, or --all"
        )
    with reading_crawl(place) as reader:
        letters = _Selected(_select(reader, wanted), sys.maxsize if as_json else _SHOWN)
        count = sum(1 for _ in letters) if dry_run else _carry_out(place, letters, action, by, why)
    if as_json:
        facts = [_facts(each) for each in letters.first]
        emit_json({"action": action, "dry_run": dry_run, "urls": count, "dead_letters": facts})
    else:
        resume = f"`lycosa crawl --dir {shlex.quote(str(place.folder))}`"
        fetcher = "the crawl" if crawl_runs(place) else resume
        for line in _lines(letters, action, dry_run, count, fetcher):
            emit(clean(line))
    return ExitCode.FINISHED


class _Selected:
    """Dead letters as they are read, because there may be millions.

    ``first`` has the first ones that were read, ``most`` at most, and ``count`` is their number.
    """

    def __init__(self, letters: Iterator[ListedDeadLetter], most: int) -> None:
        self._letters, self._most = letters, most
        self.first: list[ListedDeadLetter] = []
        self.count = 0

    def __iter__(self) -> Iterator[ListedDeadLetter]:
        for each in self._letters:
            self.count += 1
            if len(self.first) < self._most:
                self.first.append(each)
            yield each


def _select(reader: CrawlReader, wanted: _Wanted) -> Iterator[ListedDeadLetter]:
    from lycosa.inspect.dead_letter_list import dead_letters

    kept = _filter(reader, wanted)
    if not kept.urls:
        return dead_letters(reader, kept)
    letters = list(dead_letters(reader, kept))
    if missing := sorted(kept.urls - {each.url for each in letters}):
        raise click.UsageError(
            f"{missing[0]} is no dead letter"
            + (f", and {len(missing) - 1} more are none" if len(missing) > 1 else "")
            + "; `lycosa explain DIR URL` tells its state, and nothing was changed"
        )
    return iter(letters)


def _carry_out(place: CrawlPlace, selected: _Selected, action: str, by: str, why: str) -> int:
    waiting = iter(selected)
    if (first := next(waiting, None)) is None:
        return 0
    return asyncio.run(_decide_listed(place, chain([first], waiting), action, by, why))


async def _decide_listed(
    place: CrawlPlace, letters: Iterator[ListedDeadLetter], action: str, by: str, why: str
) -> int:
    from lycosa.base.model.dead_letter import DeadLetterAction

    async with callable_crawl(place) as crawl:
        decisions = operator_decisions(crawl)
        return await decisions.decide_listed(letters, DeadLetterAction(action), by, why)


def _lines(
    letters: _Selected, action: str, dry_run: bool, count: int, fetcher: str
) -> Iterator[str]:
    if not letters.count:
        yield "no dead letter matches; nothing was changed"
        return
    if dry_run:
        for each in letters.first:
            yield f"{each.reason.label}  {each.url}"
        if letters.count > len(letters.first):
            yield f"... and {counted(letters.count - len(letters.first), 'more URL')}"
        done = "would be queued again" if action == "retry" else "would be dropped"
        yield f"{counted(count, 'URL')} {done}; nothing was changed"
    elif action == "retry":
        them = "it" if count == 1 else "them"
        yield f"{counted(count, 'URL')} queued again; {fetcher} fetches {them}"
    else:
        yield f"{counted(count, 'URL')} dropped from the dead letters"


def _facts(letter: ListedDeadLetter) -> dict[str, Any]:
    return {
        "url": letter.url,
        "host": letter.host,
        "reason": letter.reason.label,
        "detail": letter.detail,
        "tries": letter.tries,
        "failed": human_time(letter.date_us / 1e6) or None,
        "date_us": letter.date_us or None,
    }


def _filter(reader: CrawlReader, wanted: _Wanted) -> DeadLetterFilter:
    from lycosa.inspect.dead_letter_list import DeadLetterFilter

    return DeadLetterFilter(
        urls=frozenset(_canonical(reader, wanted.urls)),
        hosts=frozenset(_known_hosts(reader, wanted.hosts)),
        reasons=frozenset(map(_reason, wanted.reasons)),
        since=_moment("--since", wanted.since),
        until=_moment("--until", wanted.until),
    )


def _canonical(reader: CrawlReader, urls: tuple[str, ...]) -> list[str]:
    if not urls:
        return []
    from lycosa.inspect.saved_settings import load_saved_settings

    canonicalizer = load_saved_settings(reader).canonicalizer
    return [canonicalizer.canonical(url) for url in urls]


def _known_hosts(reader: CrawlReader, hosts: tuple[str, ...]) -> Iterator[str]:
    """The canonical names of hosts that the crawl knows."""
    if not hosts:
        return
    from lycosa.base.urls.near_hosts import HostUnknown
    from lycosa.inspect.known_hosts import check_known
    from lycosa.inspect.saved_settings import load_saved_settings

    canonicalizer = load_saved_settings(reader).canonicalizer
    for text in hosts:
        host = canonicalizer.host_named(text)
        try:
            check_known(reader, host)
        except HostUnknown as error:
            raise click.UsageError(f"--host {text}: {error}") from error
        yield host


def _reason(text: str) -> Any:
    from lycosa.base.config.near_names import near_name
    from lycosa.base.reasons import Reason

    labels = {each.label: each for each in Reason if each}
    if (found := labels.get(text.lower())) is None:
        near = near_name(text.lower(), labels)
        failures = ", ".join(each.label for each in Reason if each.is_failure)
        raise click.UsageError(
            f"--reason {text} is no reason code; "
            + (f"did you mean {near}?" if near else f"those of failures are {failures}")
        )
    return found


def _moment(option: str, text: str) -> int:
    """Microseconds since 1970 of a time or a duration before now; 0 for an empty text."""
    from lycosa.base.config.units import read_moment

    if not text:
        return 0
    try:
        return int(read_moment(text, time.time()) * 1_000_000)
    except ValueError:
        raise click.UsageError(
            f"{option} {text} is no time; write 2026-01-31T12:00:00 (UTC) or 2h"
        ) from None
