"""Structured fields (RFC 9651) as the HTTP working group tests them: dictionaries and what is in
them.

Source: httpwg/structured-field-tests, in the folder ``structured-fields`` of the shared data. A case
of an item is read as the value of a dictionary's member. Cases of lists alone are left out: nothing
that Lycosa reads is such a field.
"""

from __future__ import annotations

import base64
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from http_sf import DisplayString, Token

from lycosa.base.preferences.usage_values import dictionary_members

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "structured-fields"
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(
        not DATA.is_dir(), reason="the vectors of structured fields are not beside the checkout"
    ),
]

# Cases of an item that mean something else as the value of a dictionary's member.
OTHERWISE_IN_DICTIONARIES = {
    "item.json: trailing space": "blanks and tabs may follow a member (RFC 9651 section 4.2.2)",
    "token-generated.json: 0x2c in token": "a comma begins the next member",
}


def test_every_case() -> None:
    missed: list[str] = []
    for path in sorted(DATA.glob("*.json")):
        passed, cases = 0, json.loads(path.read_text("utf-8"))
        asked = [
            case
            for case in cases
            if _text(case) is not None
            and f"{path.name}: {case['name']}" not in OTHERWISE_IN_DICTIONARIES
        ]
        for case in asked:
            name = f"{path.name}: {case['name']}"
            found = _found(case)
            if found == _expected(case) or (case.get("can_fail") and not found):
                passed += 1
            else:
                missed.append(f"{name}: {found} for {_text(case)!r}")
        print(f"structured-fields/{path.name}: passed {passed} of {len(asked)}")
    assert missed == []


def _text(case: dict[str, Any]) -> str | None:
    """The case as a dictionary; ``None`` if it has no meaning inside one."""
    text = ", ".join(case["raw"])
    if case["header_type"] == "dictionary":
        return text
    if case["header_type"] == "item":
        # White space around an item is allowed at the ends of a field, not after an equals sign.
        bare = text.strip(" ")
        return f"x={bare}" if bare else None
    return None


def _found(case: dict[str, Any]) -> Any:
    return {key: _plain(value) for key, value in dictionary_members(_text(case) or "").items()}


def _expected(case: dict[str, Any]) -> Any:
    if case.get("must_fail"):
        return {}
    if case["header_type"] == "dictionary":
        return {key: _value(member[0]) for key, member in case["expected"]}
    return {"x": _value(case["expected"][0])}


def _value(value: Any) -> Any:
    """A value of the published cases without its parameters, comparable."""
    if isinstance(value, list):
        return [_value(item[0]) for item in value]
    if isinstance(value, dict):
        kind, inner = value["__type"], value["value"]
        if kind == "binary":
            return ("binary", base64.b32decode(inner))
        return (kind, inner)
    return float(value) if isinstance(value, float) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Token):
        return ("token", str(value))
    if isinstance(value, DisplayString):
        return ("displaystring", str(value))
    if isinstance(value, datetime):
        return ("date", int(value.timestamp()))
    if isinstance(value, bytes):
        return ("binary", value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item[0]) for item in value]
    return value
