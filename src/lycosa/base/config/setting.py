"""How a setting is declared: its meaning and bounds are part of its type."""

from __future__ import annotations

from typing import Any

from msgspec import Meta


def setting(text: str, **bounds: Any) -> Meta:
    """The meaning of a setting in one sentence, and its bounds (``ge``, ``le``, ``gt``, ``lt``)."""
    return Meta(description=text, **bounds)
