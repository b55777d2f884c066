"""Planting bugs: the code that a bug replaces has to exist, or finding the bug means nothing."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any


class NoSuchCode(BaseException):
    """A bug replaces code that has another name now.

    This is no ``Exception``: a history that fails for this reason has not found the bug.
    """


def code_named(owner: Any, name: str) -> Any:
    """The code that a bug replaces. Raises ``NoSuchCode``."""
    try:
        return inspect.getattr_static(owner, name)
    except AttributeError as error:
        raise NoSuchCode(f"{owner} has no {name!r}") from error


@contextlib.contextmanager
def planted(owner: Any, name: str, wrong: Callable[[Any], Any]) -> Iterator[None]:
    """Replaces code by what ``wrong`` makes of it. Raises ``NoSuchCode``."""
    right = code_named(owner, name)
    setattr(owner, name, wrong(right))
    try:
        yield
    finally:
        setattr(owner, name, right)


def assert_fits(plant: str, breach: str) -> None:
    """Raises ``NoSuchCode`` when a history failed because the bug no longer fits the code around
    it: a function with other parameters than those that it is called with.
    """
    if "TypeError" in breach and "argument" in breach:
        raise NoSuchCode(f"the planted bug {plant!r} no longer fits the code: {breach[:300]}")
