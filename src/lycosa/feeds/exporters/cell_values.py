"""Values of rows as CSV, SQLite and PostgreSQL store them.

In a row of a feed a time is microseconds since 1970 or ISO 8601, as in items; lists and JSON are
what JSON has. What a target has no type for becomes text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode
Convert = Callable[[Any], Any]


def moment_of(value: int | str) -> datetime:
    """The time of a value of type ``time``."""
    if isinstance(value, str):
        found = datetime.fromisoformat(value)
        return found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    return _EPOCH + timedelta(microseconds=value)


def moment_text(value: int | str) -> str:
    """ISO 8601 in UTC, with microseconds always, so that texts sort as times do."""
    return moment_of(value).isoformat(timespec="microseconds").replace("+00:00", "Z")


def text_of_json(value: Any) -> str:
    """The text of a list, or of a value of type ``json``."""
    return _encode(value).decode()


def day_of(value: str) -> date:
    """The day of a value of type ``date``."""
    return date.fromisoformat(value)


def signed(value: int) -> int:
    """The same 64 bits as a signed number, for targets that have no others (a SimHash)."""
    return value - (1 << 64) if value >> 63 == 1 else value


def _same(value: Any) -> Any:
    return value


PLAIN: Mapping[str, Convert] = {"time": moment_text, "json": text_of_json}
"""For CSV, by type; others as they are, lists as JSON."""


def converter(kind: str, table: Mapping[str, Convert] = PLAIN) -> Convert:
    """How a value of a column of this type is stored; null is always null."""
    convert = table.get(kind) or (text_of_json if kind.startswith("list[") else _same)
    return lambda value: None if value is None else convert(value)


def stored_values(convert: Sequence[Convert], values: Sequence[Any]) -> list[Any]:
    """The values of a row, each converted."""
    return [each(value) for each, value in zip(convert, values, strict=True)]
