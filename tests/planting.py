"""Breaches of promises, and the planting of bugs that must lead to one: the code that a bug replaces has to exist, or finding the bug means nothing."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple


class NoSuchCode(BaseException):
    """A bug replaces code that has another name now.

    This is no ``Exception``: a history that fails for this reason has not found the bug.
    """


class Breach(AssertionError):
    """A promise was broken; says by which history."""


@contextlib.contextmanager
def breaches(seed: int, told: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Within it a history lives. Raises ``Breach``, whatever went wrong: an error inside the crawl
    is one as well. ``told`` is what happened until then.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"[:600]
        raise Breach(f"seed {seed}: {what} (history: {'; '.join(told())})") from error


class Change(NamedTuple):
    """The code of ``owner`` that is replaced by ``wrong``."""

    owner: Any
    name: str
    wrong: Any


class Plant(NamedTuple):
    """A bug that histories must find. ``plugins`` are what its histories need in addition to what
    happens in all of them.
    """

    meaning: str
    changes: Callable[[], Iterable[Change]]
    plugins: tuple[Any, ...] = ()


def code_named(owner: Any, name: str) -> Any:
    """The code that a bug replaces. Raises ``NoSuchCode``."""
    try:
        return inspect.getattr_static(owner, name)
    except AttributeError as error:
        raise NoSuchCode(f"{owner} has no {name!r}") from error


@contextlib.contextmanager
def planted(plant: Plant | None) -> Iterator[None]:
    """The bug is there while this lasts; without one, nothing is changed. Raises
    ``NoSuchCode``.
    """
    with contextlib.ExitStack() as undo:
        for owner, name, wrong in plant.changes() if plant is not None else ():
            undo.callback(setattr, owner, name, code_named(owner, name))
            setattr(owner, name, wrong)
        yield


def assert_fits(plant: str, breach: str) -> None:
    """Raises ``NoSuchCode`` when a history failed because the bug no longer fits the code around
    it: a function with other parameters than those that it is called with.
    """
    if "TypeError" in breach and "argument" in breach:
        raise NoSuchCode(f"the planted bug {plant!r} no longer fits the code: {breach[:300]}")
