"""``lycosa scope``: show, try and change which URLs belong to a crawl, also while it runs."""

from __future__ import annotations

from collections.abc import Sequence
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
from lycosa.cli.output import ExitCode, clean, emit, emit_json

if TYPE_CHECKING:
    from lycosa.inspect.queries.scope_trial import ScopeTrial

_EPILOG = """
\b
Examples:
  lycosa scope show crawls/news
  lycosa scope try crawls/news --exclude '/calendar/' --exclude '[?&]sort='
  lycosa scope set crawls/news --surts wanted.surts --why "list of 3 May"
  lycosa scope set crawls/news --surt '-http://(example,news,www,)/archive/' --yes
  lycosa scope set --cluster cluster.toml --one-hop-out
  lycosa scope set crawls/news --no-surts

\b
A SURT prefix is +http://(example,news, for a domain with all hosts below it, or
-http://(example,news,www,)/archive/ for what is not wanted; the longest one of a URL decides. A
file has one on each line; # begins a comment. Options that are given replace the setting as a
whole; --surt, --exclude and --include may be repeated.

A URL that waits is judged again when its turn has come, and is dropped if the scope refuses it. So
`set` tells before it saves how many there are, and asks; --yes does not ask. What was refused
earlier is found again when its page is fetched again.

\b
Exit codes: 0 done, 1 the crawl does not answer, or not saved, 2 bad usage or a rule that is not
understood
"""


@click.group("scope", epilog=_EPILOG, short_help="Show, try or change which URLs belong to it.")
def command() -> None:
    """Show, try or change which URLs belong to a crawl. It may be running."""


_rules = option_set(
    crawl_place,
    click.option(
        "--surts",
        "files",
        multiple=True,
        metavar="FILE",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="File of SURT prefixes; may be repeated.",
    ),
    click.option("--surt", "surts", multiple=True, metavar="PREFIX", help="A SURT prefix."),
    click.option("--no-surts", is_flag=True, help="Remove all SURT prefixes."),
    click.option("--include", multiple=True, metavar="RE", help="Fetch only URLs that match."),
    click.option("--no-include", is_flag=True, help="Remove all patterns of --include."),
    click.option("--exclude", multiple=True, metavar="RE", help="Fetch no URLs that match."),
    click.option("--no-exclude", is_flag=True, help="Remove all patterns of --exclude."),
    click.option("--max-depth", metavar="N", help="Maximum number of links from a seed."),
    click.option(
        "--one-hop-out/--no-hop-out",
        default=None,
        help="Also fetch pages elsewhere that a page in scope links to.",
    ),
    json_option,
)


@command.command("show", cls=CrawlCommand, short_help="The rules in force.")
@crawl_place
@json_option
def show_scope(place: CrawlPlace, as_json: bool) -> int:
    """Show which URLs belong to the crawl.

    DIR is the crawl folder; leave it out with --cluster.
    """
    import msgspec

    from lycosa.inspect.saved_settings import ScopePlaces
    from lycosa.stages.admit.scope import Scope

    with reading_crawl(place, tells_age=False) as reader:
        section = settings_in_force(place, reader).config.scope
        scope = Scope(section, reader.sites.site_of)
        for url in ScopePlaces(reader).all_places():
            scope.add_seed(url)
        lines = scope.rules()
    if as_json:
        emit_json({"settings": msgspec.to_builtins(section), "rules": lines})
    else:
        for line in lines:
            emit(clean(line))
    return ExitCode.FINISHED


@command.command("try", cls=CrawlCommand, short_help="How many waiting URLs a change would drop.")
@_rules
def try_change(place: CrawlPlace, as_json: bool, **given: Any) -> int:
    """Tell how many of the waiting URLs the change would drop. Nothing is changed.

    DIR is the crawl folder; leave it out with --cluster.
    """
    _tell(_tried(place, _values(given)), as_json, False)
    return ExitCode.FINISHED


@command.command("set", cls=CrawlCommand, short_help="Change the rules.")
@remark_options
@click.option("--yes", is_flag=True, help="Do not ask before waiting URLs are dropped.")
@_rules
def set_scope(
    place: CrawlPlace,
    as_json: bool,
    yes: bool,
    why: str,
    by: str,
    **given: Any,
) -> int:
    """Change the rules, after telling how many of the waiting URLs the change drops.

    The crawl may be running. DIR is the crawl folder; leave it out with --cluster.
    """
    values = _values(given)
    trial = _tried(place, values)
    if trial.dropped and not yes:
        click.echo(trial.line(), err=True)
        if not click.confirm("Save the change?", default=False, err=True):
            click.echo("nothing was changed", err=True)
            return ExitCode.INTERNAL
    change_live_settings(place, values, by, why)
    _tell(trial, as_json, True)
    if not as_json and not crawl_runs(place):
        emit("the crawl does not run; its next run goes by this")
    return ExitCode.FINISHED


def _values(given: dict[str, Any]) -> dict[str, str]:
    """The settings that the options give, as text."""
    from lycosa.base.config.fields import fields
    from lycosa.base.config.live_settings import check_live

    lines = [*surt_lines(given["files"]), *given["surts"]]
    lists = {"surts": lines, "include": given["include"], "exclude": given["exclude"]}
    values: dict[str, str] = {}
    for name, texts in lists.items():
        if texts and given[f"no_{name}"]:
            raise click.UsageError(f"--no-{name} removes what the command also gives")
        if texts or given[f"no_{name}"]:
            key = f"scope.{name}"
            values[key] = fields()[key].show(tuple(texts))
    if given["max_depth"] is not None:
        values["scope.max_depth"] = given["max_depth"]
    if given["one_hop_out"] is not None:
        values["scope.one_hop_out"] = str(given["one_hop_out"]).lower()
    if not values:
        raise click.UsageError("give at least one rule, as --exclude RE or --surts FILE")
    check_live(values)
    return values


def surt_lines(paths: Sequence[str | Path]) -> tuple[str, ...]:
    """The SURT prefixes of files. Raises ``click.UsageError``."""
    if not paths:
        return ()
    from lycosa.base.config.surt_prefixes import lines_of_file

    lines: list[str] = []
    for path in paths:
        try:
            lines += lines_of_file(Path(path).read_text("utf-8"))
        except OSError as error:
            raise click.UsageError(f"--surts {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise click.UsageError(f"--surts {path}: this is not text in UTF-8") from error
    return tuple(lines)


def _tried(place: CrawlPlace, values: dict[str, str]) -> ScopeTrial:
    from lycosa.inspect.queries.scope_trial import ScopeJudges, together

    with reading_crawl(place) as reader:
        judges = ScopeJudges(settings_in_force(place, reader).config, values)
        return together(judges.count(view) for view in reader.partition_views())


def _tell(trial: ScopeTrial, as_json: bool, is_set: bool) -> None:
    from lycosa.inspect.queries.scope_trial import trial_values

    if as_json:
        emit_json(trial_values(trial) | {"is_set": is_set})
        return
    emit(("set; " if is_set else "") + trial.line(is_set))
    for reason, number in sorted(trial.reasons.items()):
        emit(f"  {number:,} {reason}")
    for url in trial.examples:
        emit(clean(f"  such as {url}"))
