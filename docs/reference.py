"""Writes the pages ``cli.md``, ``exit-codes.md``, ``reasons.md`` and ``tables.md`` from the
program: ``python docs/reference.py``.

A test compares the pages with what this script would write. What the columns of tables mean is said
once, in ``formats.md``; this script adds their types, and fails at a column that is described
nowhere.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
import pyarrow as pa

from lycosa.base.reasons import Reason
from lycosa.cli.main import cli
from lycosa.cli.output import ExitCode
from lycosa.inspect.state_rows import HOST_COLUMNS, URL_COLUMNS
from lycosa.state.store.content_table import CONTENT_SCHEMA
from lycosa.state.store.links_table import LINKS_SCHEMA
from lycosa.state.store.pages_table import COMMON_CRAWL_COLUMNS, OWN_COLUMNS
from lycosa.state.store.renders_table import RENDERS_SCHEMA
from lycosa.state.store.wet import TEXTS_SCHEMA

DOCS = Path(__file__).parent
_WRITTEN = "<!-- written by docs/reference.py -->"


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    return {
        "cli.md": _page("The command line", _cli()),
        "exit-codes.md": _page("Exit codes", _exit_codes()),
        "reasons.md": _page("Reasons", _reasons()),
        "tables.md": _page("Tables and columns of `lycosa sql`", _tables()),
    }


def _page(title: str, lines: Iterable[str]) -> str:
    return f"# {title}\n\n{_WRITTEN}\n\n" + "\n".join(lines).rstrip() + "\n"


def _wrapped(text: str, indent: str = "") -> list[str]:
    text = " ".join(text.split())
    return textwrap.wrap(
        text, 100, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _cell(text: str) -> str:
    """Text in a cell of a table: one line, and nothing that is Markdown or HTML by accident."""
    text = " ".join(text.split())
    if "] [" in text:  # would be a link by reference
        text = text.replace("[", "\\[")
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        each if each.startswith("`") else re.sub(r"([*<])", r"\\\1", each) for each in parts
    ).replace("|", "\\|")


# -- commands -------------------------------------------------------------------------------------

_CLI_INTRO = """
Every command has this text as `--help`, and an option that is mistyped is answered with the
nearest one. `--json` prints what scripts read. Commands that read a crawl may be used while it
runs. DIR is the folder of a crawl; for a [crawl on many machines](cluster.md) give
`--cluster FILE` in its place.
"""
_GROUPS = {
    "Crawl": "crawl init serve config check simulate",
    "Look at a crawl": "status explain sql export replay changes diff audit shell",
    "Your code": "extract extension reparse",
    "Steer a crawl": "host scope policy dlq rank use-ranks",
    "Hand on what was found": "feed webhooks project",
    "Many machines": "cluster node health",
    "Who you are": "identity",
}
"""The commands by task; those that no line names follow in a group of their own."""


def _cli() -> Iterator[str]:
    yield from [*_wrapped(_CLI_INTRO), ""]
    root = click.Context(cli, info_name="lycosa", **cli.context_settings)
    names = cli.list_commands(root)
    groups = {title: listed.split() for title, listed in _GROUPS.items()}
    grouped = [name for listed in groups.values() for name in listed]
    groups["More"] = [name for name in names if name not in grouped]
    for title, listed in groups.items():
        found = [(name, each) for name in listed if (each := cli.get_command(root, name))]
        if not found:
            continue
        links = ", ".join(f"[{name}](#lycosa-{name})" for name, _ in found)
        yield from _wrapped(f"* **{title}:** {links}", "  ")
    yield ""
    for listed in groups.values():
        for name in listed:
            if command := cli.get_command(root, name):
                yield from _command(command, ["lycosa", name], root)


def _command(command: click.Command, path: list[str], parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=path[-1], parent=parent)
    yield from [f"{'#' * len(path)} `{' '.join(path)}`", ""]
    pieces = command.collect_usage_pieces(context)
    yield from ["```text", " ".join([*path, *pieces]), "```", ""]
    yield from _help(command.help or "")
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    shown = [each for each in options if not each.hidden and "--help" not in each.opts]
    if shown:
        yield from ["| option | meaning |", "|---|---|"]
        for each in shown:
            record = each.get_help_record(context)
            assert record is not None
            name, meaning = record
            yield f"| `{' '.join(name.split()).replace('|', chr(92) + '|')}` | {_cell(meaning)} |"
        yield ""
    yield from _help(command.epilog or "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, [*path, name], context)


def _help(text: str) -> Iterator[str]:
    """A help text as Markdown: a part that click prints as it stands is code."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if not part.strip():
            continue
        if part.startswith("\b"):
            title, *rest = part.removeprefix("\b").strip("\n").splitlines()
            if rest and title.endswith(":") and not title.startswith(" "):
                yield from [f"**{title.rstrip(':')}**", ""]
            else:
                rest = [title, *rest]
            yield from ["```text", *textwrap.dedent("\n".join(rest)).splitlines(), "```", ""]
        else:
            yield from [*_wrapped(_cell(part).replace("\\|", "|")), ""]


