"""``lycosa policy``: show, try and change the rules that say when pages are fetched again."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.cli.callable_crawl import (
    change_live_settings,
    crawl_runs,
    remark_options,
    settings_in_force,
)
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, reading_crawl
from lycosa.cli.option_sets import json_option, option_set
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json, emit_table, human_time

if TYPE_CHECKING:
    from lycosa.base.config.sections import RefetchSection
    from lycosa.base.messages.progress import PromiseNote
    from lycosa.inspect.policy_state import PolicyState

_KEY = "refetch.policies"
_WAIT_S = 10.0
_LOOK_S = 0.5

_EPILOG = """
\b
Examples:
  lycosa policy show crawls/news
  lycosa policy test crawls/news https://www.news.example/live/1
  lycosa policy set crawls/news "news.example /live/* every 10m" "news.example daily" "* adaptive"
  lycosa policy set crawls/news rules.txt --why "mail of 3 May"
  lycosa policy set --cluster cluster.toml rules.txt
  lycosa policy set crawls/news --none

\b
A rule is MATCHER POLICY [OPTIONS]; the first that is for a URL counts:
  news.example every 1h            the domain and all hosts below it
  host:www.news.example daily      this host alone
  news.example /archive/* never    path and query, with * for any characters
  re:[?&]page= monthly             a regular expression (RE2), somewhere in the URL
  sitemap:https://news.example/news-*.xml hourly
                                   pages that this sitemap or feed lists
  * adaptive weight=2 min=6h max=30d

Policies: never, every TIME, adaptive, value, hourly, daily, weekly, monthly. A file has one rule on
each line; empty lines and lines that begin with # are left out. The rules replace those before, and
refetch.intervals come after them. Records that have a time already are moved to their new one while
the crawl runs.

\b
Exit codes: 0 done, 1 the crawl does not answer, 2 bad usage or a rule that is not understood
"""


@click.group(
    "policy", epilog=_EPILOG, short_help="Show, try or change when pages are fetched again."
)
def command() -> None:
    """Show, try or change the rules that say when the pages of a crawl are fetched again."""


@command.command("show", cls=CrawlCommand, short_help="The rules, and how far they are applied.")
@crawl_place
@json_option
def show(place: CrawlPlace, as_json: bool) -> int:
    """Show the rules in force, and to how many records they are not applied yet.

    DIR is the crawl folder; leave it out with --cluster.
    """
    from lycosa.base.config.refetch_policies import policy_book
    from lycosa.inspect.policy_state import policy_state

    with reading_crawl(place, tells_age=False) as reader:
        section = settings_in_force(place, reader).config.refetch
        state = policy_state(reader, section)
    rules = policy_book(section).rules
    if as_json:
        emit_json(
            {
                "rule": section.rule.value,
                "rules": [
                    {
                        "setting": each.setting,
                        "line": each.number,
                        "rule": each.text,
                        "policy": each.policy.show(),
                    }
                    for each in rules
                ],
                **_state_values(state),
            }
        )
        return ExitCode.FINISHED
    if rules:
        emit_table(
            ("setting", "line", "rule", "policy"),
            ((each.setting, each.number, clean(each.text), each.policy.show()) for each in rules),
        )
    emit(f"all {'other ' if rules else ''}pages: refetch.rule is {section.rule.value}")
    for line in _state_lines(state):
        emit(clean(line))
    return ExitCode.FINISHED


@command.command("test", cls=CrawlCommand, short_help="Which rule is for URL, and its next fetch.")
@crawl_place
@click.argument("url")
@json_option
def test(place: CrawlPlace, url: str, as_json: bool) -> int:
    """Tell which rule is for URL, where it is, and when the URL is fetched next.

    The crawl need not know URL. DIR is the crawl folder; leave it out with --cluster.
    """
    from lycosa.base.config.refetch_policies import policy_book
    from lycosa.base.urls.identity import InvalidUrl
    from lycosa.inspect.policy_state import due_facts, mark_in, rule_facts, shown_rule

    with reading_crawl(place, needs_all=False) as reader:
        saved = settings_in_force(place, reader)
        try:
            name = saved.canonicalizer.canonical(url)
        except InvalidUrl as error:
            raise click.UsageError(f"{url}: {error}") from error
        section, due = saved.config.refetch, due_facts(reader, name, time.time())
        facts = rule_facts(section, name, mark_in(reader, name))
    may_be_listed = not due["state"] and policy_book(section).names_sitemaps
    if as_json:
        emit_json({"url": name, **facts, **due})
        return ExitCode.FINISHED
    emit(clean(f"{name}: {shown_rule(facts)}"))
    if not due["state"]:
        emit("the crawl does not know this URL")
        if may_be_listed:
            emit("rules by sitemap are left out: whether one lists it is not known")
    elif due["next_due"]:
        emit(f"{due['state']}; due at {human_time(due['next_due'])}")
    else:
        waits = due["state"] == "queued"
        emit(f"{due['state']}; {'it waits in a queue' if waits else 'not due'}")
    return ExitCode.FINISHED


_set_options = option_set(
    crawl_place,
    click.argument("rules", nargs=-1, metavar="[FILE|RULE]..."),
    click.option(
        "--wait",
        "wait_s",
        type=click.FloatRange(min=0),
        default=_WAIT_S,
        metavar="SECONDS",
        help="How long to wait until the rules are applied to the records [10].",
    ),
    click.option("--none", "is_none", is_flag=True, help="Remove all rules."),
    remark_options,
    json_option,
)


@command.command("set", cls=CrawlCommand, short_help="Replace the rules.")
@_set_options
def set_(
    place: CrawlPlace,
    rules: tuple[str, ...],
    wait_s: float,
    is_none: bool,
    why: str,
    by: str,
    as_json: bool,
) -> int:
    """Replace the rules by those of FILE, one on each line, or by RULEs.

    The crawl may be running. DIR is the crawl folder; leave it out with --cluster.
    """
    from lycosa.base.config.fields import fields

    if bool(rules) == is_none:
        raise click.UsageError("give a FILE or RULEs, or --none to remove all")
    texts = tuple(text for each in rules for text in _texts(each))
    if rules and not texts:
        raise click.UsageError("there is no rule in that file; --none removes all rules")
    values = {_KEY: fields()[_KEY].show(texts)}
    change_live_settings(place, values, by, why)
    state = asyncio.run(_applied(place, wait_s))
    if as_json:
        emit_json({"rules": list(texts), "by": by, **_state_values(state)})
        return ExitCode.FINISHED
    emit(f"{counted(len(texts), 'rule')} set" if texts else "all rules removed")
    for line in _state_lines(state):
        emit(clean(line))
    if state.left and not crawl_runs(place):
        emit("the crawl does not run; its next run continues with them")
    return ExitCode.FINISHED


def _texts(given: str) -> list[str]:
    """The rules of a file, or the one that was written."""
    path = Path(given)
    if " " in given and not path.is_file():
        return [given]
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(
            f"{given}: neither a rule (MATCHER POLICY) nor a file that can be read: {error}"
        ) from error
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


async def _applied(place: CrawlPlace, wait_s: float) -> PolicyState:
    """How far the rules are applied after ``wait_s``; a stopped crawl applies them here."""
    deadline = time.monotonic() + wait_s
    if not crawl_runs(place):
        from lycosa.processes.callable_folder import open_stopped_folder

        async with open_stopped_folder(place.folder) as crawl:
            await crawl.apply_policies(wait_s)
    while True:
        state = await asyncio.to_thread(_present_state, place)
        if not state.left or time.monotonic() >= deadline or not crawl_runs(place):
            return state
        await asyncio.sleep(_LOOK_S)


def _present_state(place: CrawlPlace) -> PolicyState:
    from lycosa.inspect.policy_state import policy_state

    with reading_crawl(place, tells_age=False) as reader:
        section: RefetchSection = settings_in_force(place, reader).config.refetch
        return policy_state(reader, section)


def _state_values(state: PolicyState) -> dict[str, Any]:
    return {
        "records_left": state.left,
        "records_moved": state.moved,
        "promises": [
            {"host": each.host, "promised_per_day": each.promised, "turns_per_day": each.turns}
            for each in state.promises
        ],
    }


def _state_lines(state: PolicyState) -> list[str]:
    lines = []
    if state.left:
        lines.append(
            f"not applied yet to {counted(state.left, 'record')}; `lycosa policy show` tells how"
            " many are left"
        )
    elif state.moved:
        lines.append(f"applied: {counted(state.moved, 'record')} got another time")
    lines += [promise_line(each) for each in state.promises]
    return lines


def promise_line(note: PromiseNote) -> str:
    """What a host cannot keep."""
    return (
        f"{note.host} cannot keep its promises: its pages were promised {note.promised:,.0f}"
        f" fetches a day, and it has {note.turns:,.0f} turns at its delay"
    )
