"""Packages whose names are loaded when they are first asked for (PEP 562).

Importing any module of a package runs the package's ``__init__``. One that imports all of its
modules makes whoever needs a file's name pay for numpy, pyarrow or libcurl, in each of a crawl's
processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``. ``homes`` maps modules of the package to the names that it
    takes from them, with blanks between.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}
    assert not modules.keys() & homes.keys(), (
        "once a module is imported, its own name in the package means the module"
    )

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return find
