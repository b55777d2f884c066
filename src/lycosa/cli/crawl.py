"""``lycosa crawl``: the main job."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import click

from lycosa.cli.output import ExitCode, clean

_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+-]*:(?!\d)", re.IGNORECASE)  # mailto:..., and not host:port
_EPILOG = """
\b
Examples:
  lycosa crawl https://example.org/                      one host, into crawls/example.org
  lycosa crawl https://example.org/docs/ --scope prefix  one folder of it
  lycosa crawl --seeds seeds.txt --dir news --scope site --max-depth 3 --contact https://you.example/bot
  lycosa crawl --dir news                                goes on where it stopped
  lycosa crawl http://shop.test:8080/ --resolve 'shop.test=127.0.0.1' --allow-address 127.0.0.0/8

Ctrl-C once finishes what is in flight; twice breaks it off. Either way the same command goes on later.

\b
Exit codes: 0 finished, 1 internal error, 2 bad usage or settings, 3 stopped by a limit,
            4 interrupted and resumable, 5 nothing could be fetched
"""


@click.command("crawl", epilog=_EPILOG, short_help="Crawl from seeds; the same folder again resumes.")
@click.argument("seeds", nargs=-1, metavar="SEED...")
@click.option("--seeds", "seed_file", metavar="FILE|-", help="File with one seed a line (# comments); - is standard input.")
@click.option("--dir", "folder", type=click.Path(path_type=Path, file_okay=False), help="Crawl folder [crawls/HOST of the first seed].")
@click.option("--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="Settings in TOML; see `lycosa config`.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Any setting; see `lycosa config`.")
@click.option("--scope", type=click.Choice(["host", "site", "prefix", "any"]), help="What belongs to the crawl, from the seeds [host].")
@click.option("--include", multiple=True, metavar="RE", help="Only URLs that match one of these.")
@click.option("--exclude", multiple=True, metavar="RE", help="No URL that matches one of these.")
@click.option("--max-pages", metavar="N", help="Stop after N captures, over the life of the crawl.")
@click.option("--max-depth", metavar="N", help="Links away from a seed.")
@click.option("--max-time", metavar="TIME", help="Stop this run after 90s, 2h, 3d.")
@click.option("--max-bytes", metavar="SIZE", help="Stop after 500MB, 10GB of bodies.")
@click.option("--delay", metavar="TIME", help="Least pause between two requests to a host [1s].")
@click.option("--workers", metavar="N", help="Worker processes [1].")
@click.option("--contact", metavar="URL|EMAIL", help="Whom site owners can ask; goes into User-Agent.")
@click.option("--resolve", multiple=True, metavar="PATTERN=ADDR", help="Address of a name, * wildcards, instead of DNS.")
@click.option("--allow-address", multiple=True, metavar="CIDR", help="Allow a private or special address range.")
@click.option("--requisites", is_flag=True, default=None, help="Also fetch images, scripts and style sheets.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON on standard output.")
def command(seeds: tuple[str, ...], seed_file: str | None, folder: Path | None, as_json: bool, **options: Any) -> None:
    """Crawl web sites politely into WARC, CDXJ and Parquet.

    SEED is where to start. The same --dir again goes on where the crawl stopped, also after a crash; seeds are added. Settings are
    kept with the crawl, and those that would make its state wrong cannot be changed.
    """
    all_seeds = _Seeds(seeds, seed_file)
    sys.exit(run(all_seeds, folder or _default_folder(seeds), options, as_json))


def run(seeds: _Seeds, folder: Path, options: dict[str, Any], as_json: bool) -> ExitCode:
    """Runs the crawl; gives the exit code."""
    from lycosa.cli.crawl_display import Display, refused_lines, summary_lines, summary_values
    from lycosa.clock import SystemClock
    from lycosa.kv.rocks import rocks_opener
    from lycosa.manifest import exists
    from lycosa.session import Session

    settings = _settings(folder, options)
    if not exists(folder) and seeds.are_none:
        raise click.UsageError("no seed given and no crawl in that folder; give a SEED or --seeds FILE")
    with Session(folder, settings.config, rocks_opener(), SystemClock()) as session:
        display = Display(session.folder, session.config, is_new=session.is_new)
        outcome = asyncio.run(_supervise(session, seeds, display))
    code = _exit_code(outcome)
    if as_json:
        click.echo(json.dumps(summary_values(session.folder, outcome, code), indent=2))
    else:
        for line in summary_lines(session.folder, outcome, code):
            click.echo(line)
    for line in refused_lines(outcome):
        click.echo(line, err=True)
    if code is ExitCode.NOTHING_FETCHED:
        from lycosa.cli.crawl_failures import failure_lines

        for line in failure_lines(session.folder):
            click.echo(clean(line), err=True)
    return code


async def _supervise(session: Any, seeds: Iterable[str], display: Any) -> Any:
    from lycosa.supervisor import Supervisor

    supervisor = Supervisor(session, seeds, display.show, display.note)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        display.stopping()
        supervisor.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    limit_s = session.config.limits.max_time_s
    timer = loop.call_later(limit_s, supervisor.reach_time_limit) if limit_s else None
    with display:
        try:
            return await supervisor.run()
        finally:
            if timer is not None:
                timer.cancel()


def _settings(folder: Path, options: dict[str, Any]) -> Any:
    """Settings of this run: the crawl's own from the last run, then file, environment, --set and flags."""
    import os

    import msgspec

    from lycosa.config import LimitSection
    from lycosa.config_sources import load
    from lycosa.session import saved_settings

    names = {
        "scope": "scope.rule",
        "include": "scope.include",
        "exclude": "scope.exclude",
        "max_pages": "limits.max_pages",
        "max_depth": "scope.max_depth",
        "max_time": "limits.max_time_s",
        "max_bytes": "limits.max_bytes",
        "delay": "politeness.delay_s",
        "workers": "workers",
        "contact": "agent.contact",
        "resolve": "dns.pins",
        "allow_address": "fetch.allow_addresses",
        "requisites": "scope.requisites",
    }
    flags = {names[name]: value for name, value in options.items() if name in names and value not in (None, ())}
    saved = saved_settings(folder)
    if saved is not None:
        # Limits are of one run: a crawl that reached one goes on when it is started again without it.
        saved = msgspec.structs.replace(saved, limits=LimitSection())
    return load(options["config_file"], os.environ, options["pairs"], flags, base=saved)


