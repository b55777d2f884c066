"""How two texts differ, line by line, within bounds."""

from __future__ import annotations

import difflib
from textwrap import wrap

MAX_LINES, MAX_CHARACTERS = 5000, 400_000
"""The bound of a comparison: what is beyond of a text is left out, and the result says so."""

_WIDTH = 100  # of a line of text; one without line ends would be one difference
_CONTEXT = 3


def lines_of(text: str, max_lines: int = MAX_LINES) -> tuple[list[str], bool]:
    """A text in lines without empty ones, and whether the bound cut it."""
    lines: list[str] = []
    for line in text[:MAX_CHARACTERS].splitlines():
        lines += wrap(line, _WIDTH, break_on_hyphens=False)
        if len(lines) > max_lines:
            break
    return lines[:max_lines], len(text) > MAX_CHARACTERS or len(lines) > max_lines


def unified(old: list[str], new: list[str], one: str, other: str) -> list[str]:
    """The lines of a unified diff; ``one`` and ``other`` are its headings."""
    return list(difflib.unified_diff(old, new, one, other, lineterm="", n=_CONTEXT))


SideBySide = tuple[str, str, str]
"""``same``, ``changed`` or ``skipped``, and the lines of both texts; of skipped ones the number."""


def side_by_side(old: list[str], new: list[str]) -> list[SideBySide]:
    """The lines of both texts next to each other; long equal parts are skipped."""
    rows: list[SideBySide] = []
    groups = difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT)
    at = 0
    for group in groups:
        if group[0][1] > at:
            rows.append(("skipped", str(group[0][1] - at), ""))
        for kind, from_old, to_old, from_new, to_new in group:
            left, right = old[from_old:to_old], new[from_new:to_new]
            size = max(len(left), len(right))
            left += [""] * (size - len(left))
            right += [""] * (size - len(right))
            name = "same" if kind == "equal" else "changed"
            rows += [(name, one, other) for one, other in zip(left, right, strict=True)]
        at = group[-1][2]
    if rows and at < len(old):
        rows.append(("skipped", str(len(old) - at), ""))
    return rows
