"""``lycosa reparse``: parse stored documents that were never parsed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from lycosa.cli.callable_crawl import callable_crawl, operator_decisions, remark_options
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place
from lycosa.cli.output import ExitCode, counted, emit, emit_json

if TYPE_CHECKING:
    from lycosa.processes.callable_folder import ReparseReport

_EPILOG = """
\b
Examples:
  lycosa reparse crawls/example.org             stored documents that were never parsed
  lycosa reparse crawls/example.org --killed    also those that crashed the parser or timed out
  lycosa reparse --cluster cluster.toml --killed

Nothing is fetched for it; the crawl then fetches the links that were found. If the crawl in DIR
does not run, the documents are parsed by this command, and `lycosa crawl --dir DIR` fetches the
links. If it runs, and on a cluster, its workers parse them, and the command does not wait for
that. A crawl of a cluster that is finished continues for it.

Each start of the crawl parses such documents too, except those that need --killed. If this command
is interrupted, the next start parses the rest.
"""


@click.command(
    "reparse",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="Parse stored documents that were never parsed; add their links.",
)
@crawl_place
@click.option("--killed", is_flag=True, help="Also documents that crashed the parser or timed out.")
@remark_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    place: CrawlPlace,
    killed: bool,
    why: str,
    by: str,
    as_json: bool,
) -> int:
    """Parse documents of the crawl in DIR that were stored but not parsed.

    They are read from the WARC files, and their links join the crawl as if they had been found when
    the documents were fetched.
    """
    wanted, report = asyncio.run(_reparse(place, killed, by, why))
    if as_json:
        import msgspec

        emit_json(msgspec.to_builtins(report) if report else {"is_running": True, "wanted": wanted})
        return ExitCode.FINISHED
    for line in _report_lines(report, killed) if report else [_wanted_line(wanted, killed)]:
        emit(line)
    return ExitCode.FINISHED


async def _reparse(
    place: CrawlPlace, killed: bool, by: str, why: str
) -> tuple[int, ReparseReport | None]:
    """The number of documents, and what came of it if this command parsed them."""
    from lycosa.processes.callable_folder import CallableFolder

    async with callable_crawl(place) as crawl:
        wanted = await operator_decisions(crawl).reparse(killed, by, why)
        if isinstance(crawl, CallableFolder):
            return wanted, await crawl.parse_wanted(killed)
    return wanted, None


def _wanted_line(wanted: int, killed: bool) -> str:
    if not wanted:
        return _nothing(killed)
    return (
        f"{counted(wanted, 'document')}: the workers of the crawl parse them now; `lycosa audit`"
        " counts those that remain"
    )


def _nothing(killed: bool) -> str:
    rest = "" if killed else ", or needs --killed"
    return f"nothing to parse: every stored document was parsed{rest}"


def _report_lines(report: ReparseReport, killed: bool) -> list[str]:
    done = report.done
    if not (done.parsed or done.failed or done.to_fetch):
        return [_nothing(killed)]
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
