"""What somebody who mistyped a name probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def near_name(word: str, names: Iterable[str], least: float = 0.6) -> str:
    """The most similar one of ``names``, or nothing when none is as similar as ``least`` (0 to
    1).
    """
    from difflib import get_close_matches  # only mistakes need it

    near = get_close_matches(word, list(names), 1, least)
    return near[0] if near else ""
