"""Items: what an extractor makes of a page. The fields of an item become columns of a table.

A type that no column can have is refused when the extractor is registered. The values of each item
are checked as well, because Python does not: a price that is text would be found when the table is
built, long after the page was read.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from msgspec import inspect

from lycosa.base.model.item_schema import BadSchema, ItemColumn, ItemSchema

_TYPES: tuple[tuple[type[inspect.Type], str], ...] = (
    (inspect.BoolType, "boolean"),
    (inspect.StrType, "text"),
    (inspect.IntType, "integer"),
    (inspect.FloatType, "number"),
    (inspect.DateTimeType, "time"),
    (inspect.DateType, "date"),
    (inspect.DictType, "json"),
    (inspect.StructType, "json"),
    (inspect.DataclassType, "json"),
    (inspect.TypedDictType, "json"),
    (inspect.NamedTupleType, "json"),
    (inspect.TupleType, "json"),
    (inspect.AnyType, "json"),
)
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_NUMBERS = {frozenset({"integer", "number"}): "number"}
_ADVICE = {
    "Decimal": "write float, or str",
    "UUID": "write str",
    "Bytes": "write str, for example with base64",
    "TimeDelta": "write float: seconds",
    "Time": "write str, or datetime.datetime",
}


class Item(msgspec.Struct, frozen=True):
    """What an extractor yields. A class derived from it has fields with types::

        class Product(lycosa.Item, frozen=True):
            name: str
            price: float | None
            seen: list[str] = []

    Types are ``str``, ``int``, ``float``, ``bool``, ``datetime.datetime`` (UTC if it has no zone),
    ``datetime.date``, enumerations and literals of these, lists of these, and for JSON ``dict``,
    ``Any`` and other structs; each of them also with ``| None``.
    """


class ItemMisfit(ValueError):
    """An item has a value that its field does not allow; the message names the field."""


def item_schema(name: str, version: int, made: type[Item]) -> ItemSchema:
    """The columns of an item class. Raises ``BadSchema``, which names field and type."""
    if not (isinstance(made, type) and issubclass(made, Item)):
        raise BadSchema(f"{name}: {made!r} is not a class derived from lycosa.Item")
    info = inspect.type_info(made)
    assert isinstance(info, inspect.StructType)
    columns = []
    for field in info.fields:
        kind, optional = _column_type(field.type)
        if not kind:
            said = _type_name(field.type)
            advice = _ADVICE.get(said, "see lycosa.Item for the types that there are")
            raise BadSchema(
                f"{name}: the field {made.__name__}.{field.name} has the type {said}, which no"
                f" column has; {advice}"
            )
        columns.append(ItemColumn(field.name, kind, optional))
    return ItemSchema(name, version, tuple(columns))


class ItemWriter:
    """Makes rows of the items of one class: JSON values in the order of the columns."""

    def __init__(self, schema: ItemSchema, made: type[Item]) -> None:
        self._schema, self._made = schema, made
        self._fields: list[tuple[str, Callable[[Any], Any]]] = [
            (each.name, _CONVERTED.get(each.type.removeprefix("list[").removesuffix("]"), _plain))
            for each in schema.columns
        ]

    def row(self, item: object) -> list[Any]:
        """The row of an item. Raises ``ItemMisfit``."""
        if not isinstance(item, self._made):
            said = f"{type(item).__name__} was yielded, not {self._made.__name__}"
            raise ItemMisfit(said)
        try:
            # A struct that is made in Python is not checked by msgspec, so it is made once more.
            sound = msgspec.convert(msgspec.structs.asdict(item), self._made, from_attributes=True)
            row = [_value(convert, getattr(sound, name)) for name, convert in self._fields]
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise ItemMisfit(f"{self._made.__name__}: {error}") from None
        if wrong := self._schema.misfit(row):
            raise ItemMisfit(f"{self._made.__name__}: {wrong}")
        return row


def _column_type(found: inspect.Type) -> tuple[str, bool]:
    """The type of a column, empty if there is none, and whether it is optional."""
    if isinstance(found, inspect.Metadata):
        return _column_type(found.type)
    if isinstance(found, inspect.UnionType):
        types = [each for each in found.types if not isinstance(each, inspect.NoneType)]
        kinds = {_column_type(each)[0] for each in types}
        kind = kinds.pop() if len(kinds) == 1 else _NUMBERS.get(frozenset(kinds), "")
        return kind, len(types) < len(found.types)
    if isinstance(found, inspect.EnumType):
        return _kind_of({type(each.value) for each in found.cls}), False
    if isinstance(found, inspect.LiteralType):
        return _kind_of({type(each) for each in found.values}), False
    if isinstance(found, _LISTS):
        of, is_optional = _column_type(found.item_type)
        is_list = of not in ("", "json") and not of.startswith("list[") and not is_optional
        return (f"list[{of}]" if is_list else "json" if of else ""), False
    return next((kind for each, kind in _TYPES if type(found) is each), ""), isinstance(
        found, inspect.AnyType
    )


def _kind_of(types: set[type]) -> str:
    return {frozenset({str}): "text", frozenset({int}): "integer"}.get(frozenset(types), "")


def _type_name(found: inspect.Type) -> str:
    if isinstance(found, inspect.CustomType):
        return found.cls.__name__
    if isinstance(found, inspect.UnionType):
        return " | ".join(_type_name(each) for each in found.types)
    if isinstance(found, _LISTS):
        return f"list[{_type_name(found.item_type)}]"
    return type(found).__name__.removesuffix("Type")


def _value(convert: Callable[[Any], Any], value: Any) -> Any:
    if value is None:
        return None
    if convert is _json:
        return convert(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        found = [convert(each) for each in value]
        # the order of a set differs from process to process
        return sorted(found) if isinstance(value, (set, frozenset)) else found
    return convert(value)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def _number(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number that a table has; use None")
    return value


def _time(value: datetime) -> int:
    """Microseconds since 1970."""
    zoned = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _date(value: date) -> str:
    return value.isoformat()


def _json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


_CONVERTED: dict[str, Callable[[Any], Any]] = {
    "number": _number,
    "time": _time,
    "date": _date,
    "json": _json,
}
