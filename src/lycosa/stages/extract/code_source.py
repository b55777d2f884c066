"""Loads user code by name: ``./shop.py:products``, or ``package.module:products``.

The digest is the SHA-256 of the module's source, so that a crawl can tell which code made a row.
Modules that it imports are not in the digest. Code is loaded only where it runs: importing it runs
it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from zipimport import zipimporter

import msgspec

from lycosa.base.model.code_failure import failure_in
from lycosa.base.model.known_code import CodeError, CodePart, KnownCode, split_name
from lycosa.base.system.code_file import PACKAGE, CodeFile, UnreadableCode, read_code
from lycosa.stages.extract.user_code_marks import ItemExtractor, LinkFinder, LinkScorer, Marked

_MARKED = (ItemExtractor, LinkFinder, LinkScorer)
_PREFIX = "lycosa_extension_"
"""Before the name of a module of a file, so that ``json.py`` does not replace another module."""


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
    is_file = place.endswith(".py") or "/" in place
    file = Path(path or place).resolve() if path or is_file else _file_of(place)
    try:
        source = read_code(file)
    except UnreadableCode as error:
        raise CodeError(f"{name}: {error}") from None
    found = source.digest
    if digest and found != digest:
        raise CodeError(
            f"{name}: {file} has changed: its SHA-256 is {found}, and {digest} was expected"
        )
    is_named = not path and not is_file
    try:
        module = importlib.import_module(place) if is_named else _module(place, file, source, path)
    except BaseException as error:  # also sys.exit
        if isinstance(error, KeyboardInterrupt):
            raise
        failure = failure_in("extension", name, error)
        said = f": {failure.message}" if failure.message else ""
        raise CodeError(f"{name}: importing it raised {failure.error}{said}") from error
    return LoadedCode(name, found, _objects(name, module, attribute), "" if is_named else str(file))


def known_of(code: LoadedCode) -> KnownCode:
    """The description of code that is loaded."""
    return KnownCode(
        code.name, code.path, code.digest, tuple(_part_of(each) for each in code.objects)
    )


def _part_of(marked: Marked) -> CodePart:
    kind = called_kind(marked)
    if isinstance(marked, ItemExtractor):
        schema = marked.schema
        return CodePart(kind, schema.name, marked.match, schema.version, schema.fields_text)
    version = getattr(marked, "version", 1)
    return CodePart(kind, getattr(marked, "__name__", "?"), marked.match, version)


def called_kind(marked: object) -> str:
    """The kind of a marked function, as failures name it."""
    if isinstance(marked, ItemExtractor):
        return "extractor"
    return "links" if isinstance(marked, LinkFinder) else "score"


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


def _module(place: str, file: Path, source: CodeFile, copy: str | Path) -> ModuleType:
    """Run the source of a file, or a package in a folder or in an archive, as a module."""
    stem = place.rstrip("/").removesuffix(".py").rpartition("/")[2]
    if source.suffix == PACKAGE:
        return _package(stem.rpartition(".")[2], file)
    if not copy and (folder := str(file.parent)) not in sys.path:
        sys.path.append(folder)  # behind all others: nothing there replaces what is installed
    module = ModuleType(_PREFIX + stem.rpartition(".")[2])
    # the messages name the file of the user, not its copy
    module.__file__ = shown = f"{stem}.py" if copy else str(file)
    if "." in stem:
        module.__package__ = stem.rpartition(".")[0]  # of an installed module
    sys.modules[module.__name__] = module  # structs look for their annotations there
    exec(compile(source.content, shown, "exec"), module.__dict__)
    return module


def _package(name: str, file: Path) -> ModuleType:
    """Run a package. Its modules import each other by its name, whatever else has that name."""
    if file.is_dir():
        spec = importlib.util.spec_from_file_location(
            name, file / "__init__.py", submodule_search_locations=[str(file)]
        )
    else:
        spec = zipimporter(str(file)).find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no package {name} in {file}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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
                f" @lycosa.score, it is a {type(each).__name__}"
            )
    if not several:
        raise CodeError(f"{name}: {attribute} is empty")
    return several
