"""``lycosa shell``: a page as user code gets it, at a Python prompt."""

from __future__ import annotations

import code
import importlib.util
import shlex
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.base.system.private_folder import private_folder
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, reading_crawl
from lycosa.cli.output import ExitCode, clean, emit
from lycosa.cli.setting_options import (
    address_options,
    config_option,
    contact_option,
    set_option,
)

if TYPE_CHECKING:
    from lycosa.base.config.sections import Config
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.stages.extract.stored_document import Document
    from lycosa.state.store.journal_rows import JournalRow

_EPILOG = """
\b
Examples:
  lycosa shell https://shop.example/lamp --contact you@example.org   one page, fetched politely
  lycosa shell crawls/shop.example https://shop.example/lamp         as the crawl stored it
  lycosa shell tests/lamp.html --url https://shop.example/lamp       a file
  lycosa shell crawls/shop.example https://shop.example/lamp -c 'page.select_one("h1").text'

The page has the name `page`: page.select("h1"), page.xpath("//h1"), page.main().markdown,
page.structured(), page.links. A URL is fetched as in a crawl: robots.txt is obeyed and delays are
kept; nothing remains. IPython is used if it is installed.
"""
_HELP = 'page.select("h1")  page.xpath("//h1")  page.main()  page.structured()  page.links'
_REDIRECTS = 5


@click.command(
    "shell",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="A page as your code gets it, at a Python prompt: try selectors.",
)
@click.argument("given", metavar="URL|FILE|DIR")
@click.argument("stored", metavar="[URL]", required=False)
@click.option(
    "--cluster",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read the crawl of this cluster.toml; leave DIR out.",
)
@click.option("--url", "url_of_file", metavar="URL", help="The URL of FILE.")
@contact_option
@address_options
@click.option(
    "-c", "statement", metavar="CODE", help="Run this instead of a prompt, and print its value."
)
@config_option
@set_option
def command(
    given: str,
    stored: str | None,
    cluster: Path | None,
    url_of_file: str | None,
    contact: str | None,
    resolve: tuple[str, ...],
    allow_address: tuple[str, ...],
    statement: str | None,
    config_file: Path | None,
    pairs: tuple[str, ...],
) -> ExitCode:
    """Open a page at a Python prompt: one that is fetched now, a stored one, or a file."""
    if cluster is not None and not stored:
        raise click.UsageError("--cluster FILE needs the URL of a page")
    if stored:
        page = _stored_page(CrawlPlace(Path(given), cluster), stored)
    elif "://" in given:
        page = _fetched_page(given, _settings(config_file, pairs, contact, allow_address, resolve))
    else:
        page = _page_of_file(Path(given), url_of_file)
    lycosa = importlib.import_module("lycosa")  # the package, as users know it

    names = {"page": page, "lycosa": lycosa}
    if statement is not None:
        return _run_statement(statement, names)
    _open_prompt(names, page)
    return ExitCode.FINISHED


def _stored_page(place: CrawlPlace, url: str) -> Document:
    """The newest stored capture of a URL that has a body."""
    with reading_crawl(place, needs_all=False) as reader:
        return _newest(reader, url)


def _newest(reader: CrawlReader, url: str) -> Document:
    from lycosa.base.urls.identity import Canonicalizer
    from lycosa.feeds.extraction.crawl_captures import given_document
    from lycosa.inspect.capture_diff import captures_of_url
    from lycosa.inspect.saved_settings import load_saved_settings
    from lycosa.stages.extract.stored_document import Document
    from lycosa.state.store.journal_rows import UNCHANGED

    canonicalizer = Canonicalizer(load_saved_settings(reader).config.canonical)
    canonical = canonicalizer.canonical(url)
    rows = [row for row in captures_of_url(reader, canonical) if row.revisit != UNCHANGED]
    if not rows:
        raise click.UsageError(
            f"the crawl has no stored page {canonical}; `lycosa explain` says why"
        )
    row: JournalRow = rows[-1]
    read = reader.source.read_record
    return Document(given_document(row, read(row.segment, row.offset), read), canonicalizer)


