"""``lycosa host``: pause, resume and retire hosts, of a running crawl or of one that is stopped."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from lycosa.cli.cluster_parts import tell_line
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json, human_duration
from lycosa.cli.remarks import remark_options
from lycosa.cli.running_crawl import running_crawl

if TYPE_CHECKING:
    from lycosa.base.calls import HostDecision
    from lycosa.service.api.places import ReachedCrawl

_PATIENCE_S = 60.0
_AGAIN_S = 1.0
_SHOWN = 10  # hosts whose queues are shown
_READING_S = 1.0  # for one question about a stopped crawl


class _Reach(msgspec.Struct, frozen=True):
    """Which hosts a decision may be about, and the form of the answer."""

    is_site: bool = False
    is_new: bool = False
    as_json: bool = False


_EPILOG = """
\b
Examples:
  lycosa host pause crawls/news www.example.org --why "mail of 3 May"
  lycosa host retire crawls/news www.example.org       never request it again
  lycosa host resume crawls/news www.example.org
  lycosa host delay crawls/news www.example.org 10s    or default: as all hosts
  lycosa host pause crawls/news https://www.example.org/page --site
  lycosa host pause www.example.org --cluster cluster.toml

\b
A site owner complains:
  lycosa host pause DIR HOST                nothing is requested from it from now on
  lycosa audit DIR                          whether its delays and its robots.txt were kept
  lycosa host retire DIR HOST --why "..."   for good; or resume, with other settings

HOST is a name, with a port unless it is the default one (www.example.org, localhost:8080), or a
URL of the host. A host that the crawl does not know is refused, with similar names that it knows.
--site decides about all hosts of the site that are known now; hosts that are found later are not
among them. The decision is committed with your name and the time; `lycosa explain` and the log of
actions show it.

