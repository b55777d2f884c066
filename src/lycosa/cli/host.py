"""``lycosa host``: shows, pauses, resumes and retires hosts of a crawl, running or stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from lycosa.cli.callable_crawl import callable_crawl, crawl_runs, operator_decisions, remark_options
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, reading_crawl
from lycosa.cli.option_sets import json_option, option_set
from lycosa.cli.output import (
    ExitCode,
    clean,
    counted,
    emit,
    emit_json,
    emit_pairs,
    human_duration,
)

if TYPE_CHECKING:
    from lycosa.base.calls import HostDecision

_SHOWN = 10  # hosts whose queues are shown


class _Given(msgspec.Struct, frozen=True):
    """The arguments and options of a decision: the crawl, the host, who decides."""

    place: CrawlPlace
    host: str
    why: str
    by: str
    is_site: bool
    is_new: bool
    as_json: bool


_EPILOG = """
\b
Examples:
  lycosa host pause crawls/news www.example.org --why "mail of 3 May"
  lycosa host retire crawls/news www.example.org       never request it again
  lycosa host resume crawls/news www.example.org
  lycosa host delay crawls/news www.example.org 10s    or default: as all hosts
  lycosa host pause crawls/news https://www.example.org/page --site
  lycosa host show crawls/news www.example.org         also which URLs are set back as near copies
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


@click.group("host", epilog=_EPILOG, short_help="Show, pause, resume or retire a host of a crawl.")
def command() -> None:
    """Show a host of a crawl or decide about it; the crawl may be running."""


_options = option_set(
    remark_options,
    click.option("--site", "is_site", is_flag=True, help="All known hosts of the site of HOST."),
    click.option("--new", "is_new", is_flag=True, help="Also a host that the crawl has not met."),
    json_option,
)


def _decision(name: str, text: str) -> None:
    """Add the command for one decision."""

    @command.command(name, cls=CrawlCommand, short_help=text)
    @crawl_place
    @click.argument("host")
    @_options
    def decide(**given: Any) -> ExitCode:
        return run(name, _Given(**given))

    decide.help = f"{text} DIR is the crawl folder; leave it out with --cluster."


_decision("pause", "Request nothing from HOST until it is resumed.")
_decision("resume", "End the pause or the retirement of HOST.")


@command.command("delay", cls=CrawlCommand, short_help="Wait at least TIME between two requests.")
@crawl_place
@click.argument("host")
@click.argument("time_", metavar="TIME")
@_options
def delay(time_: str, **given: Any) -> ExitCode:
    """Wait at least TIME (10s, 2m) between two requests to HOST, or as for all hosts (default).

    It takes the place of politeness.delay_s for this host, from its next request on. Longer pauses
    that its server asks for are kept. DIR is the crawl folder; leave it out with --cluster.
    """
    from lycosa.base.calls import read_delay

    try:
        delay_s = read_delay(time_)
    except ValueError as error:
        raise click.UsageError(f"TIME: {error}") from error
    return run("delay", _Given(**given), delay_s)


_decision("retire", "Never request HOST again; its waiting URLs are refused.")


@command.command("show", cls=CrawlCommand, short_help="What is known of HOST and its near copies.")
@crawl_place
@click.argument("host")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def print_host(place: CrawlPlace, host: str, as_json: bool) -> ExitCode:
    """Show what is known of HOST, and which of its URLs are set back as near copies.

    HOST is a name, or a URL of the host. URLs are set back when pages with the same pattern were
    near copies of others, or when they differ from a known URL only in parameters that changed no
    content. DIR is the crawl folder; leave it out with --cluster.
    """
    from lycosa.base.urls.near_hosts import HostUnknown
    from lycosa.inspect.known_hosts import known_host
    from lycosa.inspect.queries.host_rows import whole_host
    from lycosa.inspect.saved_settings import load_saved_settings

    with reading_crawl(place, needs_all=False) as reader:
        saved = load_saved_settings(reader)
        try:
            found = known_host(reader, saved.canonicalizer.host_named(host))
        except (HostUnknown, ValueError) as error:
            raise click.UsageError(str(error)) from error
        with reader.partition_view(found.partition) as view:
            row = whole_host(reader, view, found, saved, time.time())
    if as_json:
        emit_json(row)
    else:
        _tell(row)
    return ExitCode.FINISHED