# -- exit codes -----------------------------------------------------------------------------------

_AFTER = {
    "FINISHED": "",
    "INTERNAL": "the message names the damaged file, or the file with the traceback",
    "USAGE": "the message names the wrong word and suggests the nearest valid one. No folder"
    " is created for a new crawl. No seed that can be crawled has this code too",
    "LIMIT": "URLs are queued: give the same command to resume, with another limit or none",
    "INTERRUPTED": "give the command in the summary. Other causes: seeds were not read to"
    " their end or not parsed, files were not uploaded, a feed lacks rows, or the disk was full"
    " (free some space first)",
    "NOTHING_FETCHED": "a line for each seed gives the cause and a remedy;"
    " `lycosa explain DIR SEED` says more",
    "INCOMPLETE": "the summary names the hosts with the reasons. Give the same command"
    " later, or `lycosa host resume DIR HOST` for a retired host. A broad crawl nearly always has"
    " such hosts",
    "BROKEN_LINKS": "the report names each link and its page; `--fail-on` says which of them count",
}


def _exit_codes() -> Iterator[str]:
    yield from _wrapped(
        "What a command returns to the shell. `lycosa crawl`, `serve`, `node` and the Python class"
        " `lycosa.Crawl` (`Report.end`) use all of them; commands that only read use 0, 1 and 2,"
        " and their `--help` says what else."
    )
    yield from ["", "| code | meaning | what to do |", "|---|---|---|"]
    for code in ExitCode:
        yield f"| {code.value} | {code.meaning} | {_AFTER[code.name]} |"
    yield ""
    yield from _wrapped(
        "A reader that closes the pipe early (`lycosa export DIR urls | head`) causes no error: the"
        " exit code is 0. If the reader of a crawl's output ends, the crawl continues, and the exit"
        " code is that of the crawl."
    )


# -- reasons --------------------------------------------------------------------------------------

_KINDS = {
    "Not requested, by a rule that needs only the URL": range(1, 40),
    "Not requested, by what the crawl knows": range(40, 80),
    "The request failed": range(80, 140),
    "Stored, with a remark": range(140, 1000),
}
_REMEDIES = {
    Reason.OUT_OF_SCOPE: "`--scope site`, `--include`, or another seed ([scope](scope.md))",
    Reason.EXCLUDED: "change `--exclude`",
    Reason.NOT_INCLUDED: "change `--include`",
    Reason.TOO_DEEP: "`--max-depth N`",
    Reason.REQUISITE: "`--requisites`, or `--accept image` for pictures alone",
    Reason.SESSION_ID: "`traps.refuse_session_ids=false`",
    Reason.FAR_CALENDAR: "`traps.calendar_years`",
    Reason.REPEATING_SEGMENTS: "`traps.max_repeats`",
    Reason.URL_TOO_LONG: "`traps.max_url_length`",
    Reason.PATH_TOO_DEEP: "`traps.max_path_depth`",
    Reason.TOO_MANY_PARAMETERS: "`traps.max_parameters`",
    Reason.RULE_FAILED: "correct the rule; the [log](logs.md) has the traceback",
    Reason.ROBOTS_DISALLOWED: "ask the owner of the site; no setting changes it",
    Reason.ROBOTS_UNREACHABLE: "wait: a site whose robots.txt fails is not crawled (RFC 9309)",
    Reason.HOST_PAGE_BUDGET: "`budgets.host_pages`",
    Reason.SITE_PAGE_BUDGET: "`budgets.site_pages`",
    Reason.HOST_BYTE_BUDGET: "`budgets.host_bytes`",
    Reason.SITE_BYTE_BUDGET: "`budgets.site_bytes`",
    Reason.HOST_TIME_BUDGET: "`budgets.host_time_s`",
    Reason.DISCOVERY_RATE: "`budgets.discovery_per_page`",
    Reason.HOST_RETIRED: "`lycosa host resume DIR HOST`, if the host answers again",
    Reason.RETIRED_BY_OPERATOR: "`lycosa host resume DIR HOST`",
    Reason.DNS_NO_SUCH_NAME: "check the spelling; `--resolve NAME=ADDR` for a name without DNS",
    Reason.ADDRESS_FORBIDDEN: "your own server: `--allow-address ADDR`",
    Reason.CONNECT_REFUSED: "check the port, and whether the server runs",
    Reason.TLS_FAILED: "check the certificate; plain HTTP needs `http://`",
    Reason.HTTP_CLIENT_ERROR: "`lycosa dlq list DIR` has the pages; the link is on the page `via`",
    Reason.HTTP_SERVER_ERROR: "retried by itself; then `lycosa dlq retry DIR`",
    Reason.HTTP_TOO_MANY_REQUESTS: "nothing: the delay of the host has grown",
    Reason.FIRST_BYTE_TIMEOUT: "retried by itself; `fetch.first_byte_s`",
    Reason.TOTAL_TIMEOUT: "`fetch.total_s`, for large files on slow servers",
    Reason.BODY_TRUNCATED: "`fetch.body_bytes`",
    Reason.DECODE_LIMIT: "`parse.max_bytes`",
    Reason.CONTENT_TYPE: "nothing: the file is stored, but it has no links and no text",
    Reason.EXTENSION_FAILED: "correct your code, then `lycosa extract DIR --failed`",
    Reason.PARSE_KILLED: "`lycosa reparse DIR --killed`",
    Reason.LOOKS_SCRIPTED: "`--render auto` ([rendering](rendering.md))",
    Reason.TYPE_REFUSED: "add the type to `--accept`",
}


