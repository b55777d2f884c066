"""Rules and sinks that installed packages bring, by the entry points of ``lycosa.scope_rules`` and
``lycosa.page_sinks``.

The supervisor finds them, once, because importing the library that looks through what is installed
takes some 30 ms. Workers load them by name.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

import msgspec


class Plugins(msgspec.Struct, frozen=True):
    """What is registered, each as ``module:object``, in the order of the entry points' names."""

    rules: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()


def registered() -> Plugins:
    """What the installed packages have registered."""
    from importlib.metadata import entry_points  # here, because workers import this module as well

    def of(group: str) -> tuple[str, ...]:
        points = sorted(entry_points(group=group), key=lambda point: point.name)
        return tuple(f"{point.module}:{point.attr}" for point in points)

    return Plugins(of("lycosa.scope_rules"), of("lycosa.page_sinks"))


def loaded(names: tuple[str, ...]) -> tuple[Any, ...]:
    """The objects themselves. Raises ``ImportError`` or ``AttributeError`` when one is not
    there.
    """
    return tuple(resolve_name(name) for name in names)
