"""Schemas of items and rows of them, for properties."""

from __future__ import annotations

import string
from datetime import date
from typing import Any

from hypothesis import strategies as st

from lycosa.base.model.item_schema import RESERVED_NAMES, TYPES, ItemColumn, ItemSchema

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=5,
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": _TEXT,
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    "boolean": st.booleans(),
    "time": st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
    "date": st.dates(date(1, 1, 1)).map(date.isoformat),
    "json": _JSON.filter(lambda value: value is not None),
}
_LOWER, _LETTERS = string.ascii_lowercase, string.ascii_letters
_names = st.builds(
    str.__add__,
    st.sampled_from(_LOWER),
    st.text(_LOWER + string.digits + "_", max_size=12),
).filter(lambda name: name not in RESERVED_NAMES)
_columns = st.builds(
    ItemColumn,
    st.builds(
        str.__add__, st.sampled_from(_LETTERS), st.text(_LETTERS + string.digits + "_", max_size=8)
    ),
    st.sampled_from(TYPES),
    st.booleans(),
)


def schemas() -> st.SearchStrategy[ItemSchema]:
    """Schemas of one to six columns of any types."""
    columns = st.lists(_columns, min_size=1, max_size=6, unique_by=lambda each: each.name.lower())
    return st.builds(ItemSchema, _names, st.integers(1, 999_999), columns.map(tuple))


def values_of(kind: str) -> st.SearchStrategy[Any]:
    """JSON values that fit a type."""
    return st.lists(values_of(kind[5:-1]), max_size=3) if kind[:5] == "list[" else _VALUES[kind]


def rows_of(schema: ItemSchema) -> st.SearchStrategy[list[Any]]:
    """Rows that fit a schema."""
    cells = [
        (st.none() | values_of(each.type)) if each.optional else values_of(each.type)
        for each in schema.columns
    ]
    return st.tuples(*cells).map(list)
