"""``lycosa explain``: the state of a URL, and why."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, reading_crawl
from lycosa.cli.output import ExitCode, clean, emit, emit_json, emit_pairs

if TYPE_CHECKING:
    from lycosa.inspect.explain.facts import Explanation

_EPILOG = """
\b
Examples:
  lycosa explain crawls/example.org https://example.org/about
  lycosa explain crawls/example.org 9f86d081884c7d65     the url_hash of the API and of exports
  lycosa explain crawls/example.org example.org/ --json | jq -r .verdict
  lycosa explain --cluster cluster.toml https://example.org/about

\b
Verdicts:
  fetched duplicate near_duplicate redirected queued retrying parked retired failed gone
  refused_by_robots refused_by_scope refused_by_trap never_seen not_a_url unknown_hash

\b
Exit codes: 0 answered, 2 bad usage, or URL is neither a URL nor a hash that the crawl has
"""


@click.command(
    "explain",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="Everything about one URL: state, rule, robots line, history.",
)
@crawl_place
@click.argument("url", metavar="URL")
@click.option(
    "--links",
    "searches_links",
    is_flag=True,
    help="With --cluster: search all stored links for one to a URL without a record.",
)
@click.option(
    "--attempts",
    "reads_attempts",
    is_flag=True,
    help="With --cluster: download the shard's attempt logs for the requests to this URL.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    place: CrawlPlace,
    url: str,
    searches_links: bool,
    reads_attempts: bool,
    as_json: bool,
) -> ExitCode:
    """Show the state of URL in the crawl in DIR, or what a crawl would do with it, and why.

    URL may be a url_hash (16 hexadecimal digits).
    """
    if place.cluster is None and (searches_links or reads_attempts):
        raise click.UsageError("--links and --attempts are for a crawl on machines (--cluster)")
    return run(place, url, as_json, searches_links, reads_attempts)


def run(
    place: CrawlPlace, url: str, as_json: bool, searches_links: bool, reads_attempts: bool
) -> ExitCode:
    """Look up the URL and print the answer; of a cluster, in the shard that owns the URL."""
    from lycosa.inspect.explain.explanation import explain
    from lycosa.inspect.explain.facts import add_shard
    from lycosa.inspect.explain.lookup import found_on, links_not_searched
    from lycosa.inspect.saved_settings import load_saved_settings

    search = found_on if searches_links or place.cluster is None else links_not_searched
    with reading_crawl(place, searches_links, reads_attempts, tells_age=False) as reader:
        answer = explain(reader, load_saved_settings(reader), url, time.time(), search)
        if answer.url and (shards := reader.source.seen.shards):
            add_shard(answer, shards[reader.partition_of(answer.url)], time.time())
        return _print(answer, as_json)


def _print(answer: Explanation, as_json: bool) -> ExitCode:
    is_unknown = answer.verdict in ("not_a_url", "unknown_hash")
    code = ExitCode.USAGE if is_unknown else ExitCode.FINISHED
    if as_json:
        emit_json(answer.to_json())
        return code
    emit(clean(answer.url or answer.asked))
    emit(clean(answer.headline))
    emit("")
    emit_pairs(
        [
            ("url_hash", answer.url_hash),
            *((fact.label, fact.text) for fact in answer.facts),
        ],
        indent="  ",
    )
    return code
