"""Rules and sinks of installed packages, from ``lycosa.scope_rules`` and ``lycosa.page_sinks``.

These are groups of entry points. The supervisor looks them up once, because importing the library
that searches the installed packages takes some 30 ms. Workers load the objects by name.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

import msgspec


class Plugins(msgspec.Struct, frozen=True):
    """The registered objects as ``module:object``, in the order of the entry points' names."""

    rules: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()


def registered() -> Plugins:
    """The entry points of the installed packages."""
    from importlib.metadata import entry_points  # here, because workers import this module as well

    def of(group: str) -> tuple[str, ...]:
        points = sorted(entry_points(group=group), key=lambda point: point.name)
        return tuple(f"{point.module}:{point.attr}" for point in points)

    return Plugins(of("lycosa.scope_rules"), of("lycosa.page_sinks"))


def loaded(names: tuple[str, ...]) -> tuple[Any, ...]:
    """Import the named objects. Raises ``ImportError`` or ``AttributeError`` for a missing one."""
    return tuple(resolve_name(name) for name in names)
