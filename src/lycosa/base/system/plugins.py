"""Rules and sinks of installed packages, from ``lycosa.scope_rules`` and ``lycosa.page_sinks``.

These are groups of entry points. What is installed is never active by itself: a package that came
as the dependency of another one must not change a crawl. The settings name what is active. They
name entry points and not modules, so a program that may write settings cannot make a node run other
code than what its administrator installed for this purpose.

The supervisor looks entry points up once, because importing the library that searches the installed
packages takes some 30 ms. Workers load the objects by name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import msgspec

from lycosa.base.config.sections import ExtensionSection
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.code_failure import PROGRAM

_GROUPS = {"rules": "lycosa.scope_rules", "sinks": "lycosa.page_sinks"}


class Plugins(msgspec.Struct, frozen=True):
    """The objects that are active, as ``module:object`` or ``FILE.py:object``.

    ``path`` are folders in which a worker finds modules of the program that started it. ``pages``
    is the socket at which that program takes pages; empty when none of its sinks wants them.
    """

    rules: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    pages: str = ""


class InstalledExtension(msgspec.Struct, frozen=True):
    """An entry point of an installed package; ``setting`` is ``rules`` or ``sinks``."""

    setting: str
    name: str
    target: str
    package: str
    version: str

    def is_named(self, names: Iterable[str]) -> bool:
        """Whether settings name it, with its package or without."""
        return self.name in names or f"{self.package}/{self.name}" in names

    def __str__(self) -> str:
        return f"{self.name} ({self.package} {self.version})"


def installed_extensions() -> list[InstalledExtension]:
    """The entry points of the installed packages, in the order of their names."""
    from importlib.metadata import entry_points  # here, because workers import this module as well

    found = []
    for setting, group in _GROUPS.items():
        for point in entry_points(group=group):
            package, version = (
                (point.dist.name, point.dist.version) if point.dist is not None else ("?", "")
            )
            target = f"{point.module}:{point.attr}"
            found.append(InstalledExtension(setting, point.name, target, package, version))
    return sorted(found, key=lambda each: (each.setting, each.name, each.package))


def active_plugins(
    section: ExtensionSection, found: Iterable[InstalledExtension] | None = None
) -> Plugins:
    """What the settings name, in their order.

    Raises ``SettingsError`` for what is not installed.
    """
    if not (section.rules or section.sinks):
        return Plugins()
    there = list(installed_extensions() if found is None else found)
    problems: list[str] = []
    rules = _chosen("rules", section.rules, there, problems)
    sinks = _chosen("sinks", section.sinks, there, problems)
    if problems:
        raise SettingsError(problems)
    return Plugins(rules, sinks)


def _chosen(
    setting: str, names: Iterable[str], found: list[InstalledExtension], problems: list[str]
) -> tuple[str, ...]:
    there, chosen = [each for each in found if each.setting == setting], []
    for name in names:
        named = [each for each in there if each.is_named([name])]
        if len(named) == 1:
            chosen.append(named[0].target)
        elif named:
            which = " or ".join(f"{each.package}/{each.name}" for each in named)
            problems.append(f"extensions.{setting}: several packages have {name!r}; name {which}")
        else:
            known = ", ".join(str(each) for each in there) or "none"
            problems.append(
                f"extensions.{setting}: no installed package has {name!r} in the group"
                f" {_GROUPS[setting]} (installed: {known})"
            )
    return tuple(chosen)


def inactive_lines(section: ExtensionSection, found: Iterable[InstalledExtension]) -> list[str]:
    """A line for each extension that is installed and not active, with how to activate it."""
    return [
        f"installed, but not active: {each} in {_GROUPS[each.setting]}; to activate it, add"
        f" --set extensions.{each.setting}={each.name}"
        for each in found
        if not each.is_named(getattr(section, each.setting))
    ]


def loaded(names: tuple[str, ...]) -> tuple[Any, ...]:
    """Import the named objects. Raises ``ImportError`` or ``AttributeError`` for a missing one."""
    return tuple(_loaded(name) for name in names)


def _loaded(name: str) -> Any:
    place, _, path = name.rpartition(":")
    if not place.endswith(".py"):
        return resolve_name(name)
    found: Any = sys.modules.get(PROGRAM) or _program(Path(place))
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _program(file: Path) -> Any:
    """The program that started the workers, as a module. Its ``__name__`` is not ``__main__``."""
    spec = spec_from_file_location(PROGRAM, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = module_from_spec(spec)
    sys.modules[PROGRAM] = module  # before it runs, so that it can be asked for meanwhile
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # also sys.exit
        raise ImportError(
            f"a worker process imports {file} for its rules, and that raised"
            f" {type(error).__name__}: {error}; begin the crawl below"
            ' `if __name__ == "__main__":`'
        ) from error
    return module
