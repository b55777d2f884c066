"""``lycosa export``: a crawl's tables as files."""

from __future__ import annotations

import io
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from lycosa.base.system.private_folder import private_folder
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, reading_crawl
from lycosa.cli.export_wacz import run_wacz
from lycosa.cli.output import ExitCode, counted, emit_json, is_terminal

if TYPE_CHECKING:
    from lycosa.base.preferences.use_policy import UsePolicy
    from lycosa.inspect.committed_state import CrawlReader

_EPILOG = """
\b
Examples:
  lycosa export crawls/example.org pages
  lycosa export crawls/example.org content --output content.parquet
  lycosa export crawls/example.org text --main --output corpus.parquet     a corpus: one text a page
  lycosa export crawls/example.org links --format csv --output links.csv
  lycosa export crawls/example.org urls --where "state = 'failed'"         failed for good
  lycosa export crawls/example.org hosts --format parquet --output hosts.parquet
  lycosa export crawls/example.org pages --where "fetch_status = 200 AND language = 'de'" | head
  lycosa export --cluster cluster.toml hosts --output hosts.csv
  lycosa export crawls/example.org texts --purpose search --output texts.search.parquet
  lycosa export crawls/shop.example products --format csv --output products.csv
  lycosa export crawls/shop.example items.products
  lycosa export crawls/example.org crawl-log --output crawl.log            as Heritrix writes it
  lycosa export crawls/example.org commoncrawl --output release

The tables pages and links have one row per captured page and per link in it, fetches has robots.txt
files and sitemaps too. text has the newest text of each page that was answered with success, its
language, the page with nearly the same text (duplicate_of), and what the site says about its use;
with --main the text is the main text, without menus and footers, where the page has one. texts has
the visible text of each capture, content its main text, Markdown,
headings, author, dates and structured data, renders has a row for each time that the scripts of a
page ran, and urls and hosts have the present state. Of a page that was rendered, the tables pages,
texts and content have the better text, and text_from says which one it is. Of an extractor NAME,
the table items.NAME has each item that it made of any capture, and the table NAME the items of each
URL as they are now (`lycosa docs items`). wacz is the whole crawl as one file that archives
exchange and browsers replay (`lycosa docs replay`): WARC files, index, pages and their digests.
crawl-log is Heritrix's log of the crawl, commoncrawl a folder in the layout of Common Crawl's
releases: links to the WARC files, lists of paths, the ZipNum index and the columnar index (`lycosa
docs other-formats`). Content that a site refuses to the purpose of the crawl (agent.purpose) is
left out; --purpose exports for another one, from the journals of the crawl. The default is JSON
lines on standard output. The crawl may be running: committed rows are exported, and nothing is
changed. A reader may stop early (| head) without an error. Times are UTC. `lycosa sql DIR "DESCRIBE
pages"` lists the columns. In CSV, text that begins with = + - @ gets an apostrophe in front,
because a spreadsheet would treat it as a formula. JSON lines and Parquet keep every character.
"""
_RECORD = "record"  # the purpose of a crawl that only records
_WITHOUT_CONTENT = ("urls", "hosts")  # tables that have no content, so no purpose changes them
_FORMS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_WACZ = "wacz"
_TEXT = "text"
_TABLES = "pages", "links", _TEXT, "content", "texts", "renders", "urls", "hosts", "fetches"
_LAYOUT = "commoncrawl"
_FILES_OF_OTHERS = ("crawl-log", _LAYOUT)
_ITEMS = re.compile(r"(?:items\.)?[a-z][a-z0-9_]{0,62}")
_NAMES = {"csv": "CSV", "parquet": "Parquet", "jsonl": "JSON lines"}


@click.command(
    "export",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="Pages, links, URLs, hosts or items as a table; a crawl as one WACZ file.",
)
@crawl_place
@click.argument(
    "kind",
    metavar="TABLE|wacz|crawl-log|commoncrawl",
    callback=lambda context, parameter, value: _checked_table(value),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv", "parquet"]),
    help="Format of the rows [by the name of --output, or jsonl].",
)
@click.option(
    "--output", "-o", metavar="FILE|-", default="-", help="File to write; - is standard output."
)
@click.option(
    "--where", metavar="SQL", default="", help="Only rows for which this condition holds."
)
@click.option(
    "--raw",
    "is_raw",
    is_flag=True,
    help="CSV: no apostrophe before text that a spreadsheet would treat as a formula.",
)
@click.option(
    "--main",
    "is_main",
    is_flag=True,
    help="text: the main text, of a crawl with --set store.content=true.",
)
@click.option(
    "--purpose",
    metavar="USES",
    help="For these uses instead of those of the crawl: search,ai-train; or record for everything.",
)
@click.option(
    "--unstated",
    type=click.Choice(["use", "skip"]),
    help="Pages that state nothing about a use of the purpose [as in the crawl].",
)
@click.option(
    "--sign",
    "key_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="wacz: sign with the key of `lycosa identity new FILE --archives`.",
)
@click.option(
    "--private",
    is_flag=True,
    help="With captures that were fetched with credentials (`lycosa docs requests`).",
)
@click.option("--title", metavar="TEXT", default="", help="wacz: its title [Crawl of HOST].")
@click.option(
    "--json", "as_json", is_flag=True, help="With --output FILE: report what was written as JSON."
)
def command(
    place: CrawlPlace,
    kind: str,
    form: str | None,
    output: str,
    where: str,
    is_raw: bool,
    is_main: bool,
    purpose: str | None,
    unstated: str | None,
    key_file: Path | None,
    private: bool,
    title: str,
    as_json: bool,
) -> ExitCode:
    """Write a table of the crawl in DIR, or all of it, to a file or to standard output."""
    if kind == _WACZ and (form or where or is_raw):
        option = "--format" if form else "--where" if where else "--raw"
        raise click.UsageError(f"{option} is for tables; wacz is the whole crawl as one file")
    if kind != _WACZ and (key_file or title):
        option = "--sign" if key_file else "--title"
        raise click.UsageError(f"{option} is for wacz: a table has no place for it")
    if is_main and kind != _TEXT:
        raise click.UsageError(f"--main is for text: {kind} has its own columns")
    if kind in _WITHOUT_CONTENT and (purpose is not None or unstated is not None):
        option = "--unstated" if purpose is None else "--purpose"
        raise click.UsageError(
            f"{option} is for tables with content (pages, links, text, content, texts, renders,"
            f" fetches): {kind} has the state of the crawl, which is the same for every purpose"
        )
    if kind in _FILES_OF_OTHERS:
        if form or where or is_raw or purpose is not None or unstated is not None:
            raise click.UsageError(f"{kind} has one form, and takes only --output and --json")
        return _write_others(place, kind, output, as_json, private)
    with reading_crawl(place) as reader:
        reader.gives_private = private
        policy = _other_policy(reader, purpose, unstated)
        if kind == _WACZ:
            return run_wacz(reader, output, policy, key_file, title, as_json)
        return run(
            reader,
            f"main_{_TEXT}" if is_main else kind,
            form or "",
            output,
            where,
            as_json,
            is_raw,
            policy,
        )


