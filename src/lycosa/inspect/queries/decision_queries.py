"""The log of operators' decisions of one partition, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from lycosa.inspect.committed_state import TableView
from lycosa.stages.frontier.decision_log import ActionRow, action_number, decode_action
from lycosa.state.kv.table_records import action_key, meta_key

_LAST = meta_key("actions")
_BLOCK = 64
_LATEST_US = (1 << 62) - 1
_SHOWN_OF_HOST = 20


def decisions_behind(view: TableView, after: str) -> Iterator[dict[str, Any]]:
    """The decisions behind a cursor. May raise ``OutOfTime``."""
    for number, row in decisions_backwards(view):
        mark = f"{_LATEST_US - row.date_us:016x}{view.number:06x}{number:012x}"
        if mark > after:
            yield _listed(view, number, row) | {"order": mark, "cursor": mark}


def decisions_about(view: TableView, host: str) -> list[dict[str, Any]]:
    """The last decisions about a host, newest first. May raise ``OutOfTime``."""
    found: list[dict[str, Any]] = []
    for number, row in decisions_backwards(view):
        if row.subject == host:
            found.append(_listed(view, number, row))
            if len(found) == _SHOWN_OF_HOST:
                break
    return found


def decisions_backwards(view: TableView) -> Iterator[tuple[int, ActionRow]]:
    """All decisions with their numbers, newest first."""
    value = view.get(_LAST)
    last = int(msgspec.msgpack.decode(value)) if value is not None else 0
    while last > 0:
        first = max(last - _BLOCK + 1, 1)
        block = list(view.scan(action_key(first), action_key(last + 1)))
        if not block:
            return  # older ones are not kept
        for key, row in reversed(block):
            yield action_number(key), decode_action(row)
        last = first - 1


def _listed(view: TableView, number: int, row: ActionRow) -> dict[str, Any]:
    return {
        "by": row.by,
        "date": row.date_us / 1e6,
        "action": row.action,
        "subject": row.subject,
        "why": row.why,
        "changed": row.changed,
        "call": row.call,
        "partition": view.number,
        "number": number,
    }
