"""Kinds of rows of a partition's table are told apart by the first byte of their key."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from lycosa.state.kv import table_records

_VALUES = {"bytes": b"12345678", "int": 1, "str": "x", "bool": True}


def prefixes() -> dict[str, str]:
    """By function that makes keys, the letter that they begin with."""
    made = {}
    for name, function in inspect.getmembers(table_records, inspect.isfunction):
        if name.endswith("_key") and function.__module__ == table_records.__name__:
            values = [
                _VALUES[str(each.annotation)]
                for each in inspect.signature(function).parameters.values()
            ]
            made[name] = chr(function(*values)[0])
    return made


def test_no_two_kinds_of_rows_begin_with_the_same_letter() -> None:
    made = prefixes()
    assert len(made) >= 12
    del made["waiting_key"]  # the place of a host: in a front queue or in a line
    del made["story_key"]  # behind that of the render that it belongs to
    assert sorted(made.values()) == sorted(set(made.values())), made
    assert table_records.LINE_PREFIX.decode() not in made.values()


def test_the_table_of_keys_names_each_letter_once() -> None:
    told = re.findall(r"``([A-Za-z])(?: [^`]*)?``", (table_records.__doc__ or "").split("\n\n")[2])
    assert sorted(told) == sorted(set(told)), told
    assert set(prefixes().values()) <= set(told)


def test_the_documentation_names_each_kind_of_row() -> None:
    page = Path(__file__).parents[2] / "docs" / "formats-state.md"
    rows = set(re.findall(r"`([A-Za-z]) [^`]*`|`M:|`([A-Z])front`", page.read_text("utf-8")))
    named = {letter for found in rows for letter in found}
    assert set(prefixes().values()) - named == set()