def _write_others(
    place: CrawlPlace, kind: str, output: str, as_json: bool, private: bool
) -> ExitCode:
    """Write the crawl in a form of another program."""
    from lycosa.inspect.common_crawl import LayoutError, write_layout
    from lycosa.inspect.crawl_log import write_crawl_log

    if kind == _LAYOUT and (output == "-" or place.cluster is not None):
        raise click.UsageError(
            "commoncrawl is a folder of links to files: give a crawl folder and --output FOLDER"
        )
    with (
        reading_crawl(place) as reader,
        private_folder("export") as temporary,
    ):
        reader.gives_private = private
        if kind == _LAYOUT:
            try:
                written = write_layout(reader, place.folder.resolve().name, Path(output))
            except LayoutError as error:
                raise click.UsageError(str(error)) from error
            told = f"{counted(written.captures, 'capture')} in {counted(written.files, 'file')}"
            values = {"output": output, **to_builtins(written)}
        elif output == "-":
            write_crawl_log(reader, sys.stdout.buffer, temporary)
            return ExitCode.FINISHED
        else:
            with Path(output).open("wb") as file:
                lines = write_crawl_log(reader, file, temporary)
            told, values = counted(lines, "line"), {"output": output, "lines": lines}
    if as_json:
        emit_json(values)
    else:
        click.echo(f"{told} in {output}", err=True)
    return ExitCode.FINISHED


def _checked_table(name: str) -> str:
    """The name of a table. Which items there are only the crawl says."""
    if name in (*_TABLES, _WACZ, *_FILES_OF_OTHERS) or _ITEMS.fullmatch(name):
        return name
    raise click.BadParameter(
        f"{name!r} is not a table; there are {', '.join(_TABLES)}, and items.NAME of an extractor;"
        f" {', '.join((_WACZ, *_FILES_OF_OTHERS))} are the whole crawl in forms of other programs"
    )


def _other_policy(
    reader: CrawlReader, purpose: str | None, unstated: str | None
) -> UsePolicy | None:
    """The purpose of the options; ``None`` if it is that of the crawl."""
    from lycosa.base.preferences.use_policy import policy_of
    from lycosa.inspect.saved_settings import load_saved_settings

    if purpose is None and unstated is None:
        return None
    agent = load_saved_settings(reader).config.agent
    uses = agent.purpose if purpose is None else [each.strip() for each in purpose.split(",")]
    try:
        return policy_of([] if list(uses) == [_RECORD] else uses, unstated or agent.unstated.value)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--purpose") from None


def run(
    reader: CrawlReader,
    kind: str,
    form: str,
    output: str,
    where: str,
    as_json: bool,
    is_raw: bool = False,
    policy: UsePolicy | None = None,
) -> ExitCode:
    """Export one table. Without ``form`` the name of ``output`` decides the format."""
    from lycosa.inspect.table_export import CsvStyle, rows_of, write_file, write_text

    if output != "-":
        if not form:
            form = _FORMS.get(Path(output).suffix.lower(), "")
        if not form:
            form = "jsonl"
            click.echo(
                f"lycosa: {output} does not end with .jsonl, .csv or .parquet: writing JSON lines",
                err=True,
            )
        count = write_file(reader, kind, form, where, Path(output), is_raw, policy)
        if as_json:
            emit_json({"output": output, "table": kind, "format": form, "rows": count})
        else:
            click.echo(
                f"{counted(count, 'row')} of {kind} in {output}, as {_NAMES[form]}", err=True
            )
        return ExitCode.FINISHED
    form = form or "jsonl"
    if form != "parquet":
        if isinstance(sys.stdout, io.TextIOWrapper):
            # files for programs do not depend on the locale
            sys.stdout.reconfigure(encoding="utf-8")
        with rows_of(reader, kind, where, policy) as rows:
            write_text(form, rows, sys.stdout, CsvStyle(is_raw, is_terminal()))
        return ExitCode.FINISHED
    if sys.stdout.isatty():  # reported before any work is done
        raise click.UsageError(
            "Parquet is binary and not printed on a terminal: give --output FILE"
        )
    with private_folder("export") as temporary:
        # reading Parquet begins at its end, so the file has to be complete first
        path = temporary / "rows.parquet"
        write_file(reader, kind, form, where, path, policy=policy)
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    return ExitCode.FINISHED
