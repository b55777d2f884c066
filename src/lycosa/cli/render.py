"""``lycosa render``: renders captured pages of a crawl again, running or stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from lycosa.cli.callable_crawl import (
    ask_crawl,
    callable_crawl,
    crawl_runs,
    operator_decisions,
    remark_options,
)
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json

if TYPE_CHECKING:
    from lycosa.base.calls import GivenVerdict
    from lycosa.base.messages.progress import Progress

_SHOWN = 20  # URLs that were refused
_AT_ONCE = 1000  # URLs that are given together

_EPILOG = """
\b
Examples:
  lycosa render crawls/app.example https://app.example/shop
  lycosa render crawls/app.example --from urls.txt --why "new version of the shop"
  lycosa sql crawls/app.example "SELECT url FROM renders WHERE \\"end\\" = 'hung'" --csv |
    tail -n +2 | lycosa render crawls/app.example --from -
  lycosa render https://app.example/shop --cluster cluster.toml

A page is rendered from its last capture; nothing of it is fetched but what its scripts ask for and
the crawl has not stored. What it loaded in an earlier render is not fetched again. Pages that are
given here come before all others. A crawl renders by itself what is new or has changed.

The crawl must render pages: start it with --render auto, or change render.mode while it runs. A
crawl that is stopped renders them in its next run.

\b
Exit codes: 0 all pages will be rendered, 1 the crawl does not answer, 2 bad usage, or pages that
            cannot be rendered: unknown, not captured, no HTML
"""


@click.command(
    "render",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="Render pages of a crawl again, from their stored captures.",
)
@crawl_place
@click.argument("urls", nargs=-1, metavar="URL...")
@click.option(
    "--from",
    "file",
    metavar="FILE",
    help="URLs, one on each line; # begins a comment, - is standard input.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@remark_options
def command(
    place: CrawlPlace,
    urls: tuple[str, ...],
    file: str | None,
    as_json: bool,
    by: str,
    why: str,
) -> ExitCode:
    """Render these pages from their last capture, also if they were rendered before.

    DIR is the crawl folder; leave it out with --cluster. The crawl may be running.
    """
    given = [*urls, *_read(file)]
    if not given:
        raise click.UsageError("give a URL, or --from FILE")
    verdicts = asyncio.run(_order(place, given, by, why))
    waits = _why_it_waits(place)
    if as_json:
        rows = [
            {"url": each.url, "verdict": each.verdict.value, "reason": each.reason}
            for each in verdicts
        ]
        emit_json({"results": rows, "waits": waits})
    else:
        _tell(verdicts, waits)
    return ExitCode.USAGE if any(each.reason for each in verdicts) else ExitCode.FINISHED


def _read(file: str | None) -> list[str]:
    if file is None:
        return []
    from lycosa.cli.seed_reading import read_file

    try:
        return [url for url, _ in read_file(file)]
    except OSError as error:
        raise click.UsageError(f"--from {file}: {error.strerror or error}") from error


async def _order(place: CrawlPlace, urls: list[str], by: str, why: str) -> list[GivenVerdict]:
    from lycosa.service.api.answers import ServiceRefusal

    found: list[GivenVerdict] = []
    async with callable_crawl(place) as crawl:
        decisions = operator_decisions(crawl)
        try:
            for at in range(0, len(urls), _AT_ONCE):
                found += await decisions.order_renders(urls[at : at + _AT_ONCE], by, why)
        except ServiceRefusal as error:
            raise click.UsageError(str(error)) from error
    return found


def _why_it_waits(place: CrawlPlace) -> str:
    """Why no page is rendered now; empty when nothing is known to be in the way."""
    if not crawl_runs(place):
        return "the crawl does not run; its next run renders them"
    if (progress := _progress(place)) is None:
        return ""
    if progress.renderer is not None:
        return progress.renderer.trouble
    if any(each.at_once and not each.trouble for each in progress.renderers):
        return ""
    troubles = (each.trouble for each in progress.renderers if each.trouble)
    return next(troubles, "no renderer has asked for pages in the last minute")


def _progress(place: CrawlPlace) -> Progress | None:
    from lycosa.cluster.serve.caller import NoCoordinator

    try:
        return ask_crawl(place).progress
    except (NoCoordinator, OSError):
        return None  # the order is committed; what is in the way is not known


def _tell(verdicts: list[GivenVerdict], waits: str) -> None:
    from lycosa.base.calls import UrlVerdict

    new = sum(each.verdict is UrlVerdict.ACCEPTED for each in verdicts)
    waited = sum(each.verdict is UrlVerdict.WAITING for each in verdicts)
    already = f"; {waited} waited already, and are among the first now" if waited else ""
    emit(f"{counted(new, 'page')} will be rendered{already}")
    refused = [each for each in verdicts if each.reason]
    for each in refused[:_SHOWN]:
        emit(clean(f"  not {each.url}: {each.reason}"))
    if len(refused) > _SHOWN:
        emit(f"  and {len(refused) - _SHOWN} more")
    if waits and new + waited:
        emit(clean(f"they wait: {waits}"))
