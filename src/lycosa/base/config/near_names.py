"""The name that a mistyped name probably means."""

from __future__ import annotations

from collections.abc import Iterable


def near_name(word: str, names: Iterable[str], least: float = 0.6) -> str:
    """The most similar one of ``names``; empty when none is as similar as ``least`` (0 to 1)."""
    from difflib import get_close_matches  # needed only for mistakes

    near = get_close_matches(word, list(names), 1, least)
    return near[0] if near else ""
