"""``lycosa diff``: how the visible text of a page differs between two of its captures."""

from __future__ import annotations

import html
import time
from functools import partial
from typing import TYPE_CHECKING

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, reading_crawl
from lycosa.cli.output import ExitCode, clean, emit, human_time

if TYPE_CHECKING:
    from lycosa.inspect.capture_diff import CaptureDiff
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.state.store.journal_rows import JournalRow

_EPILOG = """
\b
Examples:
  lycosa diff crawls/example.org https://example.org/prices                 the last change
  lycosa diff crawls/example.org https://example.org/prices --from 1        since the first fetch
  lycosa diff crawls/example.org https://example.org/prices --from 2026-01-31 --to 2h
  lycosa diff --cluster cluster.toml https://example.org/prices --html > prices.html

N is the number of a fetch, from 1. TIME is 2026-01-31, 2026-01-31T12:00:00 (UTC), or 2h ago as 2h;
it means the last capture up to then. Compared are status, title, validators and other facts, and
the visible text in lines of 100 characters: of each capture at most 5,000 lines and 400,000
characters. With --cluster the journals of segments are downloaded, the newest first.
"""
_STYLE = (
    "body{font:14px/1.4 monospace}ins{background:#dfd;text-decoration:none}"
    "del{background:#fdd;text-decoration:none}pre{white-space:pre-wrap}"
)


@click.command(
    "diff",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="How the text of a page differs between two captures.",
)
@crawl_place
@click.argument("url", metavar="URL")
@click.option("--from", "before", metavar="N|TIME", default="", help="The earlier capture.")
@click.option("--to", "after", metavar="N|TIME", default="", help="The later capture.")
@click.option("--html", "as_html", is_flag=True, help="Print an HTML page.")
def command(
    place: CrawlPlace,
    url: str,
    before: str,
    after: str,
    as_html: bool,
) -> ExitCode:
    """Compare two captures of URL in the crawl in DIR, by default around its last change."""
    from lycosa.inspect.capture_diff import NoSuchCapture

    with reading_crawl(place, tells_age=False) as reader:
        try:
            found = _compare(reader, url, _moment("--from", before), _moment("--to", after))
        except NoSuchCapture as error:
            raise click.UsageError(f"{url}: {error}") from error
    (_print_html if as_html else _print)(found)
    return ExitCode.FINISHED


def _compare(reader: CrawlReader, url: str, before: str, after: str) -> CaptureDiff:
    from lycosa.base.urls.identity import Canonicalizer
    from lycosa.inspect.capture_diff import (
        captures_of_url,
        choose,
        compared,
        parsed_text,
        visible_text,
    )
    from lycosa.inspect.saved_settings import load_saved_settings

    config = load_saved_settings(reader).config
    rows = captures_of_url(reader, Canonicalizer(config.canonical).canonical(url))
    one, other = choose(rows, before, after)
    parse = partial(parsed_text, config)
    return compared(
        one,
        other,
        (visible_text(reader, rows, one, parse), visible_text(reader, rows, other, parse)),
    )


def _moment(option: str, text: str) -> str:
    """The number of a fetch, or seconds since 1970, as text."""
    from lycosa.base.config.units import read_moment

    if not text or (text.isdecimal() and len(text) < 9):
        return text
    try:
        return str(read_moment(text, time.time()))
    except ValueError:
        raise click.UsageError(
            f"{option} {text} is neither the number of a fetch nor a time; write 3,"
            " 2026-01-31T12:00:00 (UTC) or 2h"
        ) from None


def _print(found: CaptureDiff) -> None:
    for row in (found.before, found.after):
        emit(clean(_heading(row)))
    for name, one, other in found.facts:
        emit(clean(f"{name}: {one or '(none)'} -> {other or '(none)'}"))
    for line in found.lines:
        emit(clean(line))
    if found.is_cut:
        emit("(not all of the text was compared)")


def _heading(row: JournalRow) -> str:
    return (
        f"fetch {row.fetch_number}, {human_time(row.date_us / 1e6)}: status {row.status},"
        f" {row.change.label}"
    )


def _print_html(found: CaptureDiff) -> None:
    """A page without scripts; everything from the captures is escaped."""
    marks = {"+": "ins", "-": "del"}
    lines = []
    for line in found.lines:
        mark = marks.get(line[:1])
        text = html.escape(clean(line))
        lines.append(f"<{mark}>{text}</{mark}>" if mark else text)
    facts = (
        f"{name}: <del>{html.escape(clean(one))}</del> <ins>{html.escape(clean(other))}</ins>"
        for name, one, other in found.facts
    )
    url = html.escape(clean(found.after.url))
    emit(f'<!DOCTYPE html><meta charset="utf-8"><title>{url}</title><style>{_STYLE}</style>')
    headings = (html.escape(clean(_heading(row))) for row in (found.before, found.after))
    emit(f"<h1>{url}</h1><p>{'<br>'.join([*headings, *facts])}</p>")
    emit("<pre>" + "\n".join(lines) + "</pre>")
    if found.is_cut:
        emit("<p>Not all of the text was compared.</p>")
