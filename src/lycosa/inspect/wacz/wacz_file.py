"""Writes the ZIP file of a WACZ: its entries one after another, each with its SHA-256 and length.

The same content gives the same bytes: entries have one order and one time, that of the archive, and
no rights of this machine. What is compressed already is stored, so that a reader can fetch a record
by its place ("Zip Compression" of WACZ 1.1.1). Files over 4 GB have the fields of ZIP64.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

_RIGHTS = 0o100644 << 16
_UNIX = 3
_FIRST_YEAR = 1980  # of the times of ZIP


class Resource(NamedTuple):
    """An entry as ``datapackage.json`` lists it: its path, ``sha256:`` and hexadecimal, bytes."""

    path: str
    hash: str
    size: int


class EntryWriter:
    """One entry that is being written; ``position`` is its length so far."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._sum, self.position = out, hashlib.sha256(), 0

    def write(self, data: bytes | memoryview) -> None:
        self._out.write(data)
        self._sum.update(data)
        self.position += len(data)

    def resource(self, path: str) -> Resource:
        """What was written."""
        return Resource(path, f"sha256:{self._sum.hexdigest()}", self.position)


class WaczFile:
    """A new ZIP file at ``path``; a context manager. ``created`` is Unix time, that of all entries.

    Raises ``OSError``.
    """

    def __init__(self, path: Path, created: float) -> None:
        moment = datetime.fromtimestamp(created, UTC)
        self._date = moment.timetuple()[:6]
        if moment.year < _FIRST_YEAR:
            self._date = (_FIRST_YEAR, 1, 1, 0, 0, 0)
        self._zip = zipfile.ZipFile(path, "w")
        self.resources: list[Resource] = []

    @contextmanager
    def add_entry(self, path: str, size: int, is_packed: bool) -> Iterator[EntryWriter]:
        """Write an entry of at most ``size`` bytes; one that ``is_packed`` is stored as it is."""
        with self._zip.open(self._info(path, size, is_packed), "w") as out:
            writer = EntryWriter(out)
            yield writer
        self.resources.append(writer.resource(path))

    def add_document(self, path: str, document: bytes) -> None:
        """Write a small entry that no resource lists: the manifest and its digest."""
        self._zip.writestr(self._info(path, len(document), False), document)

    def _info(self, path: str, size: int, is_packed: bool) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(path, self._date)
        info.compress_type = zipfile.ZIP_STORED if is_packed else zipfile.ZIP_DEFLATED
        info.external_attr, info.create_system = _RIGHTS, _UNIX
        # Decides whether the entry gets the fields of ZIP64. ReplayWeb.page finds no content behind
        # such fields in the header of an entry, so only one that needs them has them.
        info.file_size = size if size > zipfile.ZIP64_LIMIT else 0
        return info

    def __enter__(self) -> WaczFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()
