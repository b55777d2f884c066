"""Exports to files of lines: JSON lines and CSV, over a ``FeedFile``.

The position is in ``FILE.position`` with the length of the file, which is cut to that length at a
start. The file is locked while it is written, so a second exporter is refused.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from lycosa.feeds.export_port import Batch, ExportRow, ExportTable, Overtaken, TargetError
from lycosa.feeds.exporters.cell_values import converter
from lycosa.feeds.feed_file import FeedFile, FeedFileError

_Encode = Callable[[Sequence[ExportRow]], list[bytes]]
# A spreadsheet treats text that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class LineFile:
    """A file to which encoded rows are appended, as an ``Exporter``."""

    batch = Batch()

    def __init__(self, path: Path, encode: _Encode, head: bytes = b"") -> None:
        self._path, self._encode, self._head = path, encode, head
        self._file: FeedFile | None = None

    @property
    def name(self) -> str:
        return str(self._path)

    def open(self) -> str:
        """See ``Exporter``."""
        file = FeedFile(self._path)
        try:
            file.__enter__()
        except FeedFileError as error:
            raise TargetError(str(error)) from error
        self._file = file
        if file.position and self._head:
            self._check_head()
        return file.position

    def _check_head(self) -> None:
        with self._path.open("rb") as file:
            if file.read(len(self._head) + 1) == self._head + b"\n":
                return
        raise TargetError(
            f"{self._path} has other columns in its first line than the rows that come now have:"
            " give the name of a new file"
        )

    def write(self, rows: Sequence[ExportRow], before: str, after: str) -> None:
        """See ``Exporter``."""
        file = self._file
        assert file is not None, "the file is not open"
        if file.position != before:
            raise Overtaken
        lines = self._encode(rows)
        if not before and self._head:
            lines = [self._head, *lines]
        try:
            file.append(lines, after)
        except OSError:
            # What is on disk now is cut off when the file is opened again.
            self.close()
            raise

    def close(self) -> None:
        """See ``Exporter``."""
        if self._file is not None:
            self._file.__exit__(None, None, None)
        self._file = None


def json_lines_file(path: Path) -> LineFile:
    """A file of JSON lines: the rows as the feed gives them."""
    return LineFile(path, lambda rows: [row.line for row in rows])


def csv_file(path: Path, table: ExportTable, is_raw: bool = False) -> LineFile:
    """A CSV file (RFC 4180, UTF-8) whose first line has the names of the columns.

    Null is an empty field. Text that a spreadsheet would treat as a formula gets an apostrophe in
    front, unless ``is_raw``.
    """
    convert = [converter(each.type) for each in table.columns]

    def cell(at: int, value: object) -> object:
        found = convert[at](value)
        if isinstance(found, bool):
            return "true" if found else "false"
        if not is_raw and isinstance(found, str) and found.startswith(_FORMULA):
            return f"'{found}"
        return found

    def encode(rows: Sequence[ExportRow]) -> list[bytes]:
        return [_csv_line([cell(at, each) for at, each in enumerate(row.values)]) for row in rows]

    return LineFile(path, encode, _csv_line(list(table.names)))


def _csv_line(values: Sequence[object]) -> bytes:
    text = io.StringIO()
    # The file adds the end of the line; those inside of values are quoted.
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue().encode("utf-8", "replace")