def _exit_code(outcome: Any) -> ExitCode:
    progress = outcome.progress
    if outcome.end == "stopped":
        return ExitCode.INTERRUPTED
    if outcome.end == "limit":
        return ExitCode.LIMIT
    return ExitCode.FINISHED if progress.states.get("fetched") else ExitCode.NOTHING_FETCHED


class _Seeds:
    """Seeds from the command line, then from a file, read as they are needed."""

    def __init__(self, given: tuple[str, ...], file: str | None) -> None:
        self._given = given
        self._file = file
        if file not in (None, "-") and not Path(str(file)).is_file():
            raise click.BadParameter(f"{file}: no such file", param_hint="--seeds")

    @property
    def are_none(self) -> bool:
        """Whether nothing was given, not even a file."""
        return not self._given and self._file is None

    def __iter__(self) -> Iterator[str]:
        yield from (_with_scheme(seed) for seed in self._given)
        if self._file == "-":
            yield from _lines(sys.stdin)
        elif self._file is not None:
            with Path(self._file).open(encoding="utf-8", errors="replace") as file:
                yield from _lines(file)


def _lines(file: IO[str]) -> Iterator[str]:
    for line in file:
        seed = line.strip()
        if seed and not seed.startswith("#"):
            yield _with_scheme(seed)


def _with_scheme(seed: str) -> str:
    """``example.org`` means ``http://example.org/``, as in other tools; where that redirects belongs to the crawl."""
    return seed if "://" in seed or _OTHER_SCHEME.match(seed) else f"http://{seed}"


def _default_folder(seeds: tuple[str, ...]) -> Path:
    if not seeds:
        raise click.UsageError("no folder: give a SEED, or --dir with --seeds")
    host = urlsplit(_with_scheme(seeds[0])).netloc.rpartition("@")[2].replace(":", "_")
    if not host:
        raise click.UsageError(f"{seeds[0]!r} is not a URL: give one such as https://example.org/")
    return Path("crawls") / host
