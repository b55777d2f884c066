"""What tables of exported rows have in common in SQLite and PostgreSQL.

A target has one table for the rows of a feed, of one crawl or several, and one for positions. A
column that a table lacks is added, so a later version of an extractor may have more fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lycosa.feeds.export_port import ExportColumn, ExportRow, ExportTable, TargetError

POSITION_TABLE = "lycosa_positions"


def quoted(name: str) -> str:
    """A name in SQL, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def sql_type(types: Mapping[str, str], kind: str) -> str:
    """The type of a column, where lists are JSON."""
    return types["json" if kind.startswith("list[") else kind]


def column_text(types: Mapping[str, str], table: ExportTable, column: ExportColumn) -> str:
    """A column in ``CREATE TABLE`` or ``ADD COLUMN``."""
    needed = " NOT NULL" if column.name in table.key else ""
    return f"{quoted(column.name)} {sql_type(types, column.type)}{needed}"


def create_statement(types: Mapping[str, str], table: ExportTable, name: str) -> str:
    """The statement that creates the table of the rows; ``name`` is quoted."""
    columns = [column_text(types, table, each) for each in table.columns]
    key = ", ".join(map(quoted, table.key))
    return f"CREATE TABLE {name} ({', '.join(columns)}, PRIMARY KEY ({key}))"


def missing_columns(
    place: str, types: Mapping[str, str], table: ExportTable, found: Mapping[str, str]
) -> list[ExportColumn]:
    """The columns that a table lacks; ``found`` has the types of those that it has.

    Raises ``TargetError`` for a table of something else, or of an incompatible version.
    """
    if lacking := [each for each in table.key if each not in found]:
        raise TargetError(
            f"{place} has no column {lacking[0]}: it is not a table of the feed {table.name};"
            " choose another name with ?table=NAME"
        )
    for each in table.columns:
        has = found.get(each.name)
        if has is not None and has != sql_type(types, each.type):
            raise TargetError(
                f"the column {each.name} of {place} is {has}, and rows now have"
                f" {sql_type(types, each.type)}: choose another table with ?table=NAME"
            )
    return [each for each in table.columns if each.name not in found]


def replaced_captures(table: ExportTable, rows: Sequence[ExportRow]) -> list[str]:
    """The captures whose rows are replaced."""
    if not table.capture:
        return []
    at = table.index(table.capture)
    return list(dict.fromkeys(row.values[at] for row in rows))


def upsert_text(table: ExportTable, name: str, marks: Sequence[str]) -> str:
    """``INSERT`` that replaces a row with the same key; ``marks`` are the parameters."""
    columns = ", ".join(map(quoted, table.names))
    kept = [quoted(each) for each in table.names if each not in table.key]
    changes = ", ".join(f"{each} = excluded.{each}" for each in kept)
    does = f"UPDATE SET {changes}" if changes else "NOTHING"
    return (
        f"INSERT INTO {name} ({columns}) VALUES ({', '.join(marks)})"
        f" ON CONFLICT ({', '.join(map(quoted, table.key))}) DO {does}"
    )