def _page_of_file(path: Path, url: str | None) -> Document:
    from lycosa.stages.extract.stored_document import document

    if path.is_dir():
        raise click.UsageError(f"{path} is a folder: give the URL of a stored page too")
    return document(path, url=url or f"https://file.invalid/{path.name}")


def _fetched_page(url: str, config: Config) -> Document:
    """Fetch one page in a temporary crawl, whose folder is deleted afterwards."""
    from lycosa.inspect.committed_state import read_folder

    with private_folder("shell") as temporary:
        folder = temporary / "crawl"
        reasons = _crawl_one(url, folder, config)
        target = _last_url(folder)
        if not target:
            # The advice of a crawl names its folder, which does not remain.
            shell = f"lycosa shell {shlex.quote(url)}"
            advice = [each.removeprefix(f"{url}: ") for each in reasons if each.startswith(url)]
            why = "\n".join(advice or reasons) or "the server gave no answer"
            why = why.replace(f"lycosa crawl --dir {shlex.quote(str(folder))}", shell)
            raise NothingFetched(f"{url} was not fetched: {why}")
        page = _newest(read_folder(folder), target)
        page.bytes()  # the folder is deleted
        return page


class StatementFailed(Exception):
    """The statement of ``-c`` raised; the message is the last line of the traceback."""


class NothingFetched(Exception):
    """The page was not fetched; the message has the reasons of the crawl."""


def _settings(
    file: Path | None,
    pairs: tuple[str, ...],
    contact: str | None,
    addresses: tuple[str, ...],
    pins: tuple[str, ...],
) -> Config:
    """The settings for one page: its redirects are followed, and nothing else."""
    import os

    from lycosa.base.config.sources import load_settings

    fixed = {
        "agent.contact": contact,
        "dns.pins": pins or None,
        "fetch.allow_addresses": addresses or None,
        "limits.max_pages": _REDIRECTS,
        "scope.rule": "any",
        "scope.max_depth": 0,
        "sitemaps.follow": False,
        "workers": 1,
    }
    return load_settings(file, os.environ, pairs, fixed).config


def _crawl_one(url: str, folder: Path, config: Config) -> list[str]:
    """Fetch; returns why something was not fetched."""
    from lycosa.processes.embedded_crawl import Crawl

    report = Crawl([url], folder, config).run()
    return [why for _, why in report.refused_seeds] + report.reasons


def _last_url(folder: Path) -> str:
    """The URL of the last stored page: that to which redirects led."""
    from lycosa.feeds.stored_pages import OpenedCrawl

    pages = list(OpenedCrawl(folder).pages())
    return pages[-1].url if pages else ""


def _run_statement(statement: str, names: dict[str, Any]) -> ExitCode:
    """Run a statement; print the value of an expression. An exception of it is the user's."""
    try:
        value = _value_of(statement, names)
    except Exception as error:  # whatever the statement raises
        raised = traceback.format_exception_only(error)[-1].strip()
        raise StatementFailed(f"-c: {raised}") from error
    if value is not None:
        emit(clean(value if isinstance(value, str) else repr(value)))
    return ExitCode.FINISHED


def _value_of(statement: str, names: dict[str, Any]) -> Any:
    try:
        compiled = compile(statement, "<-c>", "eval")
    except SyntaxError:
        return exec(compile(statement, "<-c>", "exec"), names)
    return eval(compiled, names)


def _open_prompt(names: dict[str, Any], page: Document) -> None:
    banner = f"{clean(repr(page))}: {page.media_type}, {len(page.bytes()):,} bytes\n{_HELP}"
    if importlib.util.find_spec("IPython") is None:
        if importlib.util.find_spec("readline") is not None:
            importlib.import_module("readline")  # gives the prompt its history
        code.interact(banner, local=names, exitmsg="")
        return
    emit(banner)
    importlib.import_module("IPython").start_ipython(argv=["--no-banner"], user_ns=names)
