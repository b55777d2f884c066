"""Makes ``Progress`` values by the names of its numbers."""

from __future__ import annotations

from typing import Any

from lycosa.base.messages.progress import Progress


def progress_with(**given: Any) -> Progress:
    """A progress with these numbers and fields; ``hosts_STATE`` are hosts in that state."""
    numbers: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    if "longest_turn_s" in given:
        numbers["lycosa_loop_turn_seconds_max"] = given.pop("longest_turn_s")
    for name in given.keys() - set(Progress.__struct_fields__):
        counts, number = vars(Progress)[name], given.pop(name)
        if label := getattr(counts, "value", None):
            tables.setdefault(counts.metric, {})[label] = number
        else:
            (tables if isinstance(number, dict) else numbers)[counts.metric] = number
    return Progress(**given).with_numbers(numbers, tables)
