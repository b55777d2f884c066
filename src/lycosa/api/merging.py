"""Lists of several owners as one.

Each row has ``order``, a text by which all owners sort, and ``cursor``, which continues the list
after that row at every owner. So a merged list can be cut anywhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

import msgspec

from lycosa.api.answers import MergedList
from lycosa.calls import Found

_decode_rows = msgspec.json.Decoder(list[dict[str, Any]]).decode


def decoded_rows(found: Found) -> list[dict[str, Any]]:
    """The rows of one answer. Raises ``msgspec.DecodeError``."""
    return _decode_rows(found.rows)


def merged(answers: Mapping[int, Found], most: int, silent: list[int]) -> MergedList:
    """The first ``most`` rows of all answers, by partition, in their common order.

    Behind the cursor of an answer that its time budget cut, other rows of that partition may
    follow. So the list ends before the first such place.
    """
    lists = [decoded_rows(found) for found in answers.values()]
    cuts = [found.cursor for found in answers.values() if found.is_partial and found.cursor]
    known_to = min(cuts, default="")
    rows: list[dict[str, Any]] = []
    has_more = any(found.cursor for found in answers.values())
    is_partial = any(found.is_partial for found in answers.values())
    for row in heapq.merge(*lists, key=lambda row: str(row.get("order", ""))):
        if len(rows) == most or (known_to and str(row.get("cursor", "")) > known_to):
            has_more = True
            break
        rows.append(row)
    last = str(rows[-1].get("cursor", "")) if rows else known_to
    return MergedList(
        rows=[_shown(row) for row in rows],
        cursor=(last if len(rows) == most else known_to or last) if has_more else "",
        wall=min((found.wall for found in answers.values()), default=0.0),
        is_partial=is_partial or any(getattr(found, "is_cut", False) for found in answers.values()),
        silent=silent,
    )


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("order", "cursor")}
