"""``lycosa crawl``: start or resume a crawl."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.cli import crawl_cluster
from lycosa.cli.api_options import api_given, api_options
from lycosa.cli.crawl_feeds import CrawlFeeds, FeedTarget, feed_option, feed_targets
from lycosa.cli.crawl_seeds import CrawlSeeds, default_folder
from lycosa.cli.log_options import log_options
from lycosa.cli.output import ExitCode, Unbroken, clean, emit, emit_json, human_duration
from lycosa.cli.request_options import request_options, rules_given
from lycosa.cli.setting_options import (
    CrawlOptions,
    address_options,
    config_option,
    contact_option,
    delay_option,
    limit_options,
    scope_option,
    set_option,
    words,
)

if TYPE_CHECKING:
    from lycosa.base.config.sections import Config
    from lycosa.base.system.memory_plan import MemoryPlan
    from lycosa.cli.crawl_display import Display
    from lycosa.processes.api_keeper import ApiListener
    from lycosa.processes.session import Session
    from lycosa.processes.supervisor import CrawlOutcome, Supervisor
    from lycosa.service.api.api_job import ApiSettings
    from lycosa.state.ranks.rank_sources import RankSource

_MAX_SHOWN = 10
_NOTED_S = 60.0  # a clock set back by less is not reported
_SMALL = 1000  # failed seeds are searched among this number of URLs
_EPILOG = """
\b
Examples:
  lycosa crawl https://example.org/                      one host, into crawls/example.org
  lycosa crawl https://example.org/docs/ --scope prefix  one folder of that host
  lycosa crawl --seeds seeds.txt --dir news --scope site --contact https://you.example/bot
  lycosa crawl --dir news                                resume that crawl
  lycosa crawl --dir news --continuous                   keep it fresh, until Ctrl-C
  lycosa crawl https://shop.example/ --extension ./shop.py:products   with your own extractor
  lycosa crawl https://intranet.example/ --auth file:login    behind a login, with USER:PASSWORD
  lycosa crawl https://example.org/ --proxy http://10.0.0.1:3128   through a proxy
  lycosa crawl https://example.org/ --feed pages.jsonl   a JSON line for each capture, at once
  lycosa crawl https://example.org/ --cluster cluster.toml   on many machines
  lycosa crawl http://shop.test:8080/ --resolve 'shop.test=127.0.0.1' --allow-address 127.0.0.0/8

The first Ctrl-C (or SIGTERM, SIGHUP) lets requests in flight finish; the second aborts them. In
both cases the same command resumes the crawl. The crawl continues when its output has no reader.

\b
Exit codes: 0 finished, 1 internal error, 2 bad usage or settings, 3 stopped by a limit,
            4 interrupted and resumable, 5 nothing could be fetched, 6 finished, but URLs wait for
            hosts that do not answer, or were retired with them