def _tell(row: dict[str, Any]) -> None:
    emit(clean(f"{row['host']}: {row['state']}{', ' if row['meaning'] else ''}{row['meaning']}"))
    names = ("waiting", "retrying", "parked", "captures", "errors", "discovered", "address")
    emit_pairs([(name, row[name]) for name in names], indent="  ")
    copies = row["copies"]
    if not copies:
        emit("no page of it was a near copy")
        return
    emit("nothing is set back: the settings say so" if copies["exempt"] else "near copies:")
    for each in copies["patterns"]:
        told = "set back" if each["set_back"] else "not set back"
        emit(clean(f"  {each['pattern']}  {each['copies']:g} of {each['pages']:g} pages, {told}"))
    for each in copies["parameters"]:
        pairs = f"{each['same']:g} of {each['same'] + each['other']:g} pairs of URLs had one text"
        told = "learned: it changes no content" if each["learned"] else "not learned"
        emit(clean(f"  parameter {each['name']}  {pairs}, {told}"))


class _Decided(msgspec.Struct, frozen=True):
    """The result of a decision: its hosts, and the row of the first ones as it is now."""

    changed: int
    hosts: list[str]
    rows: list[dict[str, Any]]


def run(action: str, given: _Given, delay_s: float = -1.0) -> ExitCode:
    """Carry out the decision; returns the exit code."""
    from lycosa.base.calls import HostAction, HostDecision, new_call
    from lycosa.base.urls.near_hosts import HostUnknown

    decision = HostDecision(
        new_call("lycosa host"),
        given.by,
        given.host,
        HostAction(action),
        given.why,
        given.is_site,
        given.is_new,
        delay_s,
    )
    try:
        decided = asyncio.run(_decide(given.place, decision))
    except HostUnknown as error:
        advice = "; --new decides about a host before the crawl meets it"
        raise click.UsageError(f"{error}{advice if action != 'resume' else ''}") from error
    if given.as_json:
        named = decided.hosts[0] if decided.hosts else given.host
        emit_json(
            {"host": named, "action": action, "by": given.by, "changed": decided.changed}
            | {"hosts": decided.hosts}
        )
        return ExitCode.FINISHED
    for line in _told(decided, decision, crawl_runs(given.place)):
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
        stated = "".join(f", {label} in {n}" for label, n in row.get("preferences", {}).items())
        trust = row.get("validators") or {}
        doubted = "" if trust.get("believed", True) else ", its validators are not believed"
        yield f"  {row['host']}: {waiting} in its queue, {fetched}{stated}{doubted}"
    if len(decided.rows) < len(hosts):
        yield f"  and {len(hosts) - len(decided.rows)} more: lycosa status DIR --hosts lists them"


async def _decide(place: CrawlPlace, decision: HostDecision) -> _Decided:
    """Have the owner of the host carry out the decision, and read what came of it."""
    from lycosa.service.api.answers import OwnerSilent, ServiceRefusal
    from lycosa.service.api.decision_calls import Undecided

    async with callable_crawl(place) as crawl:
        decisions = operator_decisions(crawl)
        try:
            answer = await decisions.decide_host(decision)
            hosts = answer.hosts or [crawl.addressing.host(decision.host)]
            rows = [await decisions.find_host(host) for host in hosts[:_SHOWN]]
        except ServiceRefusal as error:
            raise click.UsageError(str(error)) from error
        except OwnerSilent as error:
            raise Undecided(f"{error}; the decision may not have been made") from error
    return _Decided(answer.changed, hosts, [row for row in rows if row is not None])
