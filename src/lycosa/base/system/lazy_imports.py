"""Packages whose names are imported at their first use (PEP 562).

Importing any module of a package runs the package's ``__init__``. If that imported all modules of
the package, then a process that needs only a file's name would load numpy, pyarrow or libcurl, and
so would each process of a crawl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    ``homes`` maps each module of the package to the names to take from it, separated by spaces.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}
    assert not modules.keys() & homes.keys(), (
        "a name must differ from its module: after the import it would mean the module"
    )

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return find
