"""``lycosa check``: what a crawl would do with a URL, and why, without crawling."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from lycosa.cli.check_links import command as links_command
from lycosa.cli.option_sets import option_set
from lycosa.cli.output import ExitCode, clean, emit, emit_json, emit_pairs
from lycosa.cli.run_settings import settings_of_options
from lycosa.cli.setting_options import address_options, config_option, set_option

_EPILOG = """
\b
Examples:
  lycosa check url "HTTP://Example.org:80/a/../b?utm_source=x"
  lycosa check scope --seed https://example.org/docs/ --scope prefix https://example.org/about
  lycosa check robots --robots robots.txt https://example.org/private/
  lycosa check links https://example.org/ --contact you@example.org
"""
_URL_EPILOG = """
\b
Examples:
  lycosa check url "HTTP://Example.org:80/a/../b?utm_source=x"
  lycosa check url --seed https://example.org/ --exclude '/private/' https://example.org/private/x
  lycosa check url --set canonical.sort_query=true "http://example.org/?b=1&a=2" --json

Without --seed only --exclude is checked, not the rest of the scope.
"""
_SCOPE_EPILOG = """
\b
Examples:
  lycosa check scope --seed https://example.org/ https://www.example.org/ https://example.org/a
  lycosa check scope --seed https://example.org/docs/ --scope prefix https://example.org/docs/a
  lycosa check scope --seed http://a.example/ --include '\\.html$' http://a.example/a.html
  lycosa check scope --seed http://a.example/ --surts wanted.surts http://b.example/
  lycosa check scope --seed http://a.example/ --max-depth 3 --depth 4 http://a.example/a
"""
_ROBOTS_EPILOG = """
\b
Examples:
  lycosa check robots --robots robots.txt https://example.org/private/
  curl -s https://a.example/robots.txt | lycosa check robots --robots - https://a.example/
  lycosa check robots --robots robots.txt --agent Googlebot https://example.org/
  lycosa check robots --dir crawls/example.org https://example.org/private/   as stored
  lycosa check robots --fetch https://example.org/private/                    as sent now