"""


@click.command(
    "crawl",
    cls=CrawlOptions,
    epilog=_EPILOG,
    short_help="Crawl from seeds; the same folder again resumes.",
)
@click.argument("seeds", nargs=-1, metavar="[SEED]...")
@click.option(
    "--seeds",
    "seed_file",
    metavar="FILE|-",
    help="File with one seed a line (# comments); - reads standard input.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Crawl folder [crawls/HOST of the first seed].",
)
@click.option(
    "--cluster",
    "cluster_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Give the seeds to the crawl of this cluster.toml; see `lycosa cluster`.",
)
@config_option
@set_option
@scope_option
@click.option(
    "--surts",
    multiple=True,
    metavar="FILE",
    help="File of SURT prefixes that are in scope too (+) or not (-); may be repeated.",
)
@click.option(
    "--one-hop-out",
    is_flag=True,
    default=None,
    help="Also fetch pages elsewhere that a page in scope links to, but not their links.",
)
@click.option(
    "--include", multiple=True, metavar="RE", help="Fetch only URLs that match; may be repeated."
)
@click.option(
    "--exclude", multiple=True, metavar="RE", help="Fetch no URLs that match; may be repeated."
)
@limit_options
@click.option(
    "--languages",
    multiple=True,
    callback=lambda _context, _option, given: words(given),
    metavar="CODES",
    help="Follow the links of pages in these languages only, as en,de.",
)
@click.option(
    "--max-depth", metavar="N", help="Maximum number of links from a seed; -1 is no limit."
)
@click.option(
    "--continuous",
    is_flag=True,
    default=None,
    help="Do not end when nothing is left: fetch pages again when they are due, until a signal or a"
    " limit.",
)
@delay_option
@click.option(
    "--refetch",
    metavar="TIME",
    help="Fetch each page again after 20h, 7d; kept with the crawl [when it is worth a request].",
)
@click.option(
    "--extension",
    multiple=True,
    metavar="FILE.py:NAME",
    help="Run this code on fetched pages; may be repeated. A crawl that has extensions is resumed"
    " with them named again.",
)
@click.option(
    "--ranks",
    multiple=True,
    metavar="FILE|FOLDER",
    type=click.Path(path_type=Path, exists=True),
    help="Go by these ranks of hosts or pages: files in the form of Common Crawl's web graphs, a"
    " result of `lycosa rank`, or a crawl that has one. They are kept with the crawl.",
)
@click.option("--workers", metavar="N|auto", help="Worker processes; auto is one per core [1].")
@click.option(
    "--memory",
    metavar="SIZE|auto",
    help="Memory of all processes, such as 4GB; auto is 1.5GB a worker, up to half the machine's.",
)
@contact_option
@address_options
@click.option(
    "--requisites",
    is_flag=True,
    default=None,
    help="Also fetch what pages load: images, scripts, style sheets, frames.",
)
@click.option(
    "--accept",
    multiple=True,
    metavar="TYPES",
    callback=lambda _context, _option, given: words(given),
    help="Fetch media of these types too, and of other files no body: image,video,pdf,image/png;"
    " pages are fetched for their links.",
)
@click.option(
    "--links",
    type=click.Choice(["a", "document", "all"]),
    help="What counts as a link: what visitors follow, other URLs that documents name too, or also"
    " texts that look like URLs, within 5 % of a host's requests [a].",
)
@click.option(
    "--render",
    type=click.Choice(["never", "auto", "always"]),
    help="Let the scripts of pages run in a browser without a network, on what the crawl has"
    " stored: auto renders pages that seem to be empty without them [never].",
)
@click.option(
    "--cookies",
    type=click.Choice(["off", "site"]),
    help="Send cookies back to the site that set them [off].",
)
@click.option(
    "--upload",
    metavar="URL",
    help="Upload closed segments to s3://BUCKET/PREFIX, gs://, az:// or file:///FOLDER.",
)
@click.option(
    "--upload-remove",
    is_flag=True,
    default=None,
    help="Delete local files of a segment after the store is verified to have them.",
)
@click.option(
    "--earlier",
    multiple=True,
    metavar="DIR|FILE",
    help="Do not store bodies again that this earlier crawl has (a crawl folder, a CDXJ file); may"
    " be repeated.",
)
@request_options
@feed_option
@api_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output."
)
@log_options
def command(
    seeds: tuple[str, ...],
    seed_file: str | None,
    folder: Path | None,
    cluster_file: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Crawl web sites politely into WARC, CDXJ and Parquet.

    SEED is a URL to start from; - reads seeds from standard input. The same --dir resumes the
    crawl, also after a crash, and adds new seeds. Settings are kept with the crawl. A setting
    cannot be changed later if that would make the crawl's state wrong.
    """
    all_seeds = CrawlSeeds(seeds, seed_file)
    if cluster_file is not None and options["api_address"]:
        raise click.UsageError(
            "--api belongs to the coordinator of a cluster: lycosa serve --cluster FILE --api"
        )
    api, feeds = api_given(options), feed_targets(options["feeds"], as_json)
    is_taken = any(feed.is_stdout for feed in feeds)
    output = sys.stderr if is_taken else sys.stdout
    with redirect_stdout(Unbroken(output)), redirect_stderr(Unbroken(sys.stderr)):
        if cluster_file is not None:
            crawl_cluster.check_options(folder, options)
            code = crawl_cluster.run(cluster_file, all_seeds, as_json)
        else:
            options["rules"] = rules_given(options, seeds)
            code = run(all_seeds, folder or default_folder(seeds), options, as_json, api, feeds)
        sys.stdout.flush()
    sys.exit(code)


