"""``lycosa describe``: a crawl in words, to be copied into a paper or the notes of an archive."""

from __future__ import annotations

import textwrap
import time

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, reading_crawl
from lycosa.cli.output import ExitCode, clean, emit, emit_json

_EPILOG = """
\b
Examples:
  lycosa describe crawls/example.org
  lycosa describe crawls/example.org --json | jq .settings
  lycosa describe --cluster cluster.toml

The text has what a reader needs to judge or repeat the crawl: version, dates, seeds, scope,
politeness, counts, what was not stored and why, and settings that differ from the defaults. It has
no secrets: settings of machines, stores and interfaces are left out.
"""


@click.command(
    "describe",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="A crawl in words, for the methods of a paper.",
)
@crawl_place
@click.option("--json", "as_json", is_flag=True, help="Print the facts as one JSON document.")
def command(place: CrawlPlace, as_json: bool) -> ExitCode:
    """Describe how the crawl in DIR was made, and what it holds."""
    import msgspec

    from lycosa.inspect.crawl_description import describe_crawl, paragraphs
    from lycosa.inspect.crawl_status import crawl_status
    from lycosa.inspect.saved_settings import load_saved_settings

    with reading_crawl(place) as reader:
        saved = load_saved_settings(reader)
        about = describe_crawl(reader, saved, crawl_status(reader, saved, time.time(), hosts=0))
    if as_json:
        emit_json(msgspec.to_builtins(about))
    else:
        text = "\n\n".join(textwrap.fill(each, 88) for each in paragraphs(about))
        emit("\n".join(map(clean, text.splitlines())))
    return ExitCode.FINISHED
