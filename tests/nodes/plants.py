"""Bugs that the histories of many nodes must find. Each changes the crawler's own code, which is the purpose here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

PLANTS: dict[str, str] = {}


@contextlib.contextmanager
def planted(plant: str) -> Iterator[None]:
    """The bug is there while this lasts."""
    if plant:
        raise NotImplementedError(plant)
    yield