\b
Exit codes: 0 done (also when the host was in that state already), 1 the crawl does not answer,
            2 bad usage, or a host that the crawl does not know
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
    @click.option("--site", "is_site", is_flag=True, help="All known hosts of the site of HOST.")
    @click.option("--new", "is_new", is_flag=True, help="Also a host that the crawl has not met.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
    def decide(
        folder: Path,
        cluster: Path | None,
        cache: Path | None,
        host: str,
        why: str,
        by: str,
        **reach: bool,
    ) -> ExitCode:
        place = CrawlPlace(folder, cluster, cache)
        return run(place, name, host, (why, by), _Reach(**reach))

    decide.help = f"{text} DIR is the crawl folder; leave it out with --cluster."


_decision("pause", "Request nothing from HOST until it is resumed.")
_decision("resume", "End the pause or the retirement of HOST.")


@command.command("delay", cls=CrawlCommand, short_help="Wait at least TIME between two requests.")
@crawl_place
@click.argument("host")
@click.argument("time_", metavar="TIME")
@remark_options
@click.option("--site", "is_site", is_flag=True, help="All known hosts of the site of HOST.")
@click.option("--new", "is_new", is_flag=True, help="Also a host that the crawl has not met.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def delay(
    folder: Path,
    cluster: Path | None,
    cache: Path | None,
    host: str,
    time_: str,
    why: str,
    by: str,
    **reach: bool,
) -> ExitCode:
    """Wait at least TIME (10s, 2m) between two requests to HOST, or as for all hosts (default).

    It takes the place of politeness.delay_s for this host, from its next request on. Longer pauses
    that its server asks for are kept. DIR is the crawl folder; leave it out with --cluster.
    """
    from lycosa.base.calls import LONGEST_DELAY_S
    from lycosa.base.config.units import read_seconds

    try:
        delay_s = -1.0 if time_ == "default" else read_seconds(time_)
    except ValueError as error:
        raise click.UsageError(f"TIME: {error}; or default") from error
    if delay_s > LONGEST_DELAY_S:
        raise click.UsageError(f"TIME: {time_} is too long, write at most 1d; or pause the host")
    place = CrawlPlace(folder, cluster, cache)
    return run(place, "delay", host, (why, by), _Reach(**reach), delay_s)


_decision("retire", "Never request HOST again; its waiting URLs are refused.")


class _Decided(msgspec.Struct, frozen=True):
    """The result of a decision: its hosts, and the row of the first ones as it is now."""

    changed: int
    hosts: list[str]
    rows: list[dict[str, Any]]


def run(
    place: CrawlPlace,
    action: str,
    host: str,
    remark: tuple[str, str],
    reach: _Reach,
    delay_s: float = -1.0,
) -> ExitCode:
    """Carry out the decision; returns the exit code."""
    from lycosa.base.calls import HostAction, HostDecision
    from lycosa.base.urls.near_hosts import HostUnknown

    why, by = remark
    call = f"lycosa host {uuid.uuid4().hex}"
    decision = HostDecision(
        call, by, host, HostAction(action), why, reach.is_site, reach.is_new, delay_s
    )
    reached = running_crawl(place)
    try:
        if reached is not None:
            decided = asyncio.run(_decide_running(reached, decision))
        else:
            decided = asyncio.run(_decide_stopped(place.folder, decision))
    except HostUnknown as error:
        advice = "; --new decides about a host before the crawl meets it"
        raise click.UsageError(f"{error}{advice if action != 'resume' else ''}") from error
    if reach.as_json:
        named = decided.hosts[0] if decided.hosts else host
        emit_json(
            {"host": named, "action": action, "by": by, "changed": decided.changed}
            | {"hosts": decided.hosts}
        )
        return ExitCode.FINISHED
    for line in _told(decided, decision, reached is not None):
        emit(clean(line))
    return ExitCode.FINISHED


def _told(decided: _Decided, decision: HostDecision, is_running: bool) -> Iterator[str]:
    """What was done, and what waits at each host."""
    action = decision.action.value
    delayed = (
        f"requested at most once in {human_duration(decision.delay_s)}"
        if decision.delay_s >= 0
        else "requested at the delay of all hosts"
    )
    done = {"pause": "paused", "resume": "resumed", "retire": "retired", "delay": delayed}[action]
    hosts = decided.hosts
    named = hosts[0] if len(hosts) == 1 else counted(len(hosts), "host")
    if not decided.changed:
        already = "was neither paused nor retired" if action == "resume" else f"was {done} already"
        yield f"{named} {already}; nothing was changed"
    else:
        some = "" if decided.changed >= len(hosts) else f" ({decided.changed} of them only now)"
        rest = "" if is_running else "; the crawl does not run, and keeps this for its next runs"
        yield f"{named} {'is' if len(hosts) == 1 else 'are'} {done}{some}{rest}"
    for row in decided.rows:
        waiting = counted(row["waiting"] + row["parked"], "URL")
        last = max((fetch["fetched_at"] for fetch in row["fetches"]), default=0)
        fetched = (
            f"last fetch {human_duration(time.time() - last)} ago" if last else "never fetched"
        )
        yield f"  {row['host']}: {waiting} in its queue, {fetched}"
    if len(decided.rows) < len(hosts):
        yield f"  and {len(hosts) - len(decided.rows)} more: lycosa status DIR --hosts lists them"


async def _decide_stopped(folder: Path, decision: HostDecision) -> _Decided:
    """Carry out the decision in a separate run, and read the result."""
    from lycosa.base.calls import Found, HostQuery
    from lycosa.inspect.committed_state import read_folder
    from lycosa.inspect.known_hosts import check_known
    from lycosa.inspect.queries.answering import StateAnswers
    from lycosa.inspect.queries.time_budget import TimeBudget
    from lycosa.inspect.saved_settings import load_saved_settings
    from lycosa.processes.host_run import decide_host

    answer = await decide_host(folder, decision)
    reader, answers = read_folder(folder), StateAnswers()
    if not answer.hosts:
        check_known(reader, load_saved_settings(reader).canonicalizer.host_named(decision.host))
    rows = []
    for host in (answer.hosts or [])[:_SHOWN]:
        partition = reader.partition_of(f"http://{host}/")
        budget = TimeBudget(_READING_S)
        reply = answers.answer(reader.source, partition, HostQuery(host), budget)
        assert isinstance(reply, Found), reply
        rows += msgspec.json.decode(reply.rows, type=list[dict[str, Any]])
    return _Decided(answer.changed, answer.hosts or [], rows)


async def _decide_running(reached: ReachedCrawl, decision: HostDecision) -> _Decided:
    """Call the owner of the host, again while it does not answer."""
    from lycosa.service.api.answers import OwnerSilent, ServiceRefusal
    from lycosa.service.api.api_job import ApiLimits
    from lycosa.service.api.service import CrawlService

    service = CrawlService(reached, ApiLimits())
    watching = asyncio.create_task(service.watch.run())
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    told = ""
    try:
        while True:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await service.watch.next_status()
                answer = await service.decide_host(decision)
                hosts = answer.hosts or [service.addressing.host(decision.host)]
                rows = [await service.host(host) for host in hosts[:_SHOWN]]
                return _Decided(answer.changed, hosts, [row for row in rows if row is not None])
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
