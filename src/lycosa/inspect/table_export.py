"""A crawl's tables as files for other programs: JSON lines, CSV or Parquet, streaming.

Pages and links come from Parquet, and from the row journals where it is not built yet. URLs and
hosts come from the committed state. A file appears complete or not at all: it is written under a
temporary name and renamed.
"""

from __future__ import annotations

import errno
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import duckdb

from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.crawl_tables import STATE, CrawlTables
from lycosa.inspect.printable import clean, json_text, neutral
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.inspect.sql_query import SqlError, explained, fetched, no_table, refuse_writes
from lycosa.inspect.state_rows import STATE_COLUMNS, state_rows, write_state
from lycosa.state.store.derived_files import CONTENT, PAGES
from lycosa.state.store.wet import TEXTS

_QUOTE = '"'
_NEEDS_QUOTES = re.compile(r'[",\r\n]').search

Rows = tuple[Sequence[str], Iterator[tuple[Any, ...]]]
"""Columns, and rows as an iterator."""


@contextmanager
def rows_of(
    reader: CrawlReader, kind: str, where: str = "", policy: UsePolicy | None = None
) -> Iterator[Rows]:
    """The rows of one table, or of ``fetches``, that meet ``where``, a condition in SQL.

    ``policy`` is another purpose than that of the crawl. Raises ``SqlError`` when the condition is
    wrong or there is no such table.
    """
    if kind in STATE and not where:
        yield [column[0] for column in STATE_COLUMNS[kind]], state_rows(reader, kind)
        return
    with _opened(reader, kind, policy) as tables:
        tables.lock()
        cursor = _select(tables, kind, where)
        yield (
            [column[0] for column in cursor.description or ()],
            fetched(tables, cursor, f"{kind} {where}"),
        )


class CsvStyle(NamedTuple):
    """How cells are written.

    ``is_raw`` leaves cells that look like formulas unchanged; ``is_shown`` is for a terminal.
    """

    is_raw: bool = False
    is_shown: bool = False


def write_text(form: str, rows: Rows, out: TextIO, style: CsvStyle = CsvStyle()) -> int:  # noqa: B008 (immutable)
    """Write JSON lines or CSV; returns the number of rows."""
    names, values = rows
    return (
        _write_csv(names, values, out, style) if form == "csv" else _write_jsonl(names, values, out)
    )


def write_file(
    reader: CrawlReader,
    kind: str,
    form: str,
    where: str,
    path: Path,
    is_raw: bool = False,
    policy: UsePolicy | None = None,
) -> int:
    """Write one file; returns the number of rows. ``policy`` is as for ``rows_of``.

    Raises ``SqlError`` and ``OSError``; no partial file remains.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    # In the same folder, so that the rename is atomic: readers see the old file or the whole new
    # one.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.touch()
        if form == "parquet":
            count = _write_parquet(reader, kind, where, temporary, policy)
        else:
            with (
                temporary.open("w", encoding="utf-8", newline="", errors="surrogatepass") as out,
                rows_of(reader, kind, where, policy) as rows,
            ):
                count = write_text(form, rows, out, CsvStyle(is_raw))
        temporary.replace(path)
    except OSError as error:
        if error.filename == str(temporary):
            # the name that was given, since the user does not know the temporary one
            error.filename = str(path)
            error.filename2 = None
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return count


def json_cell(value: object) -> Any:
    """A value of a table in JSON: times in ISO 8601 and UTC, bytes in hexadecimal."""
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return value.isoformat(timespec="microseconds" if value.microsecond else "seconds") + "Z"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return [json_cell(each) for each in value]
    if isinstance(value, dict):
        return {str(key): json_cell(each) for key, each in value.items()}
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def csv_cell(value: object) -> str:
    """A value as a CSV field: empty when unknown, lists separated by blanks (URLs have none)."""
    value = json_cell(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return " ".join(map(csv_cell, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def _csv_cell(value: object, style: CsvStyle) -> str:
    """A cell without a formula. Numbers and times are the crawler's; only text is from the web."""
    text = csv_cell(value)
    if not style.is_raw and isinstance(value, str | list | tuple | dict):
        text = neutral(text)
    return clean(text) if style.is_shown else text


@contextmanager
def _opened(reader: CrawlReader, kind: str, policy: UsePolicy | None) -> Iterator[CrawlTables]:
    """The tables that an export of ``kind`` reads."""
    wanted, hides = tables_of_texts(reader, kind), not reader.gives_private
    with CrawlTables(reader, wanted, policy=policy, hides_private=hides) as tables:
        create_page_texts(tables.connection, kind)
        yield tables


def _select(tables: CrawlTables, kind: str, where: str) -> duckdb.DuckDBPyConnection:
    """Rows by a condition.

    The parentheses keep it one condition, and a second statement in it is refused.
    """
    condition = f" WHERE ({where}\n)" if where else ""
    statement = f"SELECT * FROM {kind}{condition}"
    try:
        if kind not in (*tables.names(), PAGE_TEXTS, MAIN_TEXTS):
            raise no_table(tables, kind)
        refuse_writes(statement)
        return tables.connection.execute(
            f"SELECT * FROM {tables.shown(kind)} AS {_alias(kind)}{condition}"
        )
    except duckdb.Error as error:
        raise explained(tables, error, statement) from error


