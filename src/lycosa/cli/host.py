"""``lycosa host``: pause, resume and retire hosts, of a running crawl or of one that is stopped."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.cluster_parts import tell_line
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place
from lycosa.cli.output import ExitCode, clean, emit, emit_json
from lycosa.cli.remarks import remark_options
from lycosa.cli.running_crawl import running_crawl

if TYPE_CHECKING:
    from lycosa.api.places import ReachedCrawl
    from lycosa.calls import HostDecision

_PATIENCE_S = 60.0
_AGAIN_S = 1.0
_EPILOG = """
\b
Examples:
  lycosa host pause crawls/news www.example.org --why "mail of 3 May"
  lycosa host retire crawls/news www.example.org       never request it again
  lycosa host resume crawls/news www.example.org
  lycosa host pause www.example.org --cluster cluster.toml

\b
A site owner complains:
  lycosa host pause DIR HOST                nothing is requested from it from now on
  lycosa audit DIR                          whether its delays and its robots.txt were kept
  lycosa host retire DIR HOST --why "..."   for good; or resume, with other settings

HOST has a port unless it is the default one: www.example.org, localhost:8080. The decision is
committed with your name and the time; `lycosa explain` and the log of actions show it.

\b
Exit codes: 0 done (also when the host was in that state already), 1 the crawl does not answer,
            2 bad usage
"""


@click.group("host", epilog=_EPILOG, short_help="Pause, resume or retire a host of a crawl.")
def command() -> None:
    """Decide about a host of a crawl, which may be running."""


def _decision(name: str, text: str) -> None:
    """Add the command for one decision."""

    @command.command(name, cls=CrawlCommand, short_help=text)
    @crawl_place
    @click.argument("host")
    @remark_options
    @click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
    def decide(
        folder: Path,
        cluster: Path | None,
        cache: Path | None,
        host: str,
        why: str,
        by: str,
        as_json: bool,
    ) -> ExitCode:
        return run(CrawlPlace(folder, cluster, cache), name, host, (why, by), as_json)

    decide.help = f"{text} DIR is the crawl folder; leave it out with --cluster."


_decision("pause", "Request nothing from HOST until it is resumed.")
_decision("resume", "End the pause or the retirement of HOST.")
_decision("retire", "Never request HOST again; its waiting URLs are refused.")


def run(
    place: CrawlPlace, action: str, host: str, remark: tuple[str, str], as_json: bool
) -> ExitCode:
    """Carry out the decision; returns the exit code."""
    from lycosa.calls import HostAction, HostDecision

    why, by = remark
    call = f"lycosa host {uuid.uuid4().hex}"
    decision = HostDecision(call, by, host, HostAction(action), why)
    reached = running_crawl(place)
    if reached is not None:
        changed = asyncio.run(_decide_running(reached, decision))
    else:
        from lycosa.processes.host_run import decide_host

        changed = asyncio.run(decide_host(place.folder, decision))
    if as_json:
        emit_json({"host": host, "action": action, "by": by, "changed": changed})
        return ExitCode.FINISHED
    done = {"pause": "paused", "resume": "resumed", "retire": "retired"}[action]
    if not changed:
        already = "was neither paused nor retired" if action == "resume" else f"was {done} already"
        emit(clean(f"{host} {already}; nothing was changed"))
    else:
        rest = "" if reached is not None else "; that holds when the crawl is resumed"
        emit(clean(f"{host} is {done}{rest}"))
    return ExitCode.FINISHED


async def _decide_running(reached: ReachedCrawl, decision: HostDecision) -> int:
    """Call the owner of the host, again while it does not answer."""
    from lycosa.api.answers import OwnerSilent, ServiceRefusal
    from lycosa.api.service import CrawlService
    from lycosa.serve.api_job import ApiLimits

    service = CrawlService(reached, ApiLimits())
    watching = asyncio.create_task(service.watch.run())
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    told = ""
    try:
        while True:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await service.watch.next_status()
                return (await service.decide_host(decision)).changed
            except ServiceRefusal as error:
                raise click.UsageError(str(error)) from error
            except (OwnerSilent, TimeoutError) as error:
                why = str(error) or "the coordinator does not answer"
                if asyncio.get_running_loop().time() > deadline:
                    raise click.ClickException(
                        f"{why}; the decision may not have been made"
                    ) from error
                if why != told:
                    tell_line(f"{why}; trying again")
                told = why
                await asyncio.sleep(_AGAIN_S)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await reached.close()