def run(
    seeds: CrawlSeeds,
    folder: Path,
    options: dict[str, Any],
    as_json: bool,
    api: tuple[ApiSettings, ApiListener] | None = None,
    feeds: Sequence[FeedTarget] = (),
) -> ExitCode:
    """Run the crawl; returns the exit code."""
    from lycosa.base.system.memory_plan import memory_plan
    from lycosa.cli.crawl_display import folder_display
    from lycosa.cli.run_settings import crawl_settings
    from lycosa.processes.session import open_session
    from lycosa.state.folder.folder_notes import save_pause, saved_pause

    settings = crawl_settings(folder, options, _tell)
    _check_seeds(seeds, folder, settings.config)
    if settings.config.webhooks.urls:
        from lycosa.feeds.webhook_delivery import refuse_unusable

        refuse_unusable(settings.config.webhooks)
    plan = memory_plan(settings.config)
    if settings.config.upload.url:
        from lycosa.processes.upload_thread import check_place

        check_place(folder, settings.config.upload)
    session = open_session(folder, settings.config)
    session.ranks = _given_ranks(options.get("ranks", ()))
    session.on_locked = lambda: seeds.record_sources(folder)
    with CrawlFeeds(feeds, _tell) as following, session:
        following.start(session.folder, session.config.webhooks)
        display = folder_display(session.folder, session.config, is_new=session.is_new)
        seeds.tell = following.tell = display.show_line
        for file, reason in list(session.recovered.unbuildable.items())[:_MAX_SHOWN]:
            display.show_line(f"{file} is missing and cannot be built: {reason}")
        if unshared := session.share_addresses():
            display.show_line(unshared)
        if uncompared := session.uncompared:
            display.show_line(uncompared)
        if session.clock_set_back_s >= _NOTED_S:
            behind = human_duration(session.clock_set_back_s)
            display.show_line(
                f"the clock is {behind} behind the clock of an earlier run; delays and retries keep"
                " their length"
            )
        if paused := saved_pause(session.folder):
            save_pause(session.folder, None)
            display.show_line(f"{paused}; this command ends the pause")
        try:
            outcome = asyncio.run(_supervise(session, plan, seeds, display, following, api))
        finally:
            seeds.save_positions()
            following.tell = _tell
    seeds.tell = _tell
    return _report(session, outcome, seeds, following.incomplete, as_json)


def _given_ranks(given: Sequence[Path]) -> RankSource | None:
    """The ranks of ``--ranks``."""
    if not given:
        return None
    from lycosa.base.config.sources import SettingsError
    from lycosa.state.ranks.rank_results import RanksError
    from lycosa.state.ranks.rank_sources import given_source

    try:
        return given_source(given)
    except RanksError as error:
        raise SettingsError([f"--ranks: {error}"]) from error


def _check_seeds(seeds: CrawlSeeds, folder: Path, config: Config) -> None:
    """Check, before anything is written, that there is something to crawl.

    A new crawl needs a usable seed. An existing one is not resumed when all seeds that are given to
    it are refused: a user who misspelt a URL would get another crawl, and exit code 0.
    """
    from lycosa.processes.seed_check import SeedCheck
    from lycosa.state.folder import manifest

    is_new = not manifest.has_manifest(folder)
    if is_new and seeds.are_none:
        raise click.UsageError(
            "no seed given and no crawl in that folder; give a SEED or --seeds FILE"
        )
    seeds.judge = SeedCheck(config, time.time()).refusal
    if not is_new:
        seeds.check_given()
    elif not seeds.has_usable():
        raise click.UsageError(seeds.complaint())