def _alias(kind: str) -> str:
    """The name by which a condition may call a table."""
    return f'"{kind.rpartition(".")[2]}"'


def _write_parquet(
    reader: CrawlReader, kind: str, where: str, path: Path, policy: UsePolicy | None
) -> int:
    """Write a Parquet file. DuckDB streams it; the state needs DuckDB only for a condition."""
    if kind in STATE and not where:
        write_state(reader, kind, path)
        # DuckDB reads the number from the footer, without the rows.
        counted = (
            duckdb.connect(":memory:")
            .execute("SELECT count(*) FROM read_parquet(?)", [str(path)])
            .fetchone()
        )
        return int(counted[0]) if counted else 0
    with _opened(reader, kind, policy) as tables:
        tables.lock(path)
        # reports a wrong condition as it was given, not as part of COPY
        _select(tables, kind, f"({where}\n) AND false" if where else "false")
        target = str(path).replace("'", "''")
        select = f"SELECT * FROM {tables.shown(kind)}" + (f" WHERE ({where}\n)" if where else "")
        copied = tables.connection.execute(
            f"COPY ({select}) TO '{target}' (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
        ).fetchone()
        return int(copied[0]) if copied else 0


def _write_jsonl(names: Sequence[str], rows: Iterable[tuple[Any, ...]], out: TextIO) -> int:
    count = 0
    for row in rows:
        out.write(
            json_text({name: json_cell(value) for name, value in zip(names, row, strict=True)})
            + "\n"
        )
        count += 1
    return count


def _write_csv(
    names: Sequence[str], rows: Iterable[tuple[Any, ...]], out: TextIO, style: CsvStyle
) -> int:
    out.write(_csv_line(names))
    count = 0
    for row in rows:
        out.write(_csv_line([_csv_cell(value, style) for value in row]))
        count += 1
    return count


def _csv_line(cells: Sequence[str]) -> str:
    """A line by RFC 4180, but with Unix line ends.

    Python's writer would leave a carriage return unquoted then.
    """
    if len(cells) == 1 and not cells[0]:
        return '""\n'  # an empty line would not count as a row
    quoted = (
        f'"{each.replace(_QUOTE, _QUOTE * 2)}"' if _NEEDS_QUOTES(each) else each for each in cells
    )
    return ",".join(quoted) + "\n"


# The table ``text`` of exports: the newest text of each page with what a corpus is chosen by.
#
# The table ``texts`` has the text of each capture. A corpus needs one of each page, and next to it
# the language, which other page has nearly the same text, and what the site says about its use.


PAGE_TEXTS, MAIN_TEXTS = "text", "main_text"
"""The names of the table: of the visible text, and of the main text where a page has one."""
# The newest rows are found by two narrow columns: texts are read once, and never sorted.
_VIEW = """
CREATE VIEW {view} AS
SELECT t.url, t.fetch_time, t.title, t.language,
    {text},
    t.text_from,
    nullif(coalesce(nullif(p.duplicate_of, t.url), p.near_duplicate_of), t.url) AS duplicate_of,
    p.canonical_url, p.content_mime_detected, p.license, p.use_search, p.use_ai_train,
    p.use_ai_input, p.may_use, p.noindex, t.fetch_number, t.warc_record_id
FROM {texts} t
JOIN (SELECT max_by(warc_record_id, (fetch_time, fetch_number)) AS newest
    FROM {texts} GROUP BY url) n ON t.warc_record_id = n.newest
JOIN {pages} p ON p.warc_record_id = t.warc_record_id
{content}
WHERE p.fetch_status BETWEEN 200 AND 299
"""
_VISIBLE = "t.text, false AS is_main"
_MAIN = "coalesce(c.main_text, t.text) AS text, c.main_text IS NOT NULL AS is_main"
_JOIN_CONTENT = f"LEFT JOIN {CONTENT} c ON c.warc_record_id = t.warc_record_id"


def tables_of_texts(reader: CrawlReader, kind: str) -> list[str]:
    """The tables that must be filled for an export of ``kind``: for any other table that one.

    Raises ``SqlError`` for the main text of a crawl that does not store it.
    """
    if kind == MAIN_TEXTS and not load_saved_settings(reader).config.store.content:
        raise SqlError(
            "the crawl stores no main text; crawl with --set store.content=true, or leave out"
            " --main for the visible text"
        )
    return {PAGE_TEXTS: [TEXTS, PAGES], MAIN_TEXTS: [TEXTS, PAGES, CONTENT]}.get(kind, [kind])


def create_page_texts(connection: duckdb.DuckDBPyConnection, kind: str) -> None:
    """Create the view of this name; nothing for other tables."""
    if kind in (PAGE_TEXTS, MAIN_TEXTS):
        is_main = kind == MAIN_TEXTS
        text, content = (_MAIN, _JOIN_CONTENT) if is_main else (_VISIBLE, "")
        connection.execute(
            _VIEW.format(view=kind, texts=TEXTS, pages=PAGES, text=text, content=content)
        )
