"""``lycosa reparse``: parse stored documents that were never parsed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.output import ExitCode, counted, emit, emit_json

if TYPE_CHECKING:
    from lycosa.processes.reparse_run import ReparseReport

_EPILOG = """
\b
Examples:
  lycosa reparse crawls/example.org             stored documents that were never parsed
  lycosa reparse crawls/example.org --killed    also those that crashed the parser or timed out

The crawl must not be running. Nothing is fetched; `lycosa crawl --dir DIR` then fetches the links
that were found. Each start of the crawl parses such documents too, except those that need --killed.
"""


@click.command(
    "reparse",
    epilog=_EPILOG,
    short_help="Parse stored documents that were never parsed; add their links.",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--killed", is_flag=True, help="Also documents that crashed the parser or timed out.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(folder: Path, killed: bool, as_json: bool) -> int:
    """Parse documents of the crawl in DIR that were stored but not parsed.

    They are read from the WARC files, and their links join the crawl as if they had been found when
    the documents were fetched.
    """
    return run(folder, killed, as_json)


def run(folder: Path, killed: bool, as_json: bool) -> int:
    """Parse the documents and print the result; returns the exit code."""
    import msgspec

    from lycosa.processes.reparse_run import reparse

    report = asyncio.run(reparse(folder, killed))
    if as_json:
        emit_json(msgspec.to_builtins(report))
    else:
        for line in _lines(report, killed):
            emit(line)
    return ExitCode.FINISHED


def _lines(report: ReparseReport, killed: bool) -> list[str]:
    done = report.done
    if not (done.parsed or done.failed or done.to_fetch):
        return [
            "nothing to parse: every stored document was parsed"
            + ("" if killed else ", or needs --killed")
        ]
    lines = [
        f"{counted(done.parsed, 'document')} parsed: {counted(done.links, 'link')},"
        f" {counted(report.new_urls, 'new URL')}"
    ]
    if done.failed:
        lines.append(
            f"{counted(done.failed, 'document')} could not be parsed this time either; their state"
            " is unchanged"
        )
    if done.to_fetch:
        lines.append(
            f"{counted(done.to_fetch, 'document')} cannot be read from the WARC files; the next"
            " crawl fetches them again"
        )
    return lines
