"""``lycosa mcp``: a crawl as tools of a language model's program, by the Model Context Protocol."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place
from lycosa.cli.output import ExitCode

_SECRET = "LYCOSA_API_TOKEN"
_LOCAL = "http://127.0.0.1:8470"
_EPILOG = """
\b
Examples:
  lycosa mcp read crawls/example.org                 questions about a crawl, running or not
  lycosa mcp read --cluster cluster.toml
  lycosa mcp operate                                 the crawl that runs here with --api
  lycosa mcp operate --api https://crawl.example --token-file token

Both talk by standard input and output, as programs expect that start such servers. To add them,
name the command and its arguments in the settings of the program:

\b
  {"mcpServers": {"crawl": {"command": "lycosa", "args": ["mcp", "read", "/data/example.org"]}}}
"""


@click.group(
    "mcp", epilog=_EPILOG, short_help="Tools for language models: read or operate a crawl."
)
def command() -> None:
    """Offer a crawl to a language model's program (Model Context Protocol).

    Reading and operating are two servers, so that a program that reads pages need not be able to
    change the crawl.
    """


@command.command("read", cls=CrawlCommand, short_help="Progress, SQL, single URLs, texts.")
@crawl_place
@click.option(
    "--private",
    is_flag=True,
    help="Show pages that were fetched with credentials too.",
)
def read(place: CrawlPlace, private: bool) -> ExitCode:
    """Answer questions about the crawl in DIR. Nothing is changed, and no site is requested."""
    _require_extra()
    from lycosa.service.agents.reading_server import ReadingServer

    words = [str(place.folder)] if place.cluster is None else ["--cluster", str(place.cluster)]
    if place.cache is not None:
        words = ["--cache", str(place.cache), *words]
    ReadingServer(words, version("lycosa"), gives_private=private).server.run("stdio")
    return ExitCode.FINISHED


@command.command("operate", short_help="Submit URLs, pause, read one page.")
@click.option(
    "--api",
    "address",
    metavar="URL",
    default=_LOCAL,
    show_default=True,
    help="The HTTP interface of the crawl.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help=f"File with the secret of a token [environment: {_SECRET}].",
)
@click.option(
    "--trust-pages",
    is_flag=True,
    help="Allow changes also after the text of a page was read in the session.",
)
@click.option(
    "--private", is_flag=True, help="Give the text of pages that were fetched with credentials too."
)
def operate(address: str, token_file: Path | None, trust_pages: bool, private: bool) -> ExitCode:
    """Operate a running crawl by its HTTP interface.

    When a session has read the text of a page, tools that change the crawl refuse for the rest of
    it: the page may have asked for the change.
    """
    _require_extra()
    from lycosa.service.agents.operating_server import OperatingServer

    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.BadParameter(f"{address!r} is not the URL of an interface, as {_LOCAL}")
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    secret = token_file.read_text("utf-8").strip() if token_file else os.environ.get(_SECRET, "")
    if secret and parts.scheme == "http" and not is_local:
        raise click.BadParameter(f"{address}: a token is sent by https only; give an https URL")
    server = OperatingServer(address, secret, trust_pages, version("lycosa"), gives_private=private)
    server.server.run("stdio")
    return ExitCode.FINISHED


def _require_extra() -> None:
    """Raises ``UsageError`` with the command that installs what is missing."""
    from importlib.util import find_spec

    from lycosa.base.config.extras import install_command

    if find_spec("mcp") is None:
        raise click.UsageError(
            f"lycosa mcp needs the package mcp; install it with: {install_command('mcp')}"
        )