def _reasons() -> Iterator[str]:
    yield from _wrapped(
        "Why a URL was not fetched, or was fetched and is no ordinary page. The column `reason` of"
        " the tables `urls` and `hosts`, `fetch_reason` and `parse_reason` of `pages`, `lycosa"
        " status`, `lycosa explain` and feeds have these names. The cause is who can change it:"
        " the settings of this crawl, the site, the network, or only time."
    )
    yield ""
    yield from ["```text", 'lycosa sql DIR "SELECT reason, count(*) FROM urls GROUP BY ALL"', "```"]
    for title, numbers in _KINDS.items():
        yield from ["", f"## {title}", "", "| reason | cause | meaning | what to do |"]
        yield "|---|---|---|---|"
        for each in sorted(Reason, key=lambda reason: reason.label):
            if each in numbers:
                meaning, remedy = _cell(each.meaning), _REMEDIES.get(each, "")
                yield f"| `{each.label}` | {each.cause.words} | {meaning} | {remedy} |"


# -- tables ---------------------------------------------------------------------------------------

_SQL_TYPES = {
    "string": "text",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint64": "ubigint",
    "double": "double",
    "float": "real",
    "bool": "bool",
    "timestamp[us]": "timestamp",
}
_COMMON_CRAWL = {
    "url_surtkey": "the URL with its host reversed, for sorting: `org,example)/about`",
    "url": "canonical URL",
    "url_host_name": "host without a port",
    "url_host_tld": "top-level domain: `org`",
    "url_host_2nd_last_part": "label of the host before it: `example`",
    "url_host_3rd_last_part": "the label before that",
    "url_host_4th_last_part": "the label before that",
    "url_host_5th_last_part": "the label before that",
    "url_host_registry_suffix": "public suffix by the list's ICANN section: `co.uk`",
    "url_host_registered_domain": "domain one label below it: `example.co.uk`",
    "url_host_private_suffix": "public suffix with the list's private section: `github.io`",
    "url_host_private_domain": "domain one label below that",
    "url_host_name_reversed": "host with its labels reversed: `org.example.www`",
    "url_protocol": "`http` or `https`",
    "url_port": "port, if it is in the URL",
    "url_path": "path",
    "url_query": "query without its question mark",
    "fetch_time": "start of the request, UTC",
    "fetch_status": "HTTP status",
    "fetch_redirect": "target of a redirect",
    "content_digest": "SHA-1 of the body, base32",
    "content_mime_type": "media type as sent",
    "content_mime_detected": "media type as detected from the content",
    "content_charset": "character set that was used",
    "content_languages": "language of the text, ISO 639-3",
    "content_truncated": "why not everything was stored or parsed; null if it was",
    "warc_filename": "WARC file, relative to the crawl folder",
    "warc_record_offset": "where the record begins in it, in bytes",
    "warc_record_length": "length of the record, in bytes",
    "warc_segment": "name of the segment",
    "crawl": "id of the crawl",
    "subset": "`warc` for status 200, `robotstxt`, else `crawldiagnostics`",
}
_RENDERED = {"text_from": "`page` or `render`: whose text this is"}


