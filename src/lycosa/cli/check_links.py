"""``lycosa check links``: what the links of a site lead to, as a report for people and programs."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.cli.link_check_options import (
    CheckRefused,
    check_start,
    config_of_check,
    names_crawler,
    options_of_check,
    place_of_check,
)
from lycosa.cli.output import ExitCode, clean, emit
from lycosa.cli.setting_options import (
    address_options,
    config_option,
    limit_options,
    set_option,
)

if TYPE_CHECKING:
    from lycosa.base.config.sections import Config
    from lycosa.inspect.linked.link_findings import LinkReport
    from lycosa.processes.embedded_crawl import Crawl, Report
    from lycosa.processes.link_checks.check_folder import CheckFolder
    from lycosa.processes.link_checks.site_check import SiteCheckOptions

_FORMATS = ("text", "html", "csv", "json", "junit", "sarif")
_CUT_SHORT = (ExitCode.INTERRUPTED, ExitCode.NOTHING_FETCHED)
_CHECK_COMMAND = "add to this command"
_EPILOG = """
\b
Examples:
  lycosa check links https://example.org/ --contact you@example.org
  lycosa check links https://example.org/ --no-external          links of the site to itself
  lycosa check links https://example.org/ --contact you@example.org --output report.html
  lycosa check links https://example.org/docs/ --scope prefix --no-external --format sarif
  lycosa check links crawls/example.org --contact you@example.org   a crawl that exists
  lycosa check links https://example.org/ --no-external --since last   only what is new
  lycosa check links http://localhost:8000/ --no-external --delay 0 --allow-address 127.0.0.1

Pages of the site are crawled; images, scripts and links to other sites are asked for once, each by
a GET that is cut after 64 KB, within robots.txt and the delay of each host. What robots.txt forbids
and what answers 429 or 503 is reported as not checked, never as broken. Answers about single URLs
are used again for a day; the pages of the site are fetched again each time.

\b
Exit codes: 0 no broken links, 7 broken links (new ones with --since), 2 bad usage or settings,
            3 stopped by a limit, 4 interrupted (the same command resumes), 5 nothing could be
            fetched