def _report(
    session: Session,
    outcome: CrawlOutcome,
    seeds: CrawlSeeds,
    feeds: Sequence[str],
    as_json: bool,
) -> ExitCode:
    """Print the summary on standard output, and errors of seeds on standard error."""
    from lycosa.cli.crawl_seeds import refusal_lines
    from lycosa.cli.crawl_summary import exit_code, files_there, summary_lines, summary_values
    from lycosa.inspect.unfetched import failed_seeds, unfetched_of
    from lycosa.state.folder.seed_sources import unread

    refused = [*seeds.refused, *outcome.refused_seeds]
    files = files_there(session.folder)._replace(feeds=feeds)
    left = unfetched_of(session.folder, time.time())
    code = exit_code(outcome, unread(files.seeds), feeds, left)
    if as_json:
        emit_json(summary_values(session.folder, outcome, code, refused, files, left))
    else:
        for line in summary_lines(session.folder, outcome, code, session.config, files, left):
            emit(clean(line))
    for line in refusal_lines(outcome.refused_seeds):
        _tell(line)
    is_small = outcome.progress.discovered <= _SMALL and not session.recovered.captures
    if code is ExitCode.NOTHING_FETCHED or (
        is_small and any(outcome.progress.states.get(name) for name in ("failed", "retired"))
    ):
        for line in failed_seeds(session.folder):
            _tell(clean(line))
    return code


def _tell(text: str) -> None:
    click.echo(f"lycosa: {text}", err=True)


async def _supervise(
    session: Session,
    plan: MemoryPlan,
    seeds: CrawlSeeds,
    display: Display,
    feeds: CrawlFeeds,
    api: tuple[ApiSettings, ApiListener] | None,
) -> CrawlOutcome:
    from lycosa.processes.called_crawl import CalledCrawl
    from lycosa.processes.socket_folder import SocketFolder
    from lycosa.processes.supervisor import RunRules, Supervisor
    from lycosa.processes.upload_thread import begin_uploads

    with ExitStack() as stack:
        try:
            rules = RunRules(stack.enter_context(SocketFolder()).path)
        except OSError as error:
            if api is not None:
                raise
            why = f"{error.strerror or error}: {error.filename}"
            display.show_line(f"commands cannot call this crawl while it runs ({why})")
            rules = None
        session.tell = display.show_line
        uploads = begin_uploads(session, display.show_line)
        supervisor = Supervisor(
            session, plan, seeds, display.show_progress, display.show_line, uploads, rules
        )
        supervisor.check_feeds = feeds.check
        supervisor.look_at_webhooks = feeds.look_at_webhooks
        if rules is None:
            return await _run_supervisor(session, supervisor, display)
        crawl, folder = session.manifest.crawl, session.folder
        called = CalledCrawl(
            crawl, supervisor, rules.sockets, folder, display.show_line, session.config.render
        )
        supervisor.keep_renderer = called.keep_renderer
        await called.open(*(api or ()))
        if api is not None:
            display.show_line(f"the API and the operator's page are at {api[1].url}")
        try:
            return await _run_supervisor(session, supervisor, display)
        finally:
            await called.close()


async def _run_supervisor(
    session: Session, supervisor: Supervisor, display: Display
) -> CrawlOutcome:
    """Run the crawl under the operator's signals and the time limit."""
    from lycosa.processes.run_limits import RunLimits

    loop = asyncio.get_running_loop()

    def stop() -> None:
        display.show_stopping()
        supervisor.stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # nohup has SIGHUP ignored
        if signal.getsignal(number) is not signal.SIG_IGN or number is signal.SIGINT:
            loop.add_signal_handler(number, stop)
    with display, RunLimits(session.config.limits, session.folder, supervisor.reach_limit):
        return await supervisor.run()
