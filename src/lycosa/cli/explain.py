"""``lycosa explain``: the state of a URL, and why."""

from __future__ import annotations

import time
from pathlib import Path

import click

from lycosa.cli.output import clean, emit, emit_json, emit_pairs

_EPILOG = """
\b
Examples:
  lycosa explain crawls/example.org https://example.org/about
  lycosa explain crawls/example.org 9f86d081884c7d65     the urlHash of the API and of exports
  lycosa explain crawls/example.org example.org/ --json | jq -r .verdict

\b
Verdicts:
  fetched duplicate near_duplicate redirected queued retrying parked retired failed
  refused_by_robots refused_by_scope refused_by_trap never_seen not_a_url unknown_hash
"""


@click.command(
    "explain",
    epilog=_EPILOG,
    short_help="Everything about one URL: state, rule, robots line, history.",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.argument("url", metavar="URL")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(folder: Path, url: str, as_json: bool) -> None:
    """Show the state of URL in the crawl in DIR, or what a crawl would do with it, and why.

    URL may be a urlHash (16 hexadecimal digits).
    """
    run(folder, url, as_json)


def run(folder: Path, url: str, as_json: bool) -> None:
    """Look up the URL and print the answer."""
    from lycosa.inspect.explain.run import explain
    from lycosa.inspect.reader import read_folder
    from lycosa.inspect.saved_settings import load_saved_settings

    reader = read_folder(folder)
    answer = explain(reader, load_saved_settings(reader), url, time.time())
    if as_json:
        emit_json(answer.to_json())
        return
    emit(clean(answer.url or answer.asked))
    emit(clean(answer.headline))
    emit("")
    emit_pairs(
        [
            ("urlHash", answer.url_hash),
            *((fact.key.replace("_", " "), fact.text) for fact in answer.facts),
        ],
        indent="  ",
    )