`lycosa docs check-links` has the rules with their severities, and recipes for CI.
"""


@click.command(
    "links", epilog=_EPILOG, short_help="Broken links of a site, or of a crawl, as a report."
)
@click.argument("given", nargs=-1, required=True, metavar="URL...|DIR")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the check [link-checks/HOST of the first URL].",
)
@click.option(
    "--contact",
    metavar="URL|EMAIL",
    help="Where owners of the other sites can reach you; part of User-Agent.",
)
@click.option("--no-external", is_flag=True, help="Do not check links to other sites.")
@click.option("--no-fragments", is_flag=True, help="Do not check places in pages (#...).")
@click.option("--no-fetch", is_flag=True, help="Report what the folder has; nothing is requested.")
@click.option(
    "--scope",
    type=click.Choice(["host", "site", "prefix", "page"]),
    help="Which pages have the links that are checked, relative to the URLs given [host].",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="RE",
    help="Neither request nor report URLs that match; may be repeated.",
)
@click.option(
    "--allow-status",
    "allowed",
    multiple=True,
    metavar="N,...",
    help="Statuses that count as fine, as 403,999.",
)
@click.option(
    "--severity",
    "severities",
    multiple=True,
    metavar="RULE=WORD",
    help="error, warning, unchecked or off for a rule; may be repeated.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    help="What gives the exit code 7 [error].",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    help="Format of the report [text, or by the name of --output].",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report to FILE: .txt, .html, .csv, .json, .xml (JUnit), .sarif; may be"
    " repeated.",
)
@click.option(
    "--since",
    metavar="last|TIME|FILE",
    help="Report only what an earlier report does not have: the last one of the folder, the newest"
    " up to a time, or a JSON report.",
)
@click.option(
    "--reuse",
    metavar="TIME",
    default="1d",
    help="How long answers about single URLs are used again [1d].",
)
@limit_options
@click.option("--max-depth", metavar="N", help="Maximum number of links from a URL given.")
@click.option(
    "--delay",
    metavar="TIME",
    help="Minimum pause between two requests to the site [1s]; other sites have 1s.",
)
@config_option
@set_option
@address_options
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
def command(given: tuple[str, ...], folder: Path | None, **options: Any) -> ExitCode:
    """Check the links of the pages at URL and below, or of the crawl in DIR.

    It finds pages that are not there, servers that do not answer, loops of redirects and redirects
    that end nowhere, missing places in pages (#...), missing images, scripts and style sheets,
    references that are no URLs, pages that moved for good, and what differs between the site and
    its sitemap. Each finding has its page and line.
    """
    from lycosa.processes.link_checks.check_folder import BadReport

    try:
        return _run(given, folder, options)
    except (BadReport, CheckRefused) as error:
        raise click.UsageError(str(error)) from error


def _run(given: tuple[str, ...], folder: Path | None, options: dict[str, Any]) -> ExitCode:
    from lycosa.state.folder.lock import CrawlLock

    checked = options_of_check(options)
    place, seeds = place_of_check(given, folder)
    config, others = (config_of_check(place, options, is_site=each) for each in (True, False))
    if checked.checks_others and checked.may_fetch and not names_crawler(config):
        raise CheckRefused(
            "links to other sites are requested only with a contact, so that their owners can reach"
            " you: add --contact URL|EMAIL, or --no-external to check the site's own links"
        )
    check_start(place, seeds, config, checked.may_fetch)
    place.root.mkdir(parents=True, exist_ok=True)
    with CrawlLock(place.root).acquire(time.time()):
        earlier = place.earlier(options["since"]) if options["since"] else None
        run = _Run(place, (config, others), checked)
        if not seeds and not place.is_given:
            seeds = place.seeds
        report = run.check(seeds)
        if run.end not in _CUT_SHORT and report.counts.pages:
            # otherwise the next comparison would find everything new
            place.save_report(report)
    if earlier is not None:
        from lycosa.inspect.linked.link_findings import new_since

        report = new_since(report, earlier)
    _write(report, options)
    return _exit_code(report, run, options["fail_on"])


class _Run:
    """One run of the check, with its crawls, their progress, and the signals that stop them."""

    def __init__(
        self, place: CheckFolder, configs: tuple[Config, Config], options: SiteCheckOptions
    ) -> None:
        from lycosa.processes.run_limits import seconds_left

        self._place, self._options = place, options
        self._config, self._others = configs
        self._began = time.time()
        # Once: a time of day means tomorrow as soon as it has come, and there are several crawls.
        self._ends = self._began + seconds_left(self._config.limits)
        self._is_stopped = False
        self._opening: list[str] = []
        self.end = ExitCode.FINISHED

    def check(self, seeds: list[str]) -> LinkReport:
        """Crawl, ask, judge."""
        from lycosa.base.system.software import SOFTWARE
        from lycosa.cli.crawl_reading import ProgressLine
        from lycosa.processes.link_checks.site_check import SiteCheck

        stopped = "" if self._place.is_given else self._crawl_site(seeds)
        line = ProgressLine()
        check = SiteCheck(
            self._place.pages,
            self._place.root,
            self._config,
            self._others,
            self._options,
            self._run_crawl,
            lambda done, total: line.show(f"reading pages: {done:,} of {total:,}"),
        )
        try:
            report = check.report(seeds or [str(self._place.pages)], SOFTWARE, self._began, stopped)
        finally:
            line.clear()
        if report.stopped and self.end is ExitCode.FINISHED:
            self.end = ExitCode.INTERRUPTED if self._is_stopped else ExitCode.LIMIT
        return report

    def _crawl_site(self, seeds: list[str]) -> str:
        """Crawl the pages of the site; returns why that ended early, or an empty text."""
        from lycosa.base.model.end import End
        from lycosa.processes.link_checks.site_check import reached_limit

        if not self._options.may_fetch:
            return ""
        is_resumed = self._place.begin(seeds)
        verb = "resuming the check in" if is_resumed else "checking, with the folder"
        self._opening = [f"{verb} {self._place.root}"]
        report = self._run_crawl(seeds, self._place.pages, self._config, "crawling the site")
        if report is None or report.end is End.STOPPED:
            self.end = ExitCode.INTERRUPTED
            return "it was interrupted"
        self._place.note_complete()
        if report.end is End.LIMIT:
            self.end = ExitCode.LIMIT
            return reached_limit(self._config.limits)
        if not report.progress.captures:
            self.end = ExitCode.NOTHING_FETCHED
            for reason in report.reasons:
                _tell(reason.replace(_crawl_command(self._place.pages), _CHECK_COMMAND))
            return "nothing could be fetched"
        return ""

    def _run_crawl(
        self, seeds: Sequence[str], folder: Path, config: Config, what: str
    ) -> Report | None:
        """Run one of the crawls; ``None`` when a signal came before."""
        from lycosa.cli.crawl_display import Display
        from lycosa.processes.embedded_crawl import Crawl

        if self._is_stopped:
            return None
        config = self._with_rest(config, folder)
        opening = self._opening or [f"lycosa: {what}"]
        display = Display(str(self._place.root), opening)
        display.state = what
        self._opening = []
        crawl = Crawl(seeds, folder, config, on_progress=display.show_progress)
        with display, self._stopping(crawl, display.show_line):
            return crawl.run()

    def _with_rest(self, config: Config, folder: Path) -> Config:
        """The settings with what is left of the limits of the check for its crawl in a folder."""
        import msgspec

        from lycosa.processes.run_limits import folder_bytes

        limits = msgspec.structs.replace(config.limits, until="")
        if self._ends < inf:
            limits = msgspec.structs.replace(limits, max_time_s=max(self._ends - time.time(), 0.1))
        if most := limits.max_disk_bytes:
            others = folder_bytes(self._place.root) - folder_bytes(folder)
            limits = msgspec.structs.replace(limits, max_disk_bytes=max(most - others, 1))
        return msgspec.structs.replace(config, limits=limits)

    @contextmanager
    def _stopping(self, crawl: Crawl, say: Callable[[str], None]) -> Iterator[None]:
        """Signals stop the crawl: requests in flight finish. A second one ends the command."""

        def stop(number: int, _: object) -> None:
            if self._is_stopped:
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            self._is_stopped = True
            say("finishing requests in flight; press Ctrl-C again to abort")
            crawl.stop()

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _write(report: LinkReport, options: dict[str, Any]) -> None:
    """Write the files, and the report or one line about it on standard output."""
    from lycosa.base.system.durable import replace_file
    from lycosa.inspect.linked.report_files import SUFFIXES, written
    from lycosa.inspect.linked.report_texts import summary_line

    outputs: Sequence[Path] = options["outputs"]
    for file in outputs:
        form = options["form"] or SUFFIXES[file.suffix.lower()]
        replace_file(file, written(report, form).encode("utf-8", "backslashreplace"))
    if outputs:
        emit(clean(summary_line(report)))
    else:
        for line in written(report, options["form"] or "text").splitlines():
            emit(line)


def _exit_code(report: LinkReport, run: _Run, fail_on: str) -> ExitCode:
    from lycosa.inspect.linked.link_findings import Severity

    if run.end in _CUT_SHORT:
        return run.end
    failing = {"error": [Severity.ERROR], "never": []}.get(
        fail_on, [Severity.ERROR, Severity.WARNING]
    )
    if any(report.number(each) for each in failing):
        return ExitCode.BROKEN_LINKS
    return run.end


def _crawl_command(pages: Path) -> str:
    """The command that the reasons of a crawl advise; here it is another one."""
    return f"lycosa crawl --dir {shlex.quote(str(pages))}"


def _tell(text: str) -> None:
    click.echo(clean(f"lycosa: {text}"), err=True)