"""


_settings_options = option_set(
    config_option,
    set_option,
    click.option(
        "--scope",
        type=click.Choice(["host", "site", "prefix", "page", "surt", "any"]),
        help="Which URLs belong to the crawl [host].",
    ),
    click.option(
        "--surts",
        multiple=True,
        metavar="FILE",
        help="File of SURT prefixes that are in scope too (+) or not (-); may be repeated.",
    ),
    click.option(
        "--include",
        multiple=True,
        metavar="RE",
        help="Accept only URLs that match; may be repeated.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="RE",
        help="Refuse URLs that match; may be repeated.",
    ),
    click.option("--max-depth", metavar="N", help="Maximum number of links from a seed."),
    click.option(
        "--depth",
        type=click.IntRange(0),
        default=1,
        help="Number of links from a seed to the URL [1].",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
)
"""Add the options that decide scope and canonical form, as `lycosa crawl` has them."""


@click.group(
    "check",
    epilog=_EPILOG,
    short_help="The links of a site; what a crawl would do with a URL.",
)
def command() -> None:
    """Check the links of a site, or URLs by the rules of a crawl."""


command.add_command(links_command)


@command.command(
    "url", epilog=_URL_EPILOG, short_help="Canonical form, keys, scope and traps of URLs."
)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--seed",
    "seeds",
    multiple=True,
    metavar="URL",
    help="A seed that the scope depends on; may be repeated.",
)
@click.option("--base", metavar="URL", help="Page on which relative URLs were found.")
@_settings_options
def url_command(
    urls: tuple[str, ...], seeds: tuple[str, ...], base: str | None, as_json: bool, **options: Any
) -> ExitCode:
    """Show what each URL is to a crawl.

    That is its canonical form, host, site, partition, SURT and hash, and whether scope and traps
    accept it.
    """
    return run_urls(urls, seeds, base, as_json, options, in_full=True)


@command.command(
    "scope", epilog=_SCOPE_EPILOG, short_help="Whether URLs belong to a crawl of given seeds."
)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--seed", "seeds", multiple=True, required=True, metavar="URL", help="A seed; may be repeated."
)
@_settings_options
def scope_command(
    urls: tuple[str, ...], seeds: tuple[str, ...], as_json: bool, **options: Any
) -> ExitCode:
    """Show for each URL whether a crawl of the seeds would accept it, or which rule refuses it."""
    return run_urls(urls, seeds, None, as_json, options, in_full=False)


@command.command(
    "robots", epilog=_ROBOTS_EPILOG, short_help="Whether robots.txt allows URLs, and by which line."
)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--robots", "file", metavar="FILE|-", help="Use this file; - reads standard input.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    help="Use the robots.txt that this crawl stored.",
)
@click.option("--fetch", is_flag=True, help="Fetch robots.txt from the server.")
@click.option("--agent", metavar="TOKEN", help="Product token to check for [the crawl's, lycosa].")
@config_option
@set_option
@address_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def robots_command(
    urls: tuple[str, ...],
    file: str | None,
    folder: Path | None,
    fetch: bool,
    agent: str | None,
    as_json: bool,
    **options: Any,
) -> ExitCode:
    """Show for each URL whether robots.txt allows it: rule, line, group, Crawl-delay, Sitemaps.

    There are no requests without --fetch.
    """
    if sum((file is not None, folder is not None, fetch)) != 1:
        raise click.UsageError("no source of robots.txt; give --robots FILE, --dir DIR or --fetch")
    return run_robots(urls, file, folder, agent, as_json, options)


def run_urls(
    urls: Sequence[str],
    seeds: Sequence[str],
    base: str | None,
    as_json: bool,
    options: dict[str, Any],
    *,
    in_full: bool,
) -> ExitCode:
    """Check URLs by the pure rules; the exit code is 2 when one of them is not a URL."""
    from lycosa.inspect.url_check import Checker, check_values

    checker = Checker(_config(options), seeds, time.time())
    checks = [checker.check(url, options["depth"], base) for url in urls]
    if as_json:
        emit_json(
            [{**check_values(each), "would_be_crawled": each.would_be_crawled} for each in checks]
        )
    elif in_full:
        for number, each in enumerate(checks):
            if number:
                emit("")
            _print_url(each)
    else:
        for line in checker.rules():
            emit(f"# {line}")
        for each in checks:
            judged = each.traps if each.scope.verdict == "in" else each.scope
            verdict, why = (
                ("error", each.error) if each.error else (judged.verdict, _reason(judged))
            )
            emit(clean(f"{verdict:<5}  {each.canonical or each.given}  {why}".rstrip()))
    return ExitCode.USAGE if any(each.error for each in checks) else ExitCode.FINISHED


def run_robots(
    urls: Sequence[str],
    file: str | None,
    folder: Path | None,
    agent: str | None,
    as_json: bool,
    options: dict[str, Any],
) -> ExitCode:
    """Check URLs by a robots.txt from a file, a crawl or the server."""
    from lycosa.base.urls.identity import Canonicalizer
    from lycosa.inspect.url_check import check_robots, check_values

    config = _config(options)
    body = None if file is None else _read(file)
    find = _finder(folder, body, file, agent, config)
    checks = []
    for raw in urls:
        url = Canonicalizer(config.canonical).canonical(raw)
        record, source, token = find(url)
        checks.append(check_robots(url, token, record, source, time.time()))
    if as_json:
        emit_json([check_values(each) for each in checks])
        return ExitCode.FINISHED
    for number, each in enumerate(checks):
        if number:
            emit("")
        _print_robots(each)
    return ExitCode.FINISHED


def _finder(
    folder: Path | None, body: bytes | None, file: str | None, agent: str | None, config: Any
) -> Callable[[str], tuple[Any, str, str]]:
    """Return a function that finds the robots.txt for a canonical URL.

    It gives the robots.txt, where that comes from, and the product token to check for.
    """
    from lycosa.inspect.committed_state import read_folder
    from lycosa.inspect.robots_source import of_bytes, of_crawl, of_server
    from lycosa.inspect.saved_settings import load_saved_settings

    if body is not None:
        token = agent or config.agent.product
        record = of_bytes(body, token, time.time())
        return lambda _: (record, "standard input" if file == "-" else str(file), token)
    if folder is not None:
        reader = read_folder(folder)
        own = load_saved_settings(reader).config.agent.product
        return lambda url: (*of_crawl(reader, url, agent or own, own), agent or own)
    token = agent or config.agent.product
    return lambda url: (*of_server(url, token, config), token)


def _config(options: dict[str, Any]) -> Any:
    from lycosa.base.config.sources import load_settings

    flags = settings_of_options(options)
    if options.get("surts"):
        from lycosa.cli.crawl_scope import surt_lines

        flags["scope.surts"] = surt_lines(options["surts"])
    return load_settings(options["config_file"], os.environ, options["pairs"], flags).config


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _reason(judged: Any) -> str:
    return (
        f"{judged.reason}: {judged.meaning} ({judged.rule}: {judged.value})"
        if judged.reason
        else judged.meaning
    )


def _print_url(check: Any) -> None:
    pairs: list[tuple[str, object]] = [("given", check.given)]
    if check.error:
        pairs.append(("error", check.error))
    else:
        pairs += [
            (name, getattr(check, name))
            for name in ("canonical", "host", "site", "partition", "surt", "url_hash", "host_hash")
        ]
        for name in ("scope", "traps"):
            judged = getattr(check, name)
            why = _reason(judged)
            pairs.append((name, f"{judged.verdict}: {why}" if why else judged.verdict))
    emit_pairs(pairs)


def _print_robots(check: Any) -> None:
    rule = f"line {check.line}: {check.rule}" if check.line else ""
    emit_pairs(
        [
            ("url", check.url),
            ("verdict", f"{check.verdict} for {check.agent}: {check.why}"),
            ("rule", rule),
            ("group", f"User-agent: {check.group}" if check.group else ""),
            ("crawl-delay", f"{check.crawl_delay_s:g}s" if check.crawl_delay_s >= 0 else ""),
            ("sitemaps", check.sitemaps),
            *(("stated", each) for each in check.stated),
            ("source", check.source),
            ("version", check.version),
        ]
    )
