"""Loads user code by name: ``./shop.py:products``, or ``package.module:products``.

The digest is the SHA-256 of the module's source, so that a crawl can tell which code made a row.
Modules that it imports are not in the digest. Code is loaded only where it runs: importing it runs
it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from lycosa.base.model.code_failure import failure_in
from lycosa.stages.extract.user_code_marks import ItemExtractor, LinkFinder, LinkScorer, Marked

_MARKED = (ItemExtractor, LinkFinder, LinkScorer)
_PREFIX = "lycosa_extension_"
"""Before the name of a module of a file, so that ``json.py`` does not replace another module."""


class CodeError(ValueError):
    """User code cannot be loaded; the message says why."""


class LoadedCode(msgspec.Struct, frozen=True):
    """User code that is loaded.

    ``name`` is as it was given, ``digest`` the SHA-256 of the source in hexadecimal, ``path`` the
    file, empty for a module that is imported by its name. ``objects`` are its extractors, link
    finders and scorers.
    """

    name: str
    digest: str
    objects: tuple[Marked, ...]
    path: str = ""

    @property
    def extractors(self) -> list[ItemExtractor[Any]]:
        """Its extractors."""
        return [each for each in self.objects if isinstance(each, ItemExtractor)]


def load_code(name: str, path: str | Path = "", digest: str = "") -> LoadedCode:
    """Load ``FILE.py:NAME`` or ``package.module:NAME``.

    ``NAME`` is a marked function, or a list of such. ``path`` is the file with the source if it is
    not the named one; empty for that. With a ``digest``, other source is refused. Raises
    ``CodeError``.
    """
    place, attribute = split_name(name)
    is_file = place.endswith(".py")
    file = Path(path or place).resolve() if path or is_file else _file_of(place)
    try:
        source = file.read_bytes()
    except OSError as error:
        raise CodeError(f"{name}: {file} cannot be read: {error.strerror}") from None
    found = hashlib.sha256(source).hexdigest()
    if digest and found != digest:
        raise CodeError(
            f"{name}: {file} has changed: its SHA-256 is {found}, and {digest} was expected"
        )
    is_named = not path and not is_file
    try:
        module = importlib.import_module(place) if is_named else _run(Path(place), source)
    except BaseException as error:  # also sys.exit
        if isinstance(error, KeyboardInterrupt):
            raise
        failure = failure_in("extension", name, error)
        said = f": {failure.message}" if failure.message else ""
        raise CodeError(f"{name}: importing it raised {failure.error}{said}") from error
    return LoadedCode(name, found, _objects(name, module, attribute), "" if is_named else str(file))


def split_name(name: str) -> tuple[str, str]:
    """The file or module, and the object in it. Raises ``CodeError``."""
    place, _, attribute = name.rpartition(":")
    if not place or not attribute.isidentifier():
        raise CodeError(f"{name!r} is not FILE.py:NAME or package.module:NAME")
    return place, attribute


def _file_of(module: str) -> Path:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        raise CodeError(f"there is no module {module}: {error}") from None
    if spec is None or not spec.origin or not spec.has_location:
        raise CodeError(
            f"there is no module {module} with a source file; a file is named as ./NAME.py:NAME"
        )
    return Path(spec.origin)


def _run(place: Path, source: bytes) -> ModuleType:
    """Run the source of a file as a module. Its folder is where it finds its own modules."""
    folder = str(place.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # behind all others: no module of the folder replaces an installed
    module = ModuleType(_PREFIX + place.stem)
    module.__file__ = str(place)
    sys.modules[module.__name__] = module  # structs look for their annotations there
    exec(compile(source, str(place), "exec"), module.__dict__)
    return module


def _objects(name: str, module: ModuleType, attribute: str) -> tuple[Marked, ...]:
    if not hasattr(module, attribute):
        marked = [key for key, each in vars(module).items() if isinstance(each, _MARKED)]
        there = f"it has {', '.join(marked)}" if marked else "it has no function with a decorator"
        raise CodeError(f"{name}: there is no {attribute}; {there}")
    found = getattr(module, attribute)
    several = tuple(found) if isinstance(found, (list, tuple)) else (found,)
    for each in several:
        if not isinstance(each, _MARKED):
            raise CodeError(
                f"{name}: {attribute} has no decorator @lycosa.extract, @lycosa.links or"
                f" @lycosa.score, it is {type(each).__name__}"
            )
    if not several:
        raise CodeError(f"{name}: {attribute} is empty")
    return several
