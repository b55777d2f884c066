"""``lycosa export``: a crawl's tables as files."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

import click

from lycosa.cli.output import ExitCode, counted, emit_json, is_terminal

_EPILOG = """
\b
Examples:
  lycosa export crawls/example.org pages                                   JSON lines on standard output
  lycosa export crawls/example.org links --format csv --output links.csv
  lycosa export crawls/example.org urls --where "state = 'failed'"         the dead letters
  lycosa export crawls/example.org hosts --format parquet --output hosts.parquet
  lycosa export crawls/example.org pages --where "fetch_status = 200 AND language = 'de'" | head

pages and links are what was captured, fetches is pages with robots.txt files and sitemaps, urls and hosts what is known now. The crawl may
be running: what is committed is exported, nothing is changed. A reader that stops early (| head) is no error. Times are UTC.
`lycosa sql DIR "DESCRIBE pages"` lists the columns. In CSV, text that begins with = + - @ gets an apostrophe in front, because
a spreadsheet would take it for a formula; JSON lines and Parquet have every character as it was.
"""
_FORMS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_NAMES = {"csv": "CSV", "parquet": "Parquet", "jsonl": "JSON lines"}


@click.command(
    "export",
    epilog=_EPILOG,
    short_help="Pages, links, URLs or hosts as JSON lines, CSV or Parquet.",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.argument(
    "kind",
    metavar="pages|links|urls|hosts|fetches",
    type=click.Choice(["pages", "links", "urls", "hosts", "fetches"]),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv", "parquet"]),
    help="Form of the rows [by the name of --output, or jsonl].",
)
@click.option(
    "--output", "-o", metavar="FILE|-", default="-", help="Where to; - is standard output."
)
@click.option(
    "--where", metavar="SQL", default="", help="Only rows for which this condition holds."
)
@click.option(
    "--raw",
    "is_raw",
    is_flag=True,
    help="CSV without the apostrophe before text that a spreadsheet would take for a formula.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="With --output FILE: say what was written as JSON."
)
def command(
    folder: Path, kind: str, form: str | None, output: str, where: str, is_raw: bool, as_json: bool
) -> ExitCode:
    """Write a table of the crawl in DIR to a file or to standard output."""
    return run(folder, kind, form or "", output, where, as_json, is_raw)


def run(
    folder: Path, kind: str, form: str, output: str, where: str, as_json: bool, is_raw: bool = False
) -> ExitCode:
    """Exports one table. Without ``form`` the name of ``output`` decides."""
    from lycosa.inspect.export import CsvStyle, rows_of, write_file, write_text
    from lycosa.inspect.reader import read_folder

    reader = read_folder(folder)
    if output != "-":
        if not form:
            form = _FORMS.get(Path(output).suffix.lower(), "")
        if not form:
            form = "jsonl"
            click.echo(
                f"lycosa: {output} says no form that is known (.jsonl, .csv, .parquet): JSON lines"
                " are written",
                err=True,
            )
        count = write_file(reader, kind, form, where, Path(output), is_raw)
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
            # what programs read does not depend on the locale
            sys.stdout.reconfigure(encoding="utf-8")
        with rows_of(reader, kind, where) as rows:
            write_text(form, rows, sys.stdout, CsvStyle(is_raw, is_terminal()))
        return ExitCode.FINISHED
    if sys.stdout.isatty():  # before any work
        raise click.UsageError("Parquet is not for a terminal: give --output FILE")
    with tempfile.TemporaryDirectory(prefix="lycosa-export-") as temporary:
        # a reader of Parquet begins at its end, so it has to be whole first
        path = Path(temporary) / "rows.parquet"
        write_file(reader, kind, form, where, path)
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    return ExitCode.FINISHED
