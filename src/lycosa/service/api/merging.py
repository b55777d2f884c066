"""Lists of several owners as one.

Each row has ``order``, a text by which all owners sort, and ``cursor``, which continues the list
after that row at every owner. So a merged list can be cut anywhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from lycosa.base.calls import Found
from lycosa.service.api.answers import MergedList

_decode_rows = msgspec.json.Decoder(list[dict[str, Any]]).decode

_FORMER_NAMES = (
    ("url_hash", "urlHash"),
    ("media_type", "mediaType"),
    ("redirect_to", "redirectTo"),  # of captures; in rows of URLs it never had another name
    ("record_id", "recordId"),
    ("parse_reason", "parseReason"),
)


def decoded_rows(found: Found) -> list[dict[str, Any]]:
    """The rows of one answer. Raises ``msgspec.DecodeError``."""
    return [with_both_names(row) for row in _decode_rows(found.rows)]


def decoded_about(about: bytes) -> dict[str, Any]:
    """What is known of a content. Raises ``msgspec.DecodeError``."""
    return with_both_names(msgspec.json.decode(about))


def with_both_names(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its fields under their names, and under those of the version before.

    An owner may be of either version while a cluster is upgraded.
    """
    for name, former in _FORMER_NAMES:
        if name in row and (name != "redirect_to" or "media_type" in row):
            row.setdefault(former, row[name])
        elif former in row:
            row[name] = row[former]
    return row


def merged(answers: Mapping[int, Found], most: int, silent: list[int]) -> MergedList:
    """The first ``most`` rows of all answers, by partition, in their common order.

    Behind the cursor of an answer that its time budget cut, other rows of that partition may
    follow. So the list ends before the first such place.
    """
    lists = [decoded_rows(found) for found in answers.values()]
    cuts = [found.cursor for found in answers.values() if found.is_partial and found.cursor]
    # Behind that place a partition may have rows that it did not reach in its time; rows of others
    # behind it would come out of order on the next page.
    known_to = min(cuts, default="")
    kept_to, is_cut = _kept_to(list(answers.values()), lists)
    rows: list[dict[str, Any]] = []
    has_more = any(found.cursor for found in answers.values())
    for row in heapq.merge(*lists, key=lambda row: str(row.get("order", ""))):
        mark = str(row.get("cursor", ""))
        if is_cut and mark > kept_to:
            break
        if len(rows) == most or (known_to and mark > known_to):
            has_more, is_cut = True, False
            break
        rows.append(row)
    last = str(rows[-1].get("cursor", "")) if rows else known_to
    return MergedList(
        rows=[_shown(row) for row in rows],
        marks=[str(row.get("cursor", "")) for row in rows],
        cursor=(last if len(rows) == most else known_to or last) if has_more and not is_cut else "",
        wall=min((found.wall for found in answers.values()), default=0.0),
        is_partial=any(found.is_partial for found in answers.values()),
        silent=silent,
        ordered_at=min((found.ordered_at for found in answers.values()), default=0.0),
        is_cut=is_cut,
    )


def _kept_to(answers: Sequence[Found], lists: Sequence[list[dict[str, Any]]]) -> tuple[str, bool]:
    """Behind which row an order lacks rows of some partition, and whether there is such a place."""
    ends = [
        str(rows[-1].get("cursor", "")) if rows else ""
        for found, rows in zip(answers, lists, strict=True)
        if found.is_cut and not found.cursor
    ]
    return min(ends, default=""), bool(ends)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("order", "cursor")}