def _tables() -> Iterator[str]:
    yield from _wrapped(
        "`lycosa sql DIR STATEMENT` knows these tables, with DuckDB's dialect; `lycosa export DIR"
        ' TABLE` writes them to files. `lycosa sql DIR "DESCRIBE pages"` prints the columns of one.'
        " Times are UTC. [Formats](formats.md) says in which files the tables are."
    )
    own = {name: kind for name, kind, *_ in OWN_COLUMNS}
    formats = (DOCS / "formats.md").read_text("utf-8")
    yield from _table("pages", "One row for each stored fetch of a page.", {}, {}, "")
    yield from ["These are Common Crawl's columns, with its names, order and types:", ""]
    common = {name: kind for name, kind, *_ in COMMON_CRAWL_COLUMNS}
    yield from _rows(common, [([name], text) for name, text in _COMMON_CRAWL.items()])
    yield from ["", "These are Lycosa's:", ""]
    described = [*_described(formats, "## `pages/`"), *_extra(_RENDERED)]
    yield from _rows(own | {"text_from": pa.string()}, described)
    yield from _table(
        "fetches",
        "The same columns (without `text_from`) for everything that was stored: pages, robots.txt"
        " files, sitemaps. `kind` says which.",
        {},
        {},
        "",
    )
    yield from _table(
        "links", "One row for each link of a page.", _types(LINKS_SCHEMA), {}, formats
    )
    yield from _table("texts", "The visible text of each page.", _types(TEXTS_SCHEMA), _TEXTS, "")
    yield from _table(
        "content",
        "Main text without boilerplate, Markdown, dates, structured data; empty without the setting"
        " `store.content`.",
        _types(CONTENT_SCHEMA),
        _RENDERED,
        formats,
    )
    yield from _table(
        "renders",
        "One row for each time that the scripts of a page [ran](rendering.md).",
        _types(RENDERS_SCHEMA),
        {},
        formats,
    )
    urls = {name: kind for name, kind, _ in URL_COLUMNS}
    hosts = {name: kind for name, kind, _ in HOST_COLUMNS}
    yield from _table("urls", "One row for each URL that is known.", urls, {}, formats)
    yield from _table("hosts", "One row for each host that is known.", hosts, {}, formats)
    yield from _table("ccindex", _CCINDEX, {}, {}, "")
    yield from _table("NAME, and items.NAME", _ITEMS, {}, {}, "")


_TEXTS = {
    "url": "canonical URL",
    "fetch_time": "start of the request",
    "fetch_number": "number of this fetch of the URL",
    "warc_record_id": "its record, as in `pages`",
    "language": "ISO 639-1",
    "title": "of the page",
    "text": "all visible text; a line for each block",
    **_RENDERED,
}
_CCINDEX = (
    "`fetches` with only Common Crawl's columns: queries written for its index run unchanged."
)
_ITEMS = (
    "The rows of [your extractor](items.md) of that name: its own columns, and `_url`, `_fetched`,"
    " `_capture`, `_version`, `_item`. `NAME` has each URL as it is now, `items.NAME` captures."
)


def _table(
    name: str, about: str, types: Mapping[str, pa.DataType], extra: Mapping[str, str], formats: str
) -> Iterator[str]:
    yield from ["", f"## `{name}`", "", *_wrapped(about), ""]
    if not types:
        return
    heading = {"urls": "| column of `urls`", "hosts": "| column of `hosts`"}.get(
        name, f"## `{name}/`"
    )
    described = _described(formats, heading) if formats else []
    added = {column: pa.string() for column in extra if column not in types}
    yield from _rows({**types, **added}, [*described, *_extra(extra)])


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}


def _extra(meanings: Mapping[str, str]) -> list[tuple[list[str], str]]:
    return [([name], meaning) for name, meaning in meanings.items()]


def _described(formats: str, heading: str) -> list[tuple[list[str], str]]:
    """Names and meaning of each row of the first table after a heading of ``formats.md``."""
    _, _, rest = formats.partition(f"\n{heading}")
    assert rest, heading
    found: list[tuple[list[str], str]] = []
    for line in rest.splitlines():
        cells = [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and (names := re.findall(r"`(\w+)\??`", cells[0])):
            found.append((names, cells[-1]))
        elif found:
            break
    return found


def _rows(
    types: Mapping[str, pa.DataType], described: Iterable[tuple[list[str], str]]
) -> Iterator[str]:
    yield from ["| column | type | meaning |", "|---|---|---|"]
    left = dict(types)
    for names, meaning in described:
        kinds = [_sql_type(left.pop(name)) for name in names]
        kind = kinds[0] if len(set(kinds)) == 1 else ", ".join(kinds)
        local = re.sub(r"\]\(#", "](formats.md#", meaning)
        yield f"| {', '.join(f'`{name}`' for name in names)} | {kind} | {local} |"
    assert not left, f"described neither here nor in formats.md: {', '.join(left)}"


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return _sql_type(kind.value_type)
    if pa.types.is_list(kind):
        return f"list of {_sql_type(kind.value_type)}"
    return "struct" if pa.types.is_struct(kind) else _SQL_TYPES[str(kind)]


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, "utf-8")
