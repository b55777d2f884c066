"""User code as bytes: what its SHA-256 is taken of, and what is stored and sent to other machines.

A module is one file, and its code is that file. A folder with ``__init__.py`` is a package: its
code is an archive of all its ``.py`` files, which Python can import as it is. The archive is the
same bytes for the same files (sorted names, no times, no compression), so ``sha256sum`` of the
stored copy gives the digest in both cases. Other files of the folder are not part of it, nor is
what the code imports from elsewhere. Nothing is imported here, so nothing runs.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import msgspec

from lycosa.base.model.code_version import code_name

MAX_CODE_BYTES = 4_000_000
FILE, PACKAGE = ".py", ".zip"
"""How the names of stored copies end."""
_MAX_FILES = 1000
_DATE = (1980, 1, 1, 0, 0, 0)  # the first that the format has
_MODE, _UNIX = 0o644 << 16, 3


class UnreadableCode(ValueError):
    """User code cannot be read; the message says why."""


class CodeFile(msgspec.Struct, frozen=True):
    """The source of user code; ``suffix`` is ``FILE`` or ``PACKAGE``."""

    content: bytes
    suffix: str = FILE

    @property
    def digest(self) -> str:
        """Its SHA-256 in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


def read_named(given: str) -> CodeFile:
    """The source of ``FILE.py:NAME``, ``FOLDER:NAME`` or ``module:NAME``, which is not imported.

    Raises ``UnreadableCode``.
    """
    try:
        code_name(given)
    except ValueError as error:
        raise UnreadableCode(str(error)) from None
    return read_code(code_place(given.rpartition(":")[0]))


def code_place(place: str) -> Path:
    """The file or the folder of a package: that of this path, or of an installed module.

    Raises ``UnreadableCode``.
    """
    if place.endswith(FILE) or os.sep in place:
        return Path(place)
    folders, names = list(sys.path), place.split(".")
    # Not ``importlib.util.find_spec``, which imports the package that a module is in.
    for number in range(len(names)):
        spec = PathFinder.find_spec(".".join(names[: number + 1]), folders)
        if spec is None:
            break
        folders = list(spec.submodule_search_locations or ())
        if number + 1 == len(names) and spec.has_location and spec.origin:
            origin = Path(spec.origin)
            return origin.parent if origin.name == "__init__.py" else origin
    raise UnreadableCode(
        f"there is no module {place} with a source file; a file is given as ./NAME.py, a package as"
        " ./NAME"
    )


def read_code(path: Path) -> CodeFile:
    """The source of a module, or of a package in a folder or in a stored copy.

    Raises ``UnreadableCode``.
    """
    try:
        if path.is_dir():
            code = CodeFile(_archive(path), PACKAGE)
        else:
            code = CodeFile(path.read_bytes(), PACKAGE if path.suffix == PACKAGE else FILE)
    except OSError as error:
        raise UnreadableCode(
            f"{error.filename or path} cannot be read: {error.strerror}"
        ) from error
    if len(code.content) > MAX_CODE_BYTES:
        raise UnreadableCode(f"{path}: more than {MAX_CODE_BYTES:,} bytes of code")
    return code


def _archive(folder: Path) -> bytes:
    if not (folder / "__init__.py").is_file():
        raise UnreadableCode(f"{folder} is a folder without __init__.py, so it is not a package")
    name, files = folder.resolve().name, sorted(_files(folder))
    if len(files) > _MAX_FILES:
        raise UnreadableCode(f"{folder}: more than {_MAX_FILES:,} files")
    made = io.BytesIO()
    with ZipFile(made, "w", ZIP_STORED) as archive:
        for each in files:
            entry = ZipInfo(f"{name}/{each}", _DATE)
            entry.external_attr, entry.create_system = _MODE, _UNIX
            archive.writestr(entry, (folder / each).read_bytes())
    return made.getvalue()


def _files(folder: Path) -> Iterator[str]:
    """The ``.py`` files below a folder, by their paths in it; links to folders are not followed."""
    for place, inner, names in os.walk(folder):
        inner[:] = [each for each in inner if not each.startswith((".", "__pycache__"))]
        for name in names:
            if name.endswith(FILE):
                yield Path(place, name).relative_to(folder).as_posix()
