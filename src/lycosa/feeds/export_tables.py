"""The tables of the feeds: which columns exported rows have, and what identifies a row.

The columns of ``pages``, ``dlq`` and ``changes`` are the fields of their rows, those of items the
fields of their schema. They are known before the first row, so an empty crawl has its tables too.
"""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from lycosa.base.calls import ListedChange
from lycosa.feeds.export_port import ExportColumn, ExportTable
from lycosa.state.store.feed_rows import DEAD_LETTERS, PAGES, DeadLetterRow, PageFeedRow

CHANGES_FEED = "changes"
# bool before int, of which it is a kind, as enumerations of numbers are
_TYPES = {str: "text", bool: "boolean", int: "integer", float: "number"}


def pages_table() -> ExportTable:
    """A row is a capture; ``record_id`` is that of its WARC record."""
    return ExportTable(PAGES, _columns(PageFeedRow), key=("record_id",), version="date_us")


def dead_letters_table() -> ExportTable:
    """A row is one time that a URL failed for good."""
    return ExportTable(
        DEAD_LETTERS, _columns(DeadLetterRow), key=("url8", "date_us"), version="date_us"
    )


def changes_table() -> ExportTable:
    """A row is a capture whose content is new, changed, gone or back."""
    return ExportTable(CHANGES_FEED, _columns(ListedChange), key=("id", "date"))


def _columns(row: type[msgspec.Struct]) -> tuple[ExportColumn, ...]:
    hints = get_type_hints(row, include_extras=True)
    return tuple(
        ExportColumn(each.name, _type_of(hints[each.name]), _default(each))
        for each in msgspec.structs.fields(row)
    )


def _type_of(hint: Any) -> str:
    """The type of a column; what is neither text nor a number nor a boolean is JSON."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    (kind, *others) = [each for each in kinds if each is not type(None)]
    if others or not isinstance(kind, type):
        return "json"
    return next((_TYPES[each] for each in _TYPES if issubclass(kind, each)), "json")


def _default(field: msgspec.structs.FieldInfo) -> Any:
    """What a row means that leaves the field out, as JSON has it."""
    if field.default is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default)
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default_factory())
    return None
