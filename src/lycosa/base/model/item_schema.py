"""The columns of the items that an extractor makes, and what a row of them may contain.

A row is stored in the journal as JSON values in the order of the columns. The header of the segment
has the columns as text, so tables are built from rows without the user's code. What a process of
user code answers is not trusted: ``misfit`` checks each row before it is stored.

    =============  =====================================  ============================
    type           JSON value in a row                    column of a table (Parquet)
    =============  =====================================  ============================
    ``text``       string                                 string
    ``integer``    integer of 64 bits                     int64
    ``number``     finite number                          double
    ``boolean``    true or false                          bool
    ``time``       integer, microseconds since 1970, UTC  timestamp, microseconds
    ``date``       string, ``2026-11-23``                 date
    ``json``       anything                               string with the JSON text
    ``list[...]``  array of one of the types but json     list
    =============  =====================================  ============================

The value of an optional column may be null. There is no null in a list.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from datetime import date

import msgspec

MAX_ITEM_BYTES = 65_536
"""Bytes of all rows of one capture, as JSON."""
MAX_COLUMNS = 200
MAX_VERSION = 999_999
SCALARS = ("text", "integer", "number", "boolean", "time", "date", "json")
TYPES = (*SCALARS, *(f"list[{each}]" for each in SCALARS if each != "json"))
RESERVED_NAMES = frozenset(
    {"pages", "fetches", "links", "content", "texts", "renders", "ccindex", "urls", "hosts"}
    | {"cdxj", "text", "warc", "journal", "items", "dlq", "changes"}
)
"""Names that an extractor cannot have: tables, feeds and folders of a crawl have them."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_OPTIONAL = "?"
_MAX_INTEGER = 2**63
_MAX_TIME_US = 253_402_300_800_000_000  # the year 10000
_MIN_TIME_US = -62_135_596_800_000_000  # the year 1
_DIGEST_CHARACTERS = 16


class BadSchema(ValueError):
    """A schema, a name or a version that cannot be stored; the message says why."""


class ItemColumn(msgspec.Struct, frozen=True):
    """One column. ``type`` is one of ``TYPES``. Only an ``optional`` one may have null."""

    name: str
    type: str
    optional: bool = False


class ItemSchema(msgspec.Struct, frozen=True):
    """The columns of one version of an extractor. Raises ``BadSchema`` if they cannot be stored.

    The name is that of the extractor: of a folder, of a table and of a feed.
    """

    name: str
    version: int
    columns: tuple[ItemColumn, ...]

    def __post_init__(self) -> None:
        check_item_name(self.name)
        if not 1 <= self.version <= MAX_VERSION:
            raise BadSchema(f"{self.name}: a version is from 1 to {MAX_VERSION}")
        if not 1 <= len(self.columns) <= MAX_COLUMNS:
            raise BadSchema(f"{self.name}: an item has from 1 to {MAX_COLUMNS} fields")
        seen = set[str]()
        for each in self.columns:
            _check_column(self.name, each)
            # SQL does not distinguish capitals.
            if each.name.lower() in seen:
                raise BadSchema(f"{self.name}: two fields are named {each.name}")
            seen.add(each.name.lower())

    @property
    def fields_text(self) -> str:
        """The columns as text, as a header stores them: ``name:text,price:number?``."""
        return ",".join(
            f"{each.name}:{each.type}{_OPTIONAL if each.optional else ''}" for each in self.columns
        )

    @property
    def digest(self) -> str:
        """The beginning of the SHA-256 of the columns, in hexadecimal."""
        return hashlib.sha256(self.fields_text.encode()).hexdigest()[:_DIGEST_CHARACTERS]

    def misfit(self, row: Sequence[object]) -> str:
        """Why a row cannot be stored, naming the column; empty if it can."""
        if len(row) != len(self.columns):
            return f"a row has {len(row)} values, and {self.name} has {len(self.columns)} fields"
        for column, value in zip(self.columns, row, strict=True):
            if value is None:
                if not column.optional:
                    return f"{column.name} is missing"
            elif not fits(column.type, value):
                return f"{column.name} is not {column.type}"
        return ""


def schema_in(name: str, version: int, fields_text: str) -> ItemSchema:
    """The schema whose columns a header has as text. Raises ``BadSchema``."""
    columns = []
    for each in fields_text.split(","):
        column, _, kind = each.partition(":")
        columns.append(ItemColumn(column, kind.removesuffix(_OPTIONAL), kind.endswith(_OPTIONAL)))
    return ItemSchema(name, version, tuple(columns))


def check_item_name(name: str) -> None:
    """Raises ``BadSchema`` for a name that an extractor cannot have."""
    if not _NAME.fullmatch(name):
        raise BadSchema(
            f"{name!r} cannot be the name of an extractor: it becomes the name of a folder and of a"
            " table, so it has lower-case letters, digits and _, and begins with a letter"
        )
    if name in RESERVED_NAMES:
        raise BadSchema(f"{name!r} cannot be the name of an extractor: a table or feed has it")


def _check_column(name: str, column: ItemColumn) -> None:
    if not _COLUMN.fullmatch(column.name):
        raise BadSchema(
            f"{name}: {column.name!r} cannot be the name of a field: it has ASCII letters, digits"
            " and _, and begins with a letter (a leading _ is for the crawler's own columns)"
        )
    if column.type not in TYPES:
        raise BadSchema(
            f"{name}: the field {column.name} has the type {column.type!r}; there are"
            f" {', '.join(TYPES)}"
        )


def fits(kind: str, value: object) -> bool:
    """Whether a JSON value that is not null may be in a column of this type."""
    if kind.startswith("list["):
        of = kind[5:-1]
        return isinstance(value, list) and all(fits(of, each) for each in value)
    if kind == "json":
        return True  # it is JSON: that is how it is stored
    return _FITS[kind](value)


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate is in no file
        return False
    return True


def _is_integer(value: object) -> bool:
    return type(value) is int and -_MAX_INTEGER <= value < _MAX_INTEGER


def _is_number(value: object) -> bool:
    return _is_integer(value) or (type(value) is float and math.isfinite(value))


def _is_time(value: object) -> bool:
    return type(value) is int and _MIN_TIME_US <= value < _MAX_TIME_US


def _is_date(value: object) -> bool:
    if not isinstance(value, str) or len(value) != 10:
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return value[4] == value[7] == "-"


_FITS = {
    "text": _is_text,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "time": _is_time,
    "date": _is_date,
}
