"""What the commands print: exit codes, numbers, one JSON document, or tables.

Standard output has the answer and nothing else; notes and errors go to standard error. Text from
the web is printed without its control characters, because a title could otherwise rewrite the
terminal.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum, IntEnum
from typing import Any, Generic, NamedTuple, TextIO, TypeVar

from lycosa.base.system.durations import duration_parts
from lycosa.inspect.printable import clean, json_text

_BREAKS = re.compile(r"[\t\r\n]+")

__all__ = ["clean"]

_Thing = TypeVar("_Thing")

# a pipe without a reader, a terminal that was closed
_READER_GONE = frozenset({errno.EPIPE, errno.EIO})
_COUNTS = (("G", 1e9), ("M", 1e6), ("k", 1e3))
_SIZES = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


class ExitCode(IntEnum):
    """What a command returns to the shell."""

    FINISHED = 0
    INTERNAL = 1
    USAGE = 2
    LIMIT = 3
    INTERRUPTED = 4
    NOTHING_FETCHED = 5
    INCOMPLETE = 6
    BROKEN_LINKS = 7

    @property
    def meaning(self) -> str:
        """One line of text for users."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.FINISHED: "finished",
    ExitCode.INTERNAL: "internal error, or stored files are damaged",
    ExitCode.USAGE: "bad usage or configuration",
    ExitCode.LIMIT: "stopped by a limit",
    ExitCode.INTERRUPTED: "interrupted and resumable",
    ExitCode.NOTHING_FETCHED: "nothing could be fetched",
    ExitCode.INCOMPLETE: "finished, but URLs wait for their hosts or were retired with them",
    ExitCode.BROKEN_LINKS: "broken links were found",
}


class Unbroken:
    """A stream that survives the loss of its reader: later output is dropped.

    A crawl does not depend on its output.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write as a stream does, but without an error when the reader is gone."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _give_up(self, error: OSError) -> None:
        """Discard all later output and what the stream's buffer holds."""
        if error.errno not in _READER_GONE:
            raise error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def human_count(number: float) -> str:
    """``1,234``, ``12.3k``, ``4.56M``: at most three digits from ten thousand on."""
    if abs(number) < 10_000:
        return f"{number:,.0f}"
    return _scaled(number, _COUNTS, "")


def counted(number: float, what: str) -> str:
    """``1 URL``, ``2 URLs``, ``12.3k captures``."""
    return f"{human_count(number)} {what}{'' if number == 1 else 's'}"


def human_bytes(size: float) -> str:
    """``512 B``, ``10.5 MB``, decimal."""
    return f"{size:.0f} B" if abs(size) < 1000 else _scaled(size, _SIZES, " ")


def human_duration(seconds: float) -> str:
    """``0.25s``, ``12s``, ``3m 20s``, ``2h 05m``, ``3d 4h``."""
    (number, name), *rest = duration_parts(seconds)
    if not rest:
        return f"{number:g}s"
    width = 1 if name == "day" else 2
    return f"{number:g}{name[0]} {rest[0][0]:0{width}g}{rest[0][1][0]}"


def human_time(wall: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC; empty for 0, which means never."""
    if not wall:
        return ""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def emit(text: str, to: TextIO | None = None) -> None:
    """Print one line on standard output, with the characters that its encoding has."""
    out = to or sys.stdout
    try:
        out.write(text + "\n")
    except UnicodeEncodeError:
        encoding = out.encoding or "ascii"
        out.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def emit_json(document: object) -> None:
    """Print one indented JSON document: bytes in hexadecimal, times in ISO 8601."""
    text = json_text(document, 2, json_value)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # lone surrogates, or a terminal without Unicode
        text = json_text(document, 2, json_value, is_ascii=True)
    emit(text)


def json_value(value: object) -> Any:
    """A JSON value for a type that JSON lacks. Raises ``TypeError``."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat() + ("" if value.tzinfo else "Z")
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "__struct_fields__"):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return str(value)


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def emit_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str = "",
    spare: Sequence[str] = (),
) -> None:
    """Print a table: drawn on a terminal, otherwise a heading and lines with aligned columns.

    The columns ``spare`` are left out, in this order, as far as a terminal is too narrow; the table
    says so.
    """
    texts = [[clean(_cell(value)) for value in row] for row in rows]
    if is_terminal():
        _draw(columns, texts, title, spare)
        return
    if title:
        emit(title)
    widths = [max(map(len, cells)) for cells in zip(columns, *texts, strict=True)]
    for line in (columns, *texts):
        emit(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


class Column(NamedTuple, Generic[_Thing]):
    """A column of a table of things: its heading, and what it shows of one of them.

    A column with a ``spare`` number is left out on a narrow terminal, the lowest number first.
    """

    name: str
    show: Callable[[_Thing], object]
    spare: int = 0


def emit_columns(columns: Sequence[Column[_Thing]], things: Iterable[_Thing]) -> None:
    """Print an empty line and a table with a line for each thing; nothing without things."""
    rows = [[column.show(thing) for column in columns] for thing in things]
    if rows:
        spare = sorted((each for each in columns if each.spare), key=lambda each: each.spare)
        emit("")
        emit_table([each.name for each in columns], rows, spare=[each.name for each in spare])


def emit_pairs(pairs: Iterable[tuple[str, object]], indent: str = "") -> None:
    """Print names and values, one pair a line, without the empty values."""
    texts = [(name, clean(_cell(value))) for name, value in pairs]
    shown = [(name, text) for name, text in texts if text]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        emit(f"{indent}{name.ljust(width)}  {text}")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return _BREAKS.sub(" ", str(value))  # a text of several lines stays readable in its cell


_FOLDED = 16  # columns of a terminal in which a long text can be read in pieces


def fitting_columns(
    columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str], width: int
) -> list[int]:
    """The numbers of the columns of a drawn table that fit ``width``, or cannot be left out."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    kept = list(range(len(columns)))
    for name in spare:
        needed = sum(
            widths[number] if not number else min(widths[number], _FOLDED) for number in kept
        )
        if needed + 3 * len(kept) + 1 <= width:
            break
        kept.remove(columns.index(name))
    return kept


def _draw(
    columns: Sequence[str], rows: Sequence[Sequence[str]], title: str, spare: Sequence[str]
) -> None:
    from rich.console import Console  # importing rich takes 0.1 s: only for a terminal
    from rich.table import Table
    from rich.text import Text

    console = Console()
    kept = fitting_columns(columns, rows, spare, console.width)
    left_out = [name for number, name in enumerate(columns) if number not in kept]
    columns = [columns[number] for number in kept]
    rows = [[row[number] for number in kept] for row in rows]
    note = f"not shown, because the terminal is narrow: {', '.join(left_out)}; see --json"
    table = Table(title=title or None, title_justify="left", caption=note if left_out else None)
    for number, name in enumerate(columns):
        # What a row is about is read and copied, so its column is the last to be folded.
        table.add_column(name, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _scaled(number: float, units: Sequence[tuple[str, float]], space: str) -> str:
    for unit, factor in units:
        if abs(number) >= factor * 0.9995:
            scaled = number / factor
            digits = 0 if abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
            return f"{scaled:.{digits}f}{space}{unit}"
    return f"{number:.0f}"
